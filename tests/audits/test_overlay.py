"""The audit of misleading words where the answer is none, where it is all there can be, by hand and by loops."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from evenreel.audits import AuditSettings, audit_overlay, measure_overlay
from evenreel.audits.edits import AS_IS
from evenreel.audits.overlay import OWN as ITS_CLIP
from evenreel.audits.overlay import WRONG
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError
from evenreel.report.page import audit_page, render
from evenreel.types import Corpus, Scores
from tests.audits.small_edits import CAPTION_IDS, CLIP_IDS, CLIPS, OWN, Table, arguments, corpus, of

SETTINGS = AuditSettings(resamples=200)
NEXT = [(number + 1) % CLIPS for number in range(CLIPS)]
"""Clip n carries words of clip n + 1."""


def marked(distractors: list[int | None] | None = None) -> Corpus:
    """The small corpus, whose clips carry words of others."""
    carried = [None if one is None else CLIP_IDS[one] for one in (distractors or NEXT)]
    plain = corpus()
    return make_corpus(plain.clips.with_columns(pl.Series("overlay_of", carried, pl.String)), plain.captions)


def read(texts: list[int], weight: float, seed: int = 0) -> Table:
    """(Q, V) noise, and so much more where a clip says what the caption's clip says."""
    noise = np.random.default_rng(seed).normal(size=(len(OWN), CLIPS))
    return noise + weight * (OWN[:, None] == np.array(texts))


def settings_of(edited: Table, control: Table | None = None) -> dict[str, Any]:
    found = {"overlay": of(edited)} | ({} if control is None else {"control": of(control)})
    return arguments(found)


def test_three_clips_by_hand() -> None:
    """The caption of a: clip c carries a's words, and a those of b.

    Others of c score 4 and 2 (mean 3, deviation 1): c goes from 1 to 6, so from -2 to 3 and from place 3 to 1. Others
    of a score 2 and 1 (1.5, 0.5): a goes from 4 to 1.5, so from 5 to 0 and from place 1 to 2.
    """
    clips = pl.DataFrame({"clip_id": ["a", "b", "c"], "overlay_of": ["b", None, "a"]})
    captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "text": ["x"]})
    ids = ["0"], ["a", "b", "c"]
    clean, edited = Scores(np.array([[4.0, 2.0, 1.0]]), *ids), Scores(np.array([[1.5, 9.0, 6.0]]), *ids)
    control = Scores(np.array([[3.5, 2.0, 2.0]]), *ids)
    asked = arguments({"overlay": edited, "control": control}, AuditSettings(0))
    found = measure_overlay(clean, make_corpus(clips, captions), **asked)
    wrong, own = found.shifts[WRONG, "overlay"], found.shifts[ITS_CLIP, "overlay"]
    assert (wrong.sd.value, wrong.places.value, wrong.first.value) == (5.0, 2.0, 100.0)
    assert (own.sd.value, own.places.value, own.first.value) == (5.0, 1.0, 100.0)
    # The control brings c to 2, which is at -1 and shares the places 2 and 3; a to 3.5, which is at 4, and still first.
    assert {unit: one.value for unit, one in wrong.beyond.items()} == {"sd": 4.0, "places": 1.5, "first": 100.0}
    assert {unit: one.value for unit, one in own.beyond.items()} == {"sd": 4.0, "places": 1.0, "first": 100.0}
    assert found.first == {AS_IS: 0.0, "overlay": 100.0, "control": 0.0}
    assert (found.effect.value, found.effect.name) == (
        4.0,
        "rise of a wrong clip by written words beyond the control (overlay), SD",
    )
    assert not found.effect.enough


def test_every_figure_by_loops() -> None:
    """Several clips carry the words of one, some carry none, scores tie, and the edited ones are in another order."""
    random = np.random.default_rng(5)
    clean, edited, control = random.integers(0, 6, (3, len(OWN), CLIPS)).astype(np.float64)
    distractors: list[int | None] = [None if one % 7 == 0 else int(random.integers(0, 12)) for one in range(CLIPS)]
    rows, columns = random.permutation(len(OWN)), random.permutation(CLIPS)
    turned = Scores(edited[rows][:, columns], [CAPTION_IDS[one] for one in rows], [CLIP_IDS[one] for one in columns])
    asked = arguments({"overlay": turned, "control": of(control)}, AuditSettings(0, band_bytes=8 * CLIPS * 7))
    found = measure_overlay(of(clean), marked(distractors), **asked)
    pairs = [
        (row, clip)
        for row, own in enumerate(OWN)
        for clip, distractor in enumerate(distractors)
        if distractor == own and distractor != clip
    ]
    falls = [(row, int(own)) for row, own in enumerate(OWN) if distractors[own] not in (None, own)]
    assert len(found.pairs.own) == len(pairs) and len({OWN[row] for row, _ in pairs}) == found.clips
    for whose, looked, sign in ((WRONG, pairs, -1), (ITS_CLIP, falls, 1)):
        before, after, still = (
            np.array([slow(clean, one, *pair) for pair in looked]) for one in (clean, edited, control)
        )
        expected = (before - after) * np.array([sign, -sign, sign])
        beyond = expected - (before - still) * np.array([sign, -sign, sign])
        shift = found.shifts[whose, "overlay"]
        np.testing.assert_allclose(
            [shift.sd.value, shift.places.value, shift.first.value], expected.mean(axis=0), atol=1e-9
        )
        np.testing.assert_allclose([one.value for one in shift.beyond.values()], beyond.mean(axis=0), atol=1e-9)
    assert found.effect.value == found.shifts[WRONG, "overlay"].beyond["sd"].value


