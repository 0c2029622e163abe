"""Start and end of moments: sums and thresholds against slow loops, and the curves that the rule was measured on."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import moments as benchmark
from evenreel.corpus import FORMATS, select
from evenreel.evaluation.moments import load_predictions, moment_truth
from evenreel.library.search.seen import CALM, _largest_sums, _otsu, _ranges, stretches_of

GAINS = st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=14)


@given(GAINS)
def test_the_first_stretch_has_the_largest_sum_and_the_next_that_of_what_is_left(values: list[float]) -> None:
    gains = np.array(values)
    found = sorted(_largest_sums(gains), key=lambda one: -one[2])
    sums = [gains[start:stop].sum() for start, stop in combinations(range(len(gains) + 1), 2)]
    assert (found[0][2] if found else 0.0) == max(0.0, *sums)
    assert all(gains[start:stop].sum() == value > 0 for start, stop, value in found)
    assert all(one[1] <= other[0] for one, other in pairwise(sorted(found)))
    left = gains.copy()
    for start, stop, _ in found:
        left[start:stop] = -100
    assert (left <= 0).all()


@given(st.lists(st.integers(0, 50).map(float), min_size=2, max_size=12).filter(lambda one: len(set(one)) > 1))
def test_the_threshold_parts_scores_into_two_groups_of_the_least_variance(values: list[float]) -> None:
    scores, at = np.array(values), _otsu(np.array(values))

    def within(threshold: float) -> float:
        parts = scores[scores < threshold], scores[scores >= threshold]
        return sum(float(((part - part.mean()) ** 2).sum()) for part in parts if len(part))

    assert within(at) == pytest.approx(min(within(threshold) for threshold in sorted(set(values))[1:]))


def test_one_noisy_frame_neither_begins_nor_breaks_a_moment() -> None:
    inside = np.array([0, 1, 0, 0, 1, 9, 10, 8, 2, 10, 9, 10, 8, 0, 1, 0, 6, 0, 0, 1], float)
    first = stretches_of(inside)[0]
    assert (first.start, first.stop) == (5, 13)


def test_calm_scores_are_smoothed_and_cut_below_the_middle_of_mean_and_best() -> None:
    times = np.arange(60)
    scores = np.exp(-(((times - 30) / 8) ** 2))
    assert np.median(np.abs(np.diff(scores))) / 0.6745 / scores.std() < CALM
    smoothed = np.array(
        [np.average(np.pad(scores, 2, mode="edge")[at : at + 5], weights=[1, 2, 3, 2, 1]) for at in times]
    )
    high = np.flatnonzero(smoothed >= smoothed.mean() + 0.45 * (smoothed.max() - smoothed.mean()))
    (only,) = stretches_of(scores)
    assert (only.start, only.stop, only.best) == (high[0], high[-1] + 1, 30)


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=60))
def test_stretches_are_disjoint_with_a_frame_to_land_on(values: list[float]) -> None:
    found = stretches_of(np.array(values, np.float64))
    assert found and all(0 <= one.start <= one.best < one.stop <= len(values) for one in found)
    assert all(one.stop <= other.start for one, other in pairwise(sorted(found)))


@given(st.lists(st.integers(-20, 20).map(lambda one: one / 10), min_size=1, max_size=12), st.data())
def test_ranges_hold_the_middle_of_what_sums_make_likely(values: list[float], data: st.DataObject) -> None:
    best = data.draw(st.integers(0, len(values) - 1))
    start, stop = data.draw(st.integers(0, best)), data.draw(st.integers(best + 1, len(values)))
    starts, stops = _ranges(np.array(values), start, stop, best)
    assert starts[0] <= start <= starts[1] <= best < stops[0] <= stop <= stops[1]
    likely = {one: math.exp(sum(values[one : best + 1])) for one in range(best + 1)}
    outside = [one for one in likely if not starts[0] <= one <= starts[1]]
    assert sum(likely[one] for one in outside if one < best) <= 0.2 * sum(likely.values()) + 1e-9
    before = sum(likely[one] for one in likely if one < starts[0])
    assert before <= 0.1 * sum(likely.values()) + 1e-9
    likely = {one: math.exp(sum(values[best:one])) for one in range(best + 1, len(values) + 1)}
    assert sum(likely[one] for one in likely if one > stops[1]) <= 0.1 * sum(likely.values()) + 1e-9
    assert sum(likely[one] for one in likely if one < stops[0]) <= 0.1 * sum(likely.values()) + 1e-9


def test_a_sharp_edge_has_a_narrow_range_and_a_gentle_one_a_wide_one() -> None:
    rng = np.random.default_rng(0)
    scores = np.concatenate([np.zeros(20), np.full(12, 9.0), np.linspace(9, 0, 16), np.zeros(12)])
    first = stretches_of(scores + rng.normal(size=60) * 0.4)[0]
    assert first.starts[1] - first.starts[0] < first.stops[1] - first.stops[0]
    assert first.starts[0] <= 20 <= first.starts[1]


def test_of_scores_that_are_all_alike_nothing_is_known() -> None:
    (only,) = stretches_of(np.zeros(9))
    assert (only.starts, only.stops) == ((0, only.best), (only.best + 1, 9))


def test_on_real_and_planted_curves_the_rule_reaches_what_is_asked_of_it(shared_data: Path) -> None:
    """Queries of odd number, which did not choose the rule; the best of four simpler ones less two standard errors."""
    folder = shared_data / "qvhighlights"
    given_by = load_predictions(folder / "sample_val_preds.jsonl")
    truth = benchmark.odd(moment_truth(select(FORMATS["qvhighlights"]([folder]).corpus, split="val")))
    curves = {name: given_by.ratings[name] for name in truth.query_ids}
    real, lands = benchmark.measured(truth, curves, benchmark.ours)
    told = benchmark.ranges(truth, curves)
    assert told.covered >= 70 and told.near_where_narrow > told.near_where_wide + 20
    assert real.summary["mIoU"].value >= 48 and real.summary["R1@0.5"].value >= 51.5 and lands.mean() > 66.6
    for ratio, least in ((1, 44.0), (2, 72.0), (4, 90.0)):
        found, lands = benchmark.measured(truth, dict(benchmark.planted(truth, ratio, 1)), benchmark.ours)
        assert found.summary["R1@0.5"].value >= least, ratio
    assert lands.mean() > 94.3
