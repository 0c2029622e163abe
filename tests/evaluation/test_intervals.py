"""Intervals that hold what they say: ends derived another way, ranges, clusters, and coverage in small worlds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenreel.evaluation.intervals import (
    GroupedMean,
    Interval,
    difference_interval,
    figure_interval,
    mean_interval,
    share_interval,
    t_interval,
)
from evenreel.evaluation.metrics import parse_metric
from tests.evaluation.test_stats import columns_of

Array = NDArray[Any]
WORDS = ("R@1", "R@5", "MeanR", "MRR", "Rsum", "GeoR")


def found(word: str, ranks: Array, groups: Array | None = None, confidence: float = 0.95) -> Interval:
    groups = np.arange(len(ranks)) if groups is None else groups
    return figure_interval(parse_metric(word), columns_of(ranks), groups, confidence, 1000)


def ends(one: Interval) -> tuple[float, float]:
    assert one.low is not None
    assert one.high is not None
    return one.low, one.high


@pytest.mark.parametrize(("hits", "queries"), [(0, 40), (1, 40), (17, 40), (39, 40), (40, 40), (3, 700)])
def test_hits_have_the_ends_of_wilsons_quadratic(hits: int, queries: int) -> None:
    """Both solve (p - x)^2 = t^2 x (1 - x) / n, where n - 1 is the effective number, or n without any variance."""
    share = hits / queries
    number = queries - 1 if 0 < hits < queries else queries
    square = scipy.stats.t.ppf(0.975, queries - 1) ** 2 / number
    roots = np.roots([1 + square, -(2 * share + square), share**2]) * 100
    low, high = ends(found("R@1", np.where(np.arange(queries) < hits, 1, 50)))
    assert (low, high) == pytest.approx((max(0.0, min(roots)), min(100.0, max(roots))), abs=1e-9)


@pytest.mark.parametrize("word", ["MRR", "Rsum"])
def test_graded_values_have_ends_that_halls_transformation_maps_to_student_s(word: str) -> None:
    rng = np.random.default_rng(1)
    ranks, groups = np.ceil(rng.lognormal(1, 1.5, 60)), np.arange(60) // 2
    column = columns_of(ranks)
    values = column["MRR"] if word == "MRR" else column["R@1"] + column["R@5"] + column["R@10"]
    means = values.reshape(30, 2).mean(axis=1)
    skewness, error = scipy.stats.skew(means), means.std(ddof=1) / 30**0.5
    for end, side in zip(ends(found(word, ranks, groups)), (1, -1), strict=True):
        t = (means.mean() - end) / error
        mapped = t + skewness * t**2 / (3 * 30**0.5) + skewness**2 * t**3 / (27 * 30) + skewness / (6 * 30**0.5)
        assert mapped == pytest.approx(side * scipy.stats.t.ppf(0.975, 29), rel=1e-9)


def test_a_mean_without_range_is_scipy_s() -> None:
    values = np.random.default_rng(3).normal(5, 2, 25)
    theirs = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert ends(mean_interval(GroupedMean.of(values, np.arange(25)), 0.9)) == pytest.approx((theirs.low, theirs.high))


def test_clips_of_equal_size_count_with_their_means() -> None:
    values = np.random.default_rng(4).normal(0, 1, (12, 5)) + np.random.default_rng(5).normal(0, 2, (12, 1))
    grouped = mean_interval(GroupedMean.of(values.ravel(), np.repeat(np.arange(12), 5)), 0.95)
    alone = mean_interval(GroupedMean.of(values.mean(axis=1), np.arange(12)), 0.95)
    assert ends(grouped) == pytest.approx(ends(alone))


def test_unequal_groups_have_fewer_degrees_of_freedom() -> None:
    """One group of 8 and two of 1 are as sure as 100 / 66 = 1.5 groups; less than one degree of freedom is one."""
    values, groups = np.array([*[1.0] * 8, 0.0, 0.5]), np.array([*[0] * 8, 1, 2])
    one = GroupedMean.of(values, groups)
    without = [values[groups != group].mean() - 0.85 for group in range(3)]  # the jackknife, group by group
    reach = scipy.stats.t.ppf(0.975, 1) * np.sqrt(2 / 3 * np.square(without).sum())
    assert ends(mean_interval(one, 0.95)) == pytest.approx((0.85 - reach, 0.85 + reach))


def test_a_geometric_mean_has_the_geometric_means_of_the_ends() -> None:
    ranks = np.ceil(np.random.default_rng(6).lognormal(1, 1.2, 40))
    recalls = np.array([ends(found(word, ranks)) for word in ("R@1", "R@5", "R@10")])
    assert ends(found("GeoR", ranks)) == pytest.approx(tuple(recalls.prod(axis=0) ** (1 / 3)))
    nothing = np.array([60, 70, *[2] * 28])  # no hit at 1: the figure is 0, and what it might be is not
    assert found("GeoR", nothing).value == 0
    assert ends(found("GeoR", nothing))[1] > 20


def test_a_difference_of_geometric_means_by_differences() -> None:
    """What each of 42 queries adds, from the figure without a little of its weight: 40, one that hits and one not."""
    first, second = np.ceil(np.random.default_rng(6).lognormal(1, 1.2, (2, 40)))
    metric, slopes, values = parse_metric("GeoR"), [], []
    for ranks in (first, second):
        column = columns_of(np.append(ranks, [1, 900]))
        weights = np.ones((42, 42)) - 1e-6 * np.eye(42)
        slopes.append((metric.summary(column)[0] - metric.summary(column, weights)) / 1e-6)
        values.append(metric.summary(column)[0])
    apart = slopes[1] - slopes[0]
    reach = scipy.stats.t.ppf(0.975, 41) * np.sqrt((apart**2).sum() * 42 / 41)
    one = difference_interval(metric, columns_of(first), columns_of(second), np.arange(40), 0.95)
    middle = values[1] - values[0]
    assert ends(one) == pytest.approx((middle - reach, middle + reach), rel=1e-4)


def test_a_mean_rank_leaves_room_for_a_query_worse_than_any() -> None:
    ranks = np.array([*[1] * 28, 2, 3])
    low, high = ends(found("MeanR", ranks))
    assert low < 33 / 30 < high
    assert high > ends(found("MeanR", ranks[:-1]))[1]
    five, up = ends(found("MeanR", np.full(30, 5)))
    assert five == 5  # nobody did better
    assert 5 < up < 7.5  # but one more may do worse


@pytest.mark.parametrize("word", WORDS)
@given(
    ranks=st.lists(st.integers(1, 1000), min_size=2, max_size=30),
    size=st.integers(1, 4),
    confidence=st.floats(0.5, 0.99),
)
def test_intervals_hold_the_figure_stay_in_range_and_widen(
    word: str, ranks: list[int], size: int, confidence: float
) -> None:
    values = np.array(ranks)
    groups = np.arange(len(values)) // size
    assume(groups.max() > 0)
    one = found(word, values, groups, confidence)
    low, high = ends(one)
    lowest, most = {"MeanR": (1, 1000), "Rsum": (0, 300)}.get(word, (0, 100))
    assert lowest <= low <= one.value + 1e-9
    assert one.value - 1e-9 <= high <= most
    wider = ends(found(word, values, groups, 0.995))
    assert wider[0] <= low + 1e-9
    assert wider[1] >= high - 1e-9
    order = np.random.default_rng(0).permutation(len(values))
    assert ends(found(word, values[order], 7 * groups[order] + 3, confidence)) == pytest.approx((low, high), rel=1e-6)


@pytest.mark.parametrize("word", WORDS)
@given(pairs=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=2, max_size=25))
def test_differences_hold_the_figure_and_turn_with_the_systems(word: str, pairs: list[tuple[int, int]]) -> None:
    first, second = (columns_of(np.array(side)) for side in zip(*pairs, strict=True))
    groups, metric = np.arange(len(pairs)), parse_metric(word)
    one = difference_interval(metric, first, second, groups, 0.95)
    low, high = ends(one)
    assert one.value == pytest.approx(metric.summary(second)[0] - metric.summary(first)[0])
    assert low - 1e-9 <= one.value <= high + 1e-9
    turned = difference_interval(metric, second, first, groups, 0.95)
    assert ends(turned) == pytest.approx((-high, -low), abs=1e-9)


def test_a_difference_of_means_is_scipy_s_and_one_of_hits_has_two_queries_more() -> None:
    rng = np.random.default_rng(8)
    first, second = np.ceil(rng.lognormal(1, 1.5, (2, 30)))
    columns = columns_of(first), columns_of(second)
    theirs = scipy.stats.ttest_rel(second, first).confidence_interval()
    assert ends(difference_interval(parse_metric("MeanR"), *columns, np.arange(30), 0.95)) == pytest.approx(
        (theirs.low, theirs.high)
    )
    gains = [*(columns[1]["R@1"] - columns[0]["R@1"]), 100.0, -100.0]
    theirs = scipy.stats.ttest_1samp(gains, 0).confidence_interval()
    assert ends(difference_interval(parse_metric("R@1"), *columns, np.arange(30), 0.95)) == pytest.approx(
        (theirs.low, theirs.high)
    )


def test_a_small_gain_of_many_captions_a_clip_is_seen() -> None:
    """28 of 2,000 captions, each of another clip than the last, are won: far more than one clip by chance."""
    before = {"R@1": np.zeros(2000)}
    after = {"R@1": np.where(np.arange(2000) % 70 == 0, 100.0, 0.0)}
    groups = np.arange(2000) // 20
    one = difference_interval(parse_metric("R@1"), before, after, groups, 0.95)
    shares = after["R@1"].reshape(100, 20).mean(axis=1)
    theirs = scipy.stats.ttest_1samp(shares, 0).confidence_interval()
    assert ends(one) == pytest.approx((theirs.low, theirs.high), abs=0.25)
    assert one.low is not None and one.low > 0
    alike = difference_interval(parse_metric("R@1"), before, before, groups, 0.95)
    assert ends(alike) == pytest.approx((-alike.high, alike.high))  # type: ignore[operator]
    assert 2 < ends(alike)[1] < 4  # of 100 clips none differs, so up to 3 in 100 may


@pytest.mark.parametrize("values", [[0.0] * 99 + [1.0], [0.0] * 50 + [0.1] * 50, [100.0] * 99 + [99.0]])
def test_a_tie_among_no_hits_is_no_knowledge(values: list[float]) -> None:
    """No hit of 100 may be 3.7 % (Wilson); one query that hits in one of 100 orders says hardly more than none."""
    for groups in (np.arange(100), np.arange(100) // 2):
        one = share_interval(GroupedMean.of(np.array(values), groups), 0.95)
        assert max(one.high - one.value, one.value - one.low) > 3  # type: ignore[operator]


def test_a_group_that_makes_most_of_a_mean_is_not_taken_at_its_word() -> None:
    """One video has 300 of 600 clips: those of 100 worlds that hold the truth, with videos that differ by 20 points."""
    held, rng = 0, np.random.default_rng(3)
    groups = np.concatenate([np.zeros(300, int), 1 + np.arange(300) // 5])
    for _ in range(100):
        chance = np.clip(0.4 + 0.2 * rng.normal(size=61), 0, 1)[groups]
        one = share_interval(GroupedMean.of(100.0 * (rng.random(600) < chance), groups), 0.95)
        held += one.low <= 40 <= one.high  # type: ignore[operator]
    assert held >= 90


def test_one_group_has_no_interval() -> None:
    assert found("MedR", np.array([1, 2]), np.array([4, 4])) == Interval(1.5)
    assert found("R@1", np.array([1, 2]), np.array([4, 4])) == Interval(50.0)
    assert t_interval(1.0, np.zeros(1), np.ones(1), 0.95) == Interval(1.0)
    assert share_interval(GroupedMean.of(np.array([50.0]), np.array([0])), 0.95) == Interval(50.0)
    column = columns_of(np.array([1, 2]))
    assert difference_interval(parse_metric("R@1"), column, column, np.array([4, 4]), 0.95) == Interval(0.0)


def lognormal_ranks(rng: np.random.Generator, shape: tuple[int, int], centre: float) -> Array:
    return np.clip(np.ceil(np.exp(centre + 1.9 * rng.standard_normal(shape))), 1, 1000)


@pytest.mark.parametrize("word", ["R@1", "MRR", "MeanR"])
@pytest.mark.parametrize(("centre", "clips"), [(1.8, 20), (1.8, 100), (4.35, 50)])
def test_coverage_in_small_worlds(word: str, centre: float, clips: int) -> None:
    """R@1 is 17 % and 1 %; percentiles of samples hold the latter in 43 % of worlds of 50 clips, a mean rank in 75."""
    rng, worlds = np.random.default_rng(9), 300
    truth = float(parse_metric(word).summary(columns_of(lognormal_ranks(rng, (1, 400_000), centre)[0]))[0])
    held = 0
    for ranks in lognormal_ranks(rng, (worlds, clips), centre):
        low, high = ends(found(word, ranks))
        held += low <= truth <= high
    assert 0.9 <= held / worlds <= 1.0
