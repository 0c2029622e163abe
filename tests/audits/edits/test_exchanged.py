"""Recall that edits of other clips cost: columns exchanged by hand, and edits that do nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from evenreel.audits import AuditSettings, measure_perturbed
from evenreel.audits.edits.exchanged import DEPTHS, lost_recall
from evenreel.audits.edits.perturbed import CLIP_PLACINGS, Perturbed
from evenreel.audits.exchange import drawn_flips
from evenreel.corpus import make_corpus
from evenreel.types import Corpus, Scores
from tests.audits.edits.small_edits import arguments

Table = Any
SHARED = {name: edited for name, edited in CLIP_PLACINGS.items() if edited[1]}


def corpus_of(clips: int, captions: int) -> Corpus:
    ids = [f"v{one}" for one in range(clips)]
    table = {"caption_id": [f"c{one}" for one in range(clips * captions)], "clip_id": np.repeat(ids, captions)}
    return make_corpus(
        pl.DataFrame({"clip_id": ids}), pl.DataFrame(table).with_columns(text=pl.lit("a ball"), clip_id="clip_id")
    )


def scores_of(values: Table) -> Scores:
    return Scores(values, [f"c{one}" for one in range(len(values))], [f"v{one}" for one in range(values.shape[1])])


def slow_recall(own: Table, others: Table, of: Table, depth: int) -> float:
    """Mean percent of captions whose own clip, scored by `own`, is among the first `depth` with `others`."""
    found = []
    for row, clip in enumerate(of):
        score, rest = own[row, clip], np.delete(others[row], clip)
        above, equal = (rest > score).sum(), (rest == score).sum()
        found.append(0.0 if score == -np.inf else 100 * min(1.0, max(0.0, (depth - above) / (equal + 1))))
    return float(np.mean(found))


@pytest.mark.parametrize("ties", [False, True])
def test_samples_are_edits_with_the_versions_of_some_clips_exchanged(ties: bool) -> None:
    random = np.random.default_rng(0)
    clean, edited = random.integers(0, 6, (2, 14, 7)) * 1.0 if ties else random.normal(size=(2, 14, 7))
    clean[3, 1] = edited[0, 0] = -np.inf
    how = AuditSettings(resamples=6, band_bytes=8)
    perturbed = Perturbed.of(scores_of(clean), corpus_of(7, 2), {"e": scores_of(edited)})
    found = lost_recall(perturbed, "e", CLIP_PLACINGS, how)
    for sample, flipped in enumerate(drawn_flips(7, how)):
        before, after = np.where(flipped, edited, clean), np.where(flipped, clean, edited)
        for placing, (of_own, of_others) in CLIP_PLACINGS.items():
            for number, depth in enumerate(DEPTHS):
                expected = slow_recall(before, before, perturbed.own, depth) - slow_recall(
                    after if of_own else before, after if of_others else before, perturbed.own, depth
                )
                assert found[placing][number, sample] == pytest.approx(expected, abs=1e-9)


def an_edit_of_nothing(seed: int, clips: int, captions: int) -> tuple[Scores, Scores]:
    """Two versions of every clip, each liked more or less by all captions, and no difference between them."""
    random, own = np.random.default_rng(seed), np.repeat(np.arange(clips), captions)
    base = random.normal(size=(len(own), clips)) + 0.6 * random.normal(size=clips)
    base[np.arange(len(own)), own] += 2.5
    first, second = (base + 0.6 * random.normal(size=clips) for _ in range(2))
    return scores_of(first), scores_of(second)


def test_an_edit_of_nothing_costs_no_recall() -> None:
    """Samples of captions report a loss in half of such worlds, where there are five captions a clip."""
    alarms = dict.fromkeys(SHARED, 0)
    for world in range(60):
        clean, edited = an_edit_of_nothing(world, 50, 5)
        settings = arguments({"e": edited}, AuditSettings(resamples=100, seed=world))
        found = measure_perturbed(clean, corpus_of(50, 5), **settings)
        for placing in SHARED:
            lost = found.changes["e", placing].recalls["R@1"]
            assert lost.low is not None and lost.high is not None
            alarms[placing] += not lost.low <= 0 <= lost.high
    assert max(alarms.values()) <= 8, alarms


def test_changes_that_all_captions_share_have_no_interval_over_captions() -> None:
    clean, edited = an_edit_of_nothing(0, 20, 1)
    found = measure_perturbed(clean, corpus_of(20, 1), **arguments({"e": edited}, AuditSettings(resamples=50)))
    for placing, (_, of_others) in CLIP_PLACINGS.items():
        change = found.changes["e", placing]
        assert [one.low is None for one in (change.moved, change.fell, change.lost)] == [of_others] * 3
        assert change.recalls["R@10"].low is not None
