"""The audit of edited clips where the answer is known to be none, where it is known, and by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.audits import AuditSettings, audit_visual, measure_perturbed
from evenreel.audits.edits.perturbed import AS_IS, CLIP_PLACINGS, Perturbed, Standings
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, ScoresError, UsageError
from evenreel.types import Scores
from tests.audits.edits.small_edits import CAPTION_IDS, CLIP_IDS, CLIPS, OWN, World, arguments, corpus, of

CORPUS = corpus()
SETTINGS = AuditSettings(resamples=200)


def settings_of(world: World, *without: str) -> tuple[Scores, dict[str, Any]]:
    """The scores of a world as they are, and the edited ones with settings."""
    clean, edited = world.scores()
    kept = {name: of(values) for name, values in edited.items() if name not in without}
    return of(clean), arguments(kept)


def test_three_captions_by_hand() -> None:
    """Of clip a, others at 1 and 3: mean 2, standard deviation 1; a falls from 4 to 2, so from 2 to 0."""
    clips = pl.DataFrame({"clip_id": ["a", "b", "c"]})
    captions = pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["a", "a"], "text": ["x", "y"]})
    ids = ["0", "1"], ["a", "b", "c"]
    clean = Scores(np.array([[4.0, 1.0, 3.0], [4.0, 5.0, 3.0]]), *ids)
    swapped = Scores(np.array([[2.0, 1.0, 5.0], [6.0, 3.0, 9.0]]), *ids)
    found = measure_perturbed(clean, make_corpus(clips, captions), **arguments({"swapped": swapped}, AuditSettings(0)))
    own, others, every = (found.standings["swapped", name] for name in CLIP_PLACINGS)
    assert found.standings[AS_IS, AS_IS].distance.tolist() == [2.0, 0.0]
    assert own.distance.tolist() == [0.0, 2.0]  # (2 - 2) / 1, (6 - 4) / 1
    assert others.distance.tolist() == [0.5, -2 / 3]  # (4 - 3) / 2, (4 - 6) / 3
    assert every.distance.tolist() == [-0.5, 0.0]
    assert found.standings[AS_IS, AS_IS].percentile.tolist() == [100.0, 50.0]
    assert own.percentile.tolist() == [50.0, 100.0]
    change = found.changes["swapped", "its clip"]
    assert (change.moved.value, change.fell.value, change.lost.value) == (2.0, 0.0, 0.0)
    assert np.isnan(change.beyond.value)
    assert change.recalls["R@1"].value == 0.0
    assert found.effect.name == "fall (swapped), SD"
    assert not found.effect.enough


def test_every_figure_by_loops() -> None:
    """Captions and clips in another order after the edit, some pairs not retrieved, and ties."""
    random = np.random.default_rng(5)
    clean, edited, control = random.integers(0, 6, (3, len(CAPTION_IDS), CLIPS)).astype(np.float64)
    edited[random.random(edited.shape) < 0.2] = -np.inf
    rows, columns = random.permutation(len(CAPTION_IDS)), random.permutation(CLIPS)
    turned = Scores(
        edited[rows][:, columns], [CAPTION_IDS[row] for row in rows], [CLIP_IDS[column] for column in columns]
    )
    wanted = arguments({"e": turned, "control": of(control)}, replace(SETTINGS, resamples=0, band_bytes=8 * CLIPS * 7))
    found = measure_perturbed(of(clean), CORPUS, **wanted)
    for placing, (of_own, of_others) in CLIP_PLACINGS.items():
        expected = [slow(clean, edited if of_own else clean, edited if of_others else clean, row) for row in range(120)]
        standing = found.standings["e", placing]
        np.testing.assert_allclose(standing.distance, [one[0] for one in expected])
        np.testing.assert_allclose(standing.percentile, [one[1] for one in expected])
    before, after, still = (
        np.array([slow(clean, one, clean, row)[0] for row in range(120)]) for one in (clean, edited, control)
    )
    change = found.changes["e", "its clip"]
    assert change.moved.value == pytest.approx(np.nanmean(abs(before - after)))
    assert change.beyond.value == pytest.approx(np.nanmean(abs(before - after) - abs(before - still)))
    assert found.effect.value == change.beyond.value
    assert found.unknown == sum(np.isnan(after) | np.isnan(before))


def slow(clean: np.ndarray, own: np.ndarray, others: np.ndarray, row: int) -> tuple[float, float]:
    """Distance and percentile of one caption's own clip."""
    mine = float(own[row, OWN[row]])
    rest = [float(others[row, column]) for column in range(clean.shape[1]) if column != OWN[row]]
    finite = [one for one in rest if np.isfinite(one)]
    distance = (mine - np.mean(finite)) / np.std(finite) if np.isfinite(mine) else float("nan")
    below = sum(one < mine for one in rest) + sum(one == mine for one in rest) / 2
    return distance, 100 * below / len(rest)


def test_a_ranking_that_is_blind_to_the_background_is_not_told() -> None:
    effects = [measure_perturbed(of_clean, CORPUS, **wanted).effect for of_clean, wanted in map(settings_of, blind())]
    assert np.mean([one.value for one in effects]) == pytest.approx(0, abs=0.05)
    assert sum(one.is_significant for one in effects) <= 1
    clean, wanted = settings_of(World(0.0, seed=1))
    quiet = audit_visual(clean, CORPUS, **wanted)
    assert quiet.sentence.startswith("That the ranking hangs on what 'background-swapped' changes cannot be told: with")