def slow(clean: Table, changed: Table, row: int, clip: int) -> tuple[float, float, float]:
    """Distance, place and chance in percent to be first of one clip, which alone is changed."""
    mine, rest = changed[row, clip], [clean[row, one] for one in range(CLIPS) if one != clip]
    return float((mine - np.mean(rest)) / np.std(rest)), *placed(clean, changed, row, clip)


def test_a_ranking_blind_to_words_is_not_told() -> None:
    """Its scores of edited clips differ by noise alone."""
    corpus_of, effects = marked(), []
    for seed in range(0, 18, 3):
        clean, edited, control = (of(read([-1] * CLIPS, 0.0, seed + more)) for more in range(3))
        asked = arguments({"overlay": edited, "control": control})
        effects.append(measure_overlay(clean, corpus_of, **asked).effect)
    assert np.mean([one.value for one in effects]) == pytest.approx(0, abs=0.1)
    assert sum(one.is_significant for one in effects) <= 1


@given(seed=st.integers(0, 1000))
@limits(max_examples=10)
def test_scores_that_do_not_change_have_no_effect_at_all(seed: int) -> None:
    values = read([-1] * CLIPS, 0.0, seed)
    found = audit_overlay(of(values), marked(), **settings_of(values, values))
    assert (found.effect.value, found.effect.low, found.effect.high) == (0.0, 0.0, 0.0)
    assert found.sentence.startswith(
        "That the ranking follows misleading written words cannot be told: a wrong clip that"
    )
    assert found.tables[1].rows[0][1] == found.tables[1].rows[1][1]
    still = [notice for notice in found.notices if "exactly where it was" in notice]
    assert len(still) == 1
    assert "a ranking that does not read" in still[0]
    assert "nothing was changed" not in still[0]


@given(seed=st.integers(0, 1000))
@limits(max_examples=10)
def test_a_ranking_that_reads_nothing_but_words_is_led_astray_every_time(seed: int) -> None:
    """What a clip says is all that counts; the own clips say what they are about, until the overlay hides it."""
    mute, telling, lying = (read(texts, 100.0, seed) for texts in ([-1] * CLIPS, [*range(CLIPS)], NEXT))
    silent = measure_overlay(of(mute), marked(), **settings_of(lying, mute))
    carriers = [int(NEXT.index(own)) for own in OWN]
    before = np.array([slow(mute, mute, row, clip) for row, clip in enumerate(carriers)])
    assert silent.first["overlay"] == 100.0 and silent.first["control"] == pytest.approx(before[:, 2].mean())
    assert silent.shifts[WRONG, "overlay"].beyond["places"].value == pytest.approx(before[:, 1].mean() - 1)
    assert silent.effect.is_significant and silent.effect.value > 50
    assert silent.shifts[ITS_CLIP, "overlay"].places.value == 0.0
    hidden = measure_overlay(of(telling), marked(), **settings_of(lying, telling)).shifts[ITS_CLIP, "overlay"]
    left = np.array([slow(mute, mute, row, int(own)) for row, own in enumerate(OWN)])
    assert hidden.first.value == pytest.approx(100 - left[:, 2].mean())
    assert hidden.places.value == pytest.approx(left[:, 1].mean() - 1)


def test_a_ranking_that_turns_clips_with_the_words_away_is_said_to() -> None:
    clean = read([-1] * CLIPS, 0.0)
    found = audit_overlay(of(clean), marked(), **settings_of(read(NEXT, -2.0), clean))
    assert found.sentence.startswith("The ranking shuns misleading written words: a wrong clip that carries words")


def test_without_a_control_the_rise_itself_is_the_effect_and_it_is_said() -> None:
    clean = read([-1] * CLIPS, 0.0)
    found = audit_overlay(of(clean), marked(), **settings_of(read(NEXT, 2.0)))
    assert found.effect.name == "rise of a wrong clip by written words (overlay), SD"
    assert "beyond the control" not in found.sentence
    assert any("--edit overlay-control" in one for one in found.notices)


