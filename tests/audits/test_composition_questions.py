"""Multiple-choice questions, by a slow loop from the formula, and of rankings of which the answers are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from evenreel.audits import AuditInputs, AuditSettings, audit, measure_composition
from evenreel.audits.composition import FALSE, KINDS, CompositionMeasures, MultipleChoice, measure_questions
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError
from evenreel.language.composition import ANSWERS, answer
from evenreel.types import Corpus, Scores

THINGS = ("dog", "owl", "ball", "tree", "spoon", "boat")
CLIPS = 180
CLIP_IDS = [f"v{number}" for number in range(CLIPS)]
CAPTION_IDS = [f"c{number}" for number in range(2 * CLIPS)]
OWN = np.arange(2 * CLIPS) // 2
SHOWN = np.arange(CLIPS) % len(THINGS)
"""The thing that each clip shows."""
ABSENT = (SHOWN[OWN] + 1 + np.arange(2 * CLIPS) % 2) % len(THINGS)
"""The thing that each caption denies, another one for each of the two of a clip."""
SETTINGS = AuditSettings()

Table = np.ndarray
Reader = Callable[[Table, Table, str], Table]


def _corpus(texts: list[str]) -> Corpus:
    captions = pl.DataFrame({"caption_id": CAPTION_IDS, "clip_id": [CLIP_IDS[own] for own in OWN], "text": texts})
    return make_corpus(pl.DataFrame({"clip_id": CLIP_IDS}), captions)


CORPUS = _corpus([f"a {THINGS[SHOWN[own]]} is there" for own in OWN])
TEXTS = _corpus([answer("true-hybrid", THINGS[SHOWN[own]], THINGS[no]) for own, no in zip(OWN, ABSENT, strict=True)])


def scores(values: Table) -> Scores:
    return Scores(values.astype(np.float32), CAPTION_IDS, CLIP_IDS)


def ranked(reader: Reader, noise: float = 1e-3) -> dict[str, Scores]:
    """Scores of all six captions: what a reader makes of whether clips show A, and N, by the name of the caption."""
    random = np.random.default_rng(3)
    has, lacks = (SHOWN[None] == thing[:, None] for thing in (SHOWN[OWN], ABSENT))
    found = {name: reader(has.astype(float), lacks.astype(float), name) for name in ANSWERS}
    return {name: scores(values + noise * random.normal(size=values.shape)) for name, values in found.items()}


def asked(edited: dict[str, Scores]) -> MultipleChoice:
    return measure_questions(CORPUS, edited, SETTINGS, TEXTS)


def named(shown: Table, absent: Table, name: str) -> tuple[list[Table], list[Table]]:
    """Whether clips show the things that a caption affirms, and those that it denies."""
    words = ANSWERS[name].split()
    by_word = {"{shown}": shown, "{absent}": absent}
    things = [(words[place - 1], by_word[word]) for place, word in enumerate(words) if word in by_word]
    return [thing for word, thing in things if word == "a"], [thing for word, thing in things if word == "no"]


def bag(shown: Table, absent: Table, name: str) -> Table:
    """The mean of what is named, whatever stands before it."""
    there, denied = named(shown, absent, name)
    return np.asarray(np.mean([*there, *denied], axis=0))


def heap(shown: Table, absent: Table, name: str) -> Table:
    """The sum of what is named, whatever stands before it."""
    there, denied = named(shown, absent, name)
    return np.asarray(np.sum([*there, *denied], axis=0))


def reads(shown: Table, absent: Table, name: str) -> Table:
    """How much is right of what is said; what is there counts most."""
    there, denied = named(shown, absent, name)
    right, wrong = [2 * thing - 1 for thing in there], [-thing for thing in denied]
    return np.asarray(np.sum([*right, *wrong], axis=0))


def popular(kind: str) -> Reader:
    """All clips like one kind of true caption best, and the false ones alike."""
    return lambda shown, absent, name: np.full(shown.shape, float(name == f"true-{kind}"))


def slowly(edited: dict[str, Scores], kind: str) -> tuple[list[float], list[float], list[list[float]]]:
    """Right answers of own clips, of others that show neither thing, and each answer of own clips, a clip at a time."""
    tables = [np.asarray(edited[name].values).astype(float) for name in (f"true-{kind}", *FALSE)]
    own, others, every = [], [], []
    for q in range(len(OWN)):
        answers = [_chosen([table[q, w] for table in tables]) for w in range(CLIPS)]
        neither = [w for w in range(CLIPS) if w != OWN[q] and SHOWN[w] not in (SHOWN[OWN[q]], ABSENT[q])]
        among = [answers[w][0] for w in neither if not np.isnan(answers[w][0])]
        own.append(100 * answers[OWN[q]][0])
        others.append(100 * float(np.mean(among)) if among else np.nan)
        every.append(answers[OWN[q]])
    return own, others, every


def _chosen(values: list[float]) -> list[float]:
    if -np.inf in values:
        return [np.nan] * 4
    top = [place for place in range(4) if values[place] == max(values)]
    return [1 / len(top) if place in top else 0.0 for place in range(4)]


def test_answers_are_those_of_a_slow_loop_with_ties_and_clips_that_are_not_retrieved() -> None:
    random = np.random.default_rng(0)
    drawn = {name: random.integers(0, 4, size=(len(OWN), CLIPS)).astype(float) for name in ANSWERS}
    drawn["false-hybrid"][:, 7] = -np.inf
    edited = {name: scores(values) for name, values in drawn.items()}
    found = measure_questions(CORPUS, edited, AuditSettings(band_bytes=5000), TEXTS)
    pooled = []
    for kind in KINDS:
        own, others, every = (np.array(one) for one in slowly(edited, kind))
        one = found.kinds[kind]
        assert (one.questions, one.clips) == (len(OWN) - 2, CLIPS - 1)
        assert one.accuracy.value == pytest.approx(np.nanmean(own))
        assert one.others == pytest.approx(np.nanmean(others[~np.isnan(own)]))
        assert one.net.value == pytest.approx(np.nanmean(own - others))
        np.testing.assert_allclose(one.chosen, 100 * np.nanmean(every, axis=0))
        pooled.append(own)
    assert found.all.accuracy.value == pytest.approx(np.nanmean(pooled))
    assert found.all.questions == 3 * (len(OWN) - 2)
    assert found.notices == ("Multiple choice: 2 captions whose own clip scores minus infinity take no part.",)


def test_captions_that_are_alike_share_the_answer() -> None:
    found = asked({name: scores(np.zeros((len(OWN), CLIPS))) for name in ANSWERS})
    for kind in KINDS:
        one = found.kinds[kind]
        assert (one.accuracy.value, one.others, one.net.value, one.p_value) == (25.0, 25.0, 0.0, 1.0)
        assert one.chosen.tolist() == [25.0] * 4
        assert found.verdict(kind) == "does not read it"


def test_a_bag_of_things_affirms_and_hears_no_denial() -> None:
    found = asked(ranked(bag))
    # 'with a dog' and 'with no dog' are alike to it, and either is nearer than what names a thing that is absent.
    assert found.kinds["affirmation"].accuracy.value == pytest.approx(50, abs=12)
    assert found.verdict("affirmation") == "reads it"
    for kind in ("negation", "hybrid"):
        assert found.kinds[kind].accuracy.value == 0.0
        assert found.kinds[kind].chosen[2] == 100.0  # 'with no dog', of a clip with a dog
        assert found.verdict(kind) == "does not read it"
    assert found.effect.value < 0


def test_a_heap_of_things_is_not_said_to_read_the_hybrid() -> None:
    """Its own clips are right more often than others, since three captions name their thing, not four."""
    found = asked(ranked(heap, noise=0))
    one = found.kinds["hybrid"]
    assert (one.accuracy.value, one.others) == (pytest.approx(100 / 3), pytest.approx(25))
    assert one.accuracy.low is not None and one.accuracy.low > 25
    assert found.verdict("hybrid") == "does not read it"
    assert found.verdict("negation") == "does not read it"


def test_a_reader_answers_all_questions() -> None:
    found = asked(ranked(reads))
    assert [found.kinds[kind].accuracy.value for kind in KINDS] == [100.0] * 3
    assert {found.verdict(kind) for kind in KINDS} == {"reads it"}
    assert found.all.accuracy.value == 100.0
    # To a clip that shows neither thing 'with no dog' is as true as 'with no owl', and nothing else is.
    assert (found.kinds["affirmation"].others, found.kinds["hybrid"].others) == (0.0, 0.0)
    assert found.kinds["negation"].others == pytest.approx(50, abs=3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_caption_that_all_clips_like_is_no_reading(kind: str) -> None:
    found = asked(ranked(popular(kind)))
    for one in KINDS:
        assert found.verdict(one) == "does not read it"
    assert [one.accuracy.value for name, one in found.kinds.items() if name == kind] == [100.0]
    assert [one.others for name, one in found.kinds.items() if name == kind] == [100.0]


def test_clips_that_show_a_named_thing_are_no_other_clips_where_the_texts_are_known() -> None:
    edited = ranked(reads)
    without = measure_questions(CORPUS, edited, SETTINGS)
    assert without.kinds["affirmation"].others == pytest.approx(100 * (CLIPS / 6 - 1) / (CLIPS - 1))  # same thing
    assert not without.excluded
    inputs = AuditInputs(edited=edited)
    notices = audit("composition", scores(np.zeros((len(OWN), CLIPS))), CORPUS, SETTINGS, inputs)[0].notices
    assert any("--edited-corpus true-hybrid=DIR" in notice for notice in notices)


def test_where_every_clip_shows_one_of_the_things_nothing_is_concluded() -> None:
    whole = _corpus([f"a {THINGS[SHOWN[own]]} and {', '.join(THINGS)}" for own in OWN])
    found = measure_questions(whole, ranked(reads), SETTINGS, TEXTS)
    one = found.kinds["hybrid"]
    assert (one.accuracy.value, one.others, found.verdict("hybrid")) == (100.0, None, "no interval")
    assert np.isnan(one.net.value)
    assert found.notices[0].startswith("Multiple choice: no clip is known to show neither of a question's things")


def _measured(edited: dict[str, Scores]) -> CompositionMeasures:
    return measure_composition(scores(np.eye(CLIPS)[OWN]), CORPUS, edited, SETTINGS)


def test_five_captions_of_six_cost_the_questions_only() -> None:
    five = {name: one for name, one in ranked(reads).items() if name != "false-hybrid"}
    with pytest.raises(
        CorpusError, match="'multiple choice' was not measured. It needs scores of six captions a clip; "
    ):
        _measured(five)
    found = _measured({**five, "role-swapped": scores(np.zeros((len(OWN), CLIPS)))})
    assert found.questions is None
    assert [*found.choices] == ["role-swapped"]
    assert any(notice.endswith("add those of false-hybrid.") for notice in found.notices)


def test_two_captions_of_a_clip_are_drawn_together() -> None:
    """As many captions as clips give intervals by the clip, not by the caption."""
    half = {name: Scores(np.asarray(one.values)[::2], CAPTION_IDS[::2], CLIP_IDS) for name, one in ranked(bag).items()}
    doubled = {
        name: scores(np.repeat(np.asarray(one.values), 2, axis=0).astype(np.float64)) for name, one in half.items()
    }
    one, two = (measure_questions(CORPUS, given, SETTINGS).kinds["affirmation"] for given in (half, doubled))
    assert (two.questions, two.clips) == (2 * one.questions, one.clips)
    assert (two.net.low, two.net.high) == pytest.approx((one.net.low, one.net.high))
    assert two.p_value == pytest.approx(one.p_value)
