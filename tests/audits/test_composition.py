"""The audit of composition where the answer is known, by slow loops from the formulas, and what cannot change it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.audits import AuditInputs, AuditSettings, audit, measure_composition
from evenreel.audits.composition import Choices, Flatness, denied, measured_choices
from evenreel.audits.edits import Perturbed
from evenreel.errors import CorpusError
from evenreel.language import load_tagger
from evenreel.report import AuditResult
from evenreel.types import Corpus, Scores
from tests.audits.small_pairs import rows_of as rows
from tests.audits.small_readers import CLIP_IDS, CLIPS, OWN, Table, content, corpus, heard, odd, of, said

CORPUS = corpus()
WORDS = content()
TRUE = said(WORDS, 0)
SETTINGS = AuditSettings()


def result(edited: Mapping[str, Scores], texts: Mapping[str, Corpus] | None = None) -> AuditResult:
    inputs = AuditInputs(edited=edited, edited_texts=texts or {})
    return audit("composition", of(TRUE), CORPUS, SETTINGS, inputs)[0]


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


def test_the_table_of_kinds_has_the_choices_of_their_captions() -> None:
    texts = [text.replace("red", "blue").replace("a dog chases a cat", "a cat chases a dog") for text in _texts()]
    texts[0] = "something else entirely is said of this one here"
    measured = measure_composition(of(TRUE), CORPUS, {"edit": of(heard(WORDS))}, SETTINGS, {"edit": corpus(texts)})
    shown = result({"edit": of(heard(WORDS))}, {"edit": corpus(texts)})
    (table,) = (table for table in shown.tables if table.title == "By what was exchanged")
    assert [row[:3] for row in table.rows] == [
        ("edit", "same words, other places", 60), ("edit", "colour", 59), ("edit", "other", 1)
    ]  # fmt: skip
    beyond = measured.choices["edit"].choices.beyond
    assert table.rows[1][4] == pytest.approx(np.mean(beyond[2::2]))


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
    assert negation.things.note.startswith(f"{CLIPS} captions, 2 denied things.")
    above, ahead = negation.things.rows
    expected = [
        [_slow_auc(values[q], shows_denied[q], int(OWN[q])) for q in range(CLIPS)] for values in _rounded(TRUE, after)
    ]
    assert above[1:3] == pytest.approx(np.mean(expected, axis=1))
    assert negation.rise is not None and negation.rise.value == above[3] == pytest.approx(above[2] - above[1])
    for values, share in zip((TRUE, after), ahead[1:3], strict=True):
        beaten = [(values[q][shows_denied[q]] > values[q, q]).any() for q in range(CLIPS)]
        assert share == pytest.approx(100 * np.mean(beaten))
    plain = 100 * np.mean([(TRUE[q] > TRUE[q, q]).sum() < 1 for q in range(CLIPS)])
    _, before, denying, lost, *_ = negation.recalls.rows[0]
    assert (before, lost) == (pytest.approx(plain), pytest.approx(before - denying))
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


# What clips prefer, by a slow loop from the formula, and what cannot change it.


BYTES = 2**20


def choices(true: Table, edited: Table, band_bytes: int = BYTES) -> Choices:
    perturbed = Perturbed.of(of(true), corpus(), {"edit": of(edited)})
    return measured_choices(perturbed, "edit", band_bytes)


def slowly(true: Table, edited: Table) -> dict[str, list[float]]:
    """The formulas of the method page, a caption and a clip at a time."""
    true, edited = true.astype(np.float32).astype(float), edited.astype(np.float32).astype(float)
    ratios, slopes = [], []
    for q in OWN:
        others = [w for w in range(len(true)) if w != q]
        ratios.append(np.std(edited[q, others]) / np.std(true[q, others]))
        slopes.append(np.polyfit(true[q, others], edited[q, others], 1)[0])
    flat, slope = min(1.0, float(np.median(ratios))), min(1.0, float(np.median(slopes)))
    found: dict[str, list[float]] = {"chosen": [], "beyond": [], "margin": [], "blurred": []}
    for q in OWN:
        others = [w for w in range(len(true)) if w != q]
        found["chosen"].append(100.0 * (true[q, q] > edited[q, q]))
        for name, weight in (("beyond", flat), ("blurred", slope)):
            own, equal = weight * true[q, q] - edited[q, q], 1e-5 * np.std(true[q, others])
            apart = [own - (weight * true[q, w] - edited[q, w]) for w in others]
            found[name].append(100 * np.mean([0.5 if abs(one) <= equal else one > 0 for one in apart]))
        gaps = [flat * true[q, q] - edited[q, q] - (flat * true[q, w] - edited[q, w]) for w in others]
        found["margin"].append(float(np.mean(gaps) / np.std(true[q, others])))
    return found


@pytest.mark.parametrize("edit", [odd, heard])
def test_choices_are_those_of_a_slow_loop(edit: Callable[[Table], Table]) -> None:
    true = said(content(), 0)
    edited = edit(content())
    found, expected = choices(true, edited, band_bytes=5000), slowly(true, edited)
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(found, name), values, atol=1e-9)


@given(st.floats(-50, 50), st.floats(0.1, 1.0), st.floats(0.1, 1.0), st.integers(0, 9))
def test_what_all_clips_prefer_and_hubs_change_no_choice(liked: float, flatter: float, hubs: float, seed: int) -> None:
    """A caption that all clips like better, scores nearer together, or clips liked by all are no reading."""
    random = np.random.default_rng(seed)
    true = content(seed)
    edited = heard(true)
    found = choices(true, edited)
    shift = liked * random.random((len(true), 1))
    np.testing.assert_allclose(choices(true, edited + shift).beyond, found.beyond, atol=0.9)
    same = choices(true, flatter * true + shift)
    np.testing.assert_allclose((same.beyond, same.margin), (np.full(len(true), 50), np.zeros(len(true))), atol=1e-3)
    more = hubs * random.exponential(size=true.shape[1])
    level = Flatness()
    one = Choices.of(true, edited, OWN, level)
    np.testing.assert_allclose(Choices.of(true + more, edited + more, OWN, level).beyond, one.beyond, atol=0.9)


def test_clips_that_are_not_retrieved_take_no_part() -> None:
    true = np.array([[2.0, 1.0, -np.inf, 0.0], [1.0, -np.inf, 0.0, 0.5], [0.0, 1.0, 2.0, 3.0]])
    edited = np.array([[1.0, 1.0, 5.0, 0.0], [0.0, 1.0, 0.0, 0.5], [0.0, 1.0, 2.0, 3.0]])
    found = Choices.of(true, edited, np.arange(3), Flatness())
    assert found.chosen.tolist()[0] == found.beyond.tolist()[0] == 100.0
    assert np.isnan([found.chosen[1], found.beyond[1], found.margin[1], found.blurred[1]]).all()
    assert (found.chosen[2], found.beyond[2], found.margin[2]) == (50.0, 50.0, 0.0)
    assert found.margin[0] == pytest.approx(1.0 / 0.5)  # one more than the others, which have 1 and 0


def test_a_caption_without_other_clips_takes_no_part() -> None:
    found = Choices.of(np.array([[1.0, -np.inf]]), np.array([[0.0, 1.0]]), np.array([0]), Flatness())
    assert np.isnan([found.chosen[0], found.beyond[0]]).all()