def test_a_ranking_where_most_clips_score_0_is_judged_by_places() -> None:
    """As by words alone: 50 wrong clips come to stand alone above clips that all score 0, so they have no distance."""
    clean = np.zeros((len(OWN), CLIPS))
    clean[100:] = np.random.default_rng(0).random((20, CLIPS)) / 10
    telling = OWN[:, None] == np.array(NEXT)
    edited = np.where(telling & (np.arange(len(OWN)) < 100)[:, None], 1.0, clean)
    found = measure_overlay(of(clean), marked(), **settings_of(edited, clean))
    carriers = [int(NEXT.index(own)) for own in OWN]
    before, after = (
        np.mean([placed(clean, table, row, clip) for row, clip in enumerate(carriers)], axis=0)
        for table in (clean, edited)
    )
    assert found.unknown[WRONG] == 100
    assert found.effect.name == "rise of a wrong clip by written words beyond the control (overlay), places"
    assert found.effect.value == pytest.approx(before[0] - after[0]) and found.effect.value > 20
    assert found.effect.is_significant and found.effect.p_value is not None and found.effect.p_value < 0.001
    told = audit_overlay(of(clean), marked(), **settings_of(edited, clean))
    assert told.sentence.startswith("The ranking follows misleading written words: ")
    assert f"rises by {found.effect.value:.2f} places" in told.sentence
    assert f"It is first for {after[1]:.1f}% of captions, without the words for {before[1]:.1f}%." in told.sentence
    assert "standard deviations" not in told.sentence and "nan" not in told.sentence
    assert any("Of 120 pairs of a caption and a wrong clip, 100 have no distance" in one for one in told.notices)
    assert "100 of them have no distance" in told.tables[0].note
    assert found.unknown[ITS_CLIP] == 0 and "no distance" not in told.tables[2].note
    assert "places gained, or lost" in render(audit_page([told]))


def placed(clean: Table, changed: Table, row: int, clip: int) -> tuple[float, float]:
    """Place and chance in percent to be first of one clip, which alone is changed."""
    mine, rest = changed[row, clip], [clean[row, one] for one in range(CLIPS) if one != clip]
    above, equal = sum(one > mine for one in rest), sum(one == mine for one in rest)
    return above + 1 + equal / 2, 100 / (equal + 1) if above == 0 else 0.0


def spoken(corpus: Corpus) -> Corpus:
    return make_corpus(corpus.clips.rename({"overlay_of": "voiceover_of"}), corpus.captions)


def test_spoken_words_are_measured_as_written_ones_and_all_that_is_said_names_them() -> None:
    clean, edited = read([-1] * CLIPS, 0.0), read(NEXT, 2.0)
    asked = settings_of(edited, clean)
    written, voiced = (audit_overlay(of(clean), one, **asked) for one in (marked(), spoken(marked())))
    both = written.effect, voiced.effect
    assert both[0].name == "rise of a wrong clip by written words beyond the control (overlay), SD"
    assert replace(both[0], name=both[1].name) == both[1]
    assert both[1].name == "rise of a wrong clip by spoken words beyond the control (overlay), SD"
    assert voiced.title == "Does the ranking follow misleading spoken words?"
    assert voiced.sentence.startswith("The ranking follows misleading spoken words: a wrong clip that says words of")
    for one, other in zip(written.tables, voiced.tables, strict=True):
        np.testing.assert_equal(one.rows, other.rows)
    told = json.dumps(voiced.to_json())
    assert "written words" not in told and "on screen" not in told and "spoken words" in told
    assert "How far clips move by words in a voice" in render(audit_page([voiced]))
    alone = audit_overlay(of(clean), spoken(marked()), **settings_of(edited))
    assert any("evenreel planted BIAS --edit voiceover-control" in one for one in alone.notices)


def test_what_is_wrong_is_said_in_a_sentence() -> None:
    clean, some = of(read([-1] * CLIPS, 0.0)), marked()
    nobody = marked([1, *[None] * (CLIPS - 1)]).clips
    for wrong, said in (
        (corpus(), "have no column 'overlay_of' or 'voiceover_of'.*evenreel planted scene_text --edit overlay"),
        (
            make_corpus(some.clips.with_columns(voiceover_of="overlay_of"), some.captions),
            "have both columns 'overlay_of' and 'voiceover_of'.*; take the column out",
        ),
        (
            make_corpus(nobody, some.captions.filter(pl.col("clip_id") == "v0")),
            "Of 60 clips in the scores none carries words of another one with a caption",
        ),
    ):
        with pytest.raises(CorpusError, match=said):
            audit_overlay(clean, wrong, **arguments({"overlay": clean}))
