"""The audit where the answer is known: bags of words, readers, few clips, denied things."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from evenreel.audits import AuditInputs, AuditSettings, audit, measure_composition
from evenreel.audits.composition.kinds import kind_of
from evenreel.audits.composition.negation import denied
from evenreel.errors import CorpusError
from evenreel.language import load_tagger
from evenreel.report import AuditResult
from evenreel.types import Corpus, Scores
from tests.audits.composition.small_readers import CLIP_IDS, CLIPS, OWN, Table, content, corpus, heard, odd, of, said

CORPUS = corpus()
WORDS = content()
TRUE = said(WORDS, 0)
SETTINGS = AuditSettings()


def result(edited: Mapping[str, Scores], texts: Mapping[str, Corpus] | None = None) -> AuditResult:
    inputs = AuditInputs(edited=edited, edited_texts=texts or {})
    return audit("composition", of(TRUE), CORPUS, SETTINGS, inputs)[0]


def rows(result: AuditResult, title: str) -> dict[object, tuple[object, ...]]:
    (table,) = (table for table in result.tables if table.title.startswith(title))
    return {row[0]: row[1:] for row in table.rows}


def test_a_bag_of_words_is_said_to_read_nothing_and_a_reader_to_read() -> None:
    bag, reader = (result({"role-swapped": of(edited)}) for edited in (odd(WORDS), heard(WORDS)))
    assert bag.sentence.startswith("The ranking does not read who does what to whom, or hardly ever: clips prefer")
    assert reader.sentence.startswith("The ranking reads who does what to whom: clips prefer the true caption")
    # Every clip prefers the true caption in either, so the plain choice would say that both read.
    assert [rows(one, "Which caption")["role-swapped"][3] for one in (bag, reader)] == [100.0, 100.0]
    assert not bag.effect.is_significant and reader.effect.is_significant
    assert reader.effect.name == "choices above chance (role-swapped), points"
    assert any("no scores of a control" in notice for notice in reader.notices)


def test_a_control_that_changes_as_much_takes_the_effect_away() -> None:
    """What is blurred alike by an edit and by the control is no reading."""

    def blurred(seed: int) -> Table:
        random = np.random.default_rng(seed)
        values: Table = 0.7 * WORDS + random.normal(size=TRUE.shape)
        return values

    alone = result({"role-swapped": of(blurred(1))})
    assert alone.effect.is_significant
    assert any("may also say less of everything" in notice for notice in alone.notices)
    beside = result({"role-swapped": of(blurred(1)), "control": of(blurred(2))})
    assert not beside.effect.is_significant
    assert beside.effect.name == "choices beyond the control (role-swapped), points"
    assert [*rows(beside, "Which caption")] == ["role-swapped", "control"]
    assert "points above the control" in beside.sentence


def test_each_edit_is_measured_on_the_captions_that_it_changes() -> None:
    few, most = slice(0, 20), slice(10, CLIPS)
    found = result({"role-swapped": of(heard(WORDS), few), "attribute-swapped": of(heard(WORDS), most)})
    table = rows(found, "Which caption")
    assert [table[edit][:3] for edit in table] == [("too few to conclude", 20, 20), ("reads it", 110, 110)]
    assert found.sentence.startswith("Too few clips to conclude: 20. What was seen of 'role-swapped': clips prefer")
    assert not found.effect.enough


def test_an_edit_without_a_caption_in_common_costs_itself_only() -> None:
    other = Scores(np.ones((1, CLIPS), np.float32), ["x"], CLIP_IDS)
    found = result({"role-swapped": other, "attribute-swapped": of(heard(WORDS))})
    assert [*rows(found, "Which caption")] == ["attribute-swapped"]
    assert any(notice.startswith("'role-swapped' was not measured. The scores and") for notice in found.notices)
    with pytest.raises(CorpusError, match="'role-swapped' was not measured"):
        result({"role-swapped": other})
    found = result({"attribute-swapped": of(heard(WORDS)), "control": other})
    assert rows(found, "Which caption")["attribute-swapped"][0] == "reads it"
    assert any(notice.startswith("'control' was not measured. The scores and") for notice in found.notices)


KINDS = [
    ("a red ball", "a blue ball", "colour"),
    ("A dog chases a cat.", "A cat chases a dog.", "same words, other places"),
    ("he goes into it", "he goes out of it", "into → out of"),
    ("a b c d e f", "g h i j k l", "other"),
]


@pytest.mark.parametrize(("before", "after", "kind"), KINDS, ids=[kind for *_, kind in KINDS])
def test_kinds(before: str, after: str, kind: str) -> None:
    assert kind_of(before, after) == kind


def test_the_table_of_kinds_has_the_choices_of_their_captions() -> None:
    texts = [text.replace("red", "blue").replace("a dog chases a cat", "a cat chases a dog") for text in _texts()]
    texts[0] = "something else entirely is said of this one here"
    measured = measure_composition(of(TRUE), CORPUS, {"edit": of(heard(WORDS))}, SETTINGS, {"edit": corpus(texts)})
    kinds = {one.kind: one for one in measured.kinds}
    assert {kind: one.captions for kind, one in kinds.items()} == {
        "same words, other places": 60,
        "colour": 59,
        "other": 1,
    }
    shown = result({"edit": of(heard(WORDS))}, {"edit": corpus(texts)})
    (table,) = (table for table in shown.tables if table.title == "By what was exchanged")
    assert [row[:3] for row in table.rows] == [("edit", one.kind, one.captions) for one in measured.kinds]
    beyond = measured.choices["edit"].choices.beyond
    assert kinds["colour"].beyond.value == pytest.approx(np.mean(beyond[2::2]))


def _texts() -> list[str]:
    return CORPUS.captions["text"].to_list()


def test_what_is_denied_is_looked_for_by_a_ranking_that_hears_the_word_alone() -> None:
    """Captions of balls deny a dog, those of dogs a ball; the scores of clips that show it rise by 1."""
    dog = np.arange(CLIPS) % 2 == 1
    shows_denied = dog[None, :] != dog[:, None]
    after = TRUE + 1.0 * shows_denied
    texts = [f"{text}, with no {'ball' if has else 'dog'} in sight" for text, has in zip(_texts(), dog, strict=True)]
    measured = measure_composition(of(TRUE), CORPUS, {"negated": of(after)}, SETTINGS, {"negated": corpus(texts)})
    negation = measured.negation
    assert negation is not None and negation.things is not None
    things = negation.things
    assert (things.captions, things.things) == (CLIPS, 2)
    expected = [
        [_slow_auc(values[q], shows_denied[q], int(OWN[q])) for q in range(CLIPS)] for values in _rounded(TRUE, after)
    ]
    assert (things.before, things.after) == pytest.approx(np.mean(expected, axis=1))
    assert things.rise.value == pytest.approx(things.after - things.before)
    for values, share in zip((TRUE, after), (things.ahead_before, things.ahead_after), strict=True):
        ahead = [(values[q][shows_denied[q]] > values[q, q]).any() for q in range(CLIPS)]
        assert share == pytest.approx(100 * np.mean(ahead))
    plain = 100 * np.mean([(TRUE[q] > TRUE[q, q]).sum() < 1 for q in range(CLIPS)])
    first = negation.recalls["R@1"]
    assert (first.plain, first.lost.value) == (pytest.approx(plain), pytest.approx(first.plain - first.negated))
    assert measured.effect.name == "R@1 lost (negated), points"


def _rounded(*tables: Table) -> list[Table]:
    return [table.astype(np.float32).astype(np.float64) for table in tables]


def _slow_auc(scores: Table, holders: Table, own: int) -> float:
    other = np.arange(len(scores)) != own
    one, two = scores[other & holders][:, None], scores[other & ~holders]
    return float(100 * np.mean((one > two) + (one == two) / 2))


def test_denied_and_affirmed_captions_are_held_against_each_other() -> None:
    """Their clips like both less, for the thing that they name, so against the plain captions either would be read."""
    named = WORDS - 2 * np.eye(CLIPS)
    denied_ones = of(said(named, 5))
    assert "The ranking reads whether a thing is there" in result({"affirmed": of(odd(named))}).sentence
    found = result({"affirmed": of(odd(named)), "negated": denied_ones, "control": of(TRUE)})
    assert "The ranking does not read whether a thing is there or denied, or hardly ever" in found.sentence
    heard_it = result({"affirmed": of(heard(named)), "negated": denied_ones})
    assert heard_it.sentence.startswith("The ranking reads whether a thing is there or denied")
    assert not any("control" in notice for notice in heard_it.notices)


def test_what_a_caption_denies() -> None:
    tagged = load_tagger("pattern").tag(["there are no big dogs in the park", "a man runs", "a man without a hat"])
    assert [denied(tokens) for tokens in tagged] == ["dog", None, "hat"]