def blind() -> list[World]:
    return [World(0.0, seed=seed) for seed in range(6)]


def test_a_ranking_that_reads_the_background_is_told_by_how_much() -> None:
    """Though its clips rise as often as they fall, so that the mean fall says nothing."""
    some, more = (measure_perturbed(**with_corpus(World(weight))) for weight in (0.5, 1.0))
    assert some.effect.is_significant and more.effect.is_significant
    assert 0 < some.effect.value < more.effect.value
    fell = more.changes["background-swapped", "its clip"].fell
    assert fell.low is not None and fell.high is not None and fell.low < 0 < fell.high
    found = audit_visual(**with_corpus(World(1.0)))
    assert found.sentence.startswith("The ranking hangs on what 'background-swapped' changes: with it the clip of a ")
    assert "Beside it: " in found.sentence and "with 'entity-swapped'" in found.sentence
    assert "R@1 goes from " in found.sentence


def with_corpus(world: World) -> dict[str, Any]:
    clean, wanted = settings_of(world)
    return {"scores": clean, "corpus": CORPUS, **wanted}


def test_the_size_is_that_of_a_ranking_that_reads_nothing_else() -> None:
    """Without noise, all that moves is the match of one background, of known size in each caption's own scores."""
    world = World(1.0, noise=0.0)
    clean, edited = world.scores()
    found = measure_perturbed(**with_corpus(world))
    moved = []
    for row, column in enumerate(OWN):
        rest = np.delete(clean[row], column)
        moved.append(abs(clean[row, column] - edited["background-swapped"][row, column]) / rest.std())
    assert found.effect.value == pytest.approx(np.mean(moved))
    assert found.effect.value == found.changes["background-swapped", "its clip"].moved.value


def test_without_a_control_it_is_asked_whether_clips_fall() -> None:
    clean, wanted = settings_of(World(0.0), "control", "background-swapped")
    found = audit_visual(clean, CORPUS, **wanted)
    assert found.effect.name == "fall (entity-swapped), SD"
    assert found.effect.is_significant
    assert found.sentence.startswith("The clip of a caption falls by ")
    assert any("There are no scores of a control" in notice for notice in found.notices)
    turned = arguments({"entity-restored": clean})
    risen = audit_visual(wanted["edited"]["entity-swapped"], CORPUS, **turned)
    assert risen.sentence.startswith("The clip of a caption rises by ")


def test_scores_that_are_all_equal_move_nothing() -> None:
    flat = of(np.full((len(CAPTION_IDS), CLIPS), 0.1, np.float32))
    found = measure_perturbed(flat, CORPUS, **arguments({"e": flat, "control": flat}))
    assert (found.effect.value, found.effect.low, found.effect.high, found.effect.p_value) == (0, 0, 0, 1)
    assert found.unknown == 0


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(0.1, 10), st.floats(-5, 5))
def test_scale_and_offset_of_a_caption_do_not_matter(seed: int, scale: float, offset: float) -> None:
    random = np.random.default_rng(seed)
    own, others = random.normal(size=3), random.normal(size=(3, 7))
    one, other = Standings.of(own, others), Standings.of(scale * own + offset, scale * others + offset)
    np.testing.assert_allclose(one.distance, other.distance, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(one.percentile, other.percentile)


def test_what_not_all_scores_have_is_left_out_and_said() -> None:
    clean, wanted = settings_of(World(0.5))
    ids = CAPTION_IDS[2:], CLIP_IDS[:59]
    some = {name: Scores(one.block(slice(2, 120), slice(0, 59)), *ids) for name, one in wanted["edited"].items()}
    found = audit_visual(clean, CORPUS, **arguments(some))
    assert "Clips that are not in all of the scores: 1 left out." in found.notices
    assert "Captions that are not in all of the scores, or whose clip is not: 4 left out." in found.notices
    assert "116 captions of 58 clips, in a gallery of 59." in found.tables[0].note


def test_what_scores_use_is_said_of_each_edit() -> None:
    clean, wanted = settings_of(World(0.5))
    used = {
        "background-swapped": wanted["edited"]["background-swapped"],
        "control": of(clean.values, ("other queries",)),
    }
    found = audit_visual(clean, CORPUS, **arguments(used))
    assert "The scores of 'control' use other queries." in found.notices


def test_what_is_wrong_is_said_in_a_sentence() -> None:
    clean, _ = settings_of(World(0.0))
    with pytest.raises(UsageError, match="There are no scores after an edit"):
        audit_visual(clean, CORPUS, SETTINGS)
    with pytest.raises(UsageError, match="The only scores after an edit are of the control"):
        audit_visual(clean, CORPUS, **arguments({"control": clean}))
    with pytest.raises(CorpusError, match="share 60 clips, and 0 captions"):
        Perturbed.of(clean, make_corpus(CORPUS.clips, CORPUS.captions.clear()), {"e": clean})
    broken = of(np.where(np.eye(120, 60) > 0, np.nan, 0.0))
    with pytest.raises(ScoresError, match="caption 'c0' and video 'v0' is NaN"):
        audit_visual(clean, CORPUS, **arguments({"e": broken}))
