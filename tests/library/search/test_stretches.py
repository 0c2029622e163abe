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
from evenreel.library.search.seen import MOST_STRETCHES, _largest_sums, _otsu, _ranges, stretches_of

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


def test_of_calm_scores_only_the_top_of_a_slope_is_a_moment() -> None:
    scores = np.array([0, 0, 0, 0, 2, 4, 6, 8, 8, 8, 8, 6, 4, 2, 0, 0, 0, 0], float)
    assert _otsu(scores) == 3  # 10 scores of 0.4 on average below, 8 of 6.5 above
    (only,) = stretches_of(scores)  # half of the changes are 0; from 3 + 0.85 * (70 / 9 - 3) = 7.06
    assert (only.start, only.stop) == (7, 11) and only.best in (8, 9)
    assert only.value == pytest.approx(4 * (8 - 3 - 0.85 * (70 / 9 - 3)))


def test_noise_lowers_the_level() -> None:
    scores = np.array([0, 1, 0, 1, 0, 1, 5, 6, 5, 6, 5, 6, 3, 4, 3, 4, 0, 1, 0, 1], float)
    # Changes are 1, so noise is 1 / 0.6745 / 2.22 of the deviation: 0.2 of the way from 2 to 50 / 9, which is 2.71.
    (only,) = stretches_of(scores)
    assert (only.start, only.stop) == (6, 16)
    (calm,) = stretches_of(np.repeat(scores, 3))  # the same without noise: from 2 + 0.85 * (6 - 2) = 5.1 at most
    assert calm.stop <= 36


@pytest.mark.parametrize("scores", [[0.3], [0.3, 0.3], [0, 1], [1, 0], [0, 1, 0]])
def test_clips_of_few_frames(scores: list[float]) -> None:
    (only,) = stretches_of(np.array(scores, float))
    high = np.flatnonzero(np.array(scores) == max(scores))
    assert (only.start, only.stop, only.best) == (high[0], high[-1] + 1, high[0])


def test_neither_the_scale_nor_the_zero_of_scores_matters() -> None:
    rng = np.random.default_rng(3)
    for frames in (5, 40, 150):
        scores = np.round(rng.normal(size=frames) + np.where(rng.random(frames) < 0.3, 3.0, 0.0), 6)
        found = [one[:3] + one[4:] for one in stretches_of(scores)]
        assert [one[:3] + one[4:] for one in stretches_of(8 * scores - 13)] == found


def test_of_hours_of_noise_the_likeliest_stretches_are_kept() -> None:
    values = [one.value for one in stretches_of(np.random.default_rng(0).normal(size=4000))]
    assert len(values) == MOST_STRETCHES and values == sorted(values, reverse=True)


def test_the_benchmarks_largest_sum_is_all_frames_where_none_is_above_its_threshold() -> None:
    assert benchmark.largest_sum(np.array([0.0, 9, 9, 9, 9, 9, 9, 9, 9, 9])) == (0, 10, 1)  # 9 < 8.1 + 2.7 / 2


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=60))
def test_stretches_are_disjoint_with_a_frame_to_land_on(values: list[float]) -> None:
    found = stretches_of(np.array(values, np.float64))
    assert found and all(0 <= one.start <= one.best < one.stop <= len(values) for one in found)
    assert all(one.stop <= other.start for one, other in pairwise(sorted(found)))
    assert all(math.isfinite(one.value) for one in found)


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


def test_on_three_models_and_planted_curves_no_simple_rule_is_surely_better(shared_data: Path) -> None:
    """On videos that did not choose the rule; the scores of the third model chose nothing."""
    truth, sets, _ = benchmark.curve_sets(shared_data / "qvhighlights", shared_data / "moments_models", 1)
    assert (len(truth.query_ids), len(set(truth.clip_ids))) == (846, 252)
    least = {"Moment-DETR": (48, 51.5, 66.6), "QD-DETR, frames": (52, 56, 72), "QD-DETR, video": (55, 58.5, 74)}
    least |= {"planted, 1": (0, 44, 0), "planted, 2": (0, 72, 0), "planted, 4": (0, 90, 94.3)}
    means = dict.fromkeys(benchmark.RULES, 0.0)
    for title, curves in sets.items():
        found = {name: benchmark.measured(truth, curves, rule) for name, rule in benchmark.RULES.items()}
        assert not benchmark.surely_worse({name: one for name, (one, _) in found.items()}), title
        ours, lands = found[benchmark.OURS]
        figures = ours.summary["mIoU"].value, ours.summary["R1@0.5"].value, lands.mean()
        assert (np.array(figures) >= least[title]).all(), (title, figures)
        assert lands.mean() >= max(other.mean() for _, other in found.values()) - 1, title
        told = benchmark.ranges(truth, curves)
        assert told.covered >= 70 and told.near_where_narrow > told.near_where_wide + 20, title
        means = {name: mean + found[name][0].summary["mIoU"].value for name, mean in means.items()}
    assert max(means, key=means.__getitem__) == benchmark.OURS
