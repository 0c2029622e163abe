"""Intervals that cover, tests that enumerate, ends derived another way, and second sources for what scipy knows too."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation import intervals
from evenreel.evaluation.comparison import compare, in_order_of
from evenreel.evaluation.intervals import (
    GroupedColumns,
    GroupedMean,
    Interval,
    difference_interval,
    figure_interval,
    figure_intervals,
    holm,
    mean_interval,
    percentile_ends,
    randomisation_test,
    resampled_weights,
    sampled_figures,
    share_interval,
    t_interval,
    wilcoxon_test,
)
from evenreel.evaluation.measure import DirectionResult, Evaluation
from evenreel.evaluation.metrics import EvaluationSettings, parse_metric, parse_metrics
from evenreel.evaluation.ranking import Hits

MRR, MEDIAN = parse_metric("MRR"), parse_metric("MedR")
Array = NDArray[Any]


def columns_of(ranks: Array) -> dict[str, Array]:
    ranks = np.asarray(ranks, dtype=float)
    hits = {f"R@{k}": 100.0 * (ranks <= k) for k in (1, 5, 10)}
    return {"rank": ranks, "MRR": 100 / ranks, **hits}


def interval_of(columns: dict[str, Array], groups: Array, settings: EvaluationSettings) -> Interval:
    return figure_intervals(columns, groups, replace(settings, metrics=(MRR,)), 1000)["MRR"]


def alone(n: int) -> Array:
    return np.arange(n)


def test_groups_are_drawn_whole_and_as_many_as_there_are() -> None:
    groups = np.array([7, 3, 7, 7, 9, 3])
    weights = np.concatenate([*resampled_weights(groups, 4000, 1)])
    assert weights.shape == (4000, 6)
    np.testing.assert_array_equal(weights[:, 0], weights[:, 2])
    np.testing.assert_array_equal(weights[:, 1], weights[:, 5])
    np.testing.assert_array_equal(weights[:, [0, 1, 4]].sum(axis=1), 3)
    np.testing.assert_allclose(weights.mean(axis=0), 1, atol=0.05)
    binomial = scipy.stats.binom(3, 1 / 3)
    for times in range(4):
        assert abs((weights[:, 0] == times).mean() - binomial.pmf(times)) < 0.03


def test_pieces_of_any_size_are_the_same_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, ranks = alone(50) // 2, np.random.default_rng(0).integers(1, 30, 50)
    other = np.roll(ranks, 3)
    asked = EvaluationSettings(resamples=64, seed=5)

    def answers() -> list[Any]:
        settings = replace(asked, metrics=(MEDIAN,))
        interval = figure_intervals(columns_of(ranks), groups, settings, 1000)["MedR"]
        p = randomisation_test(MRR, columns_of(ranks), columns_of(other), groups, asked)
        return [interval.value, interval.low, interval.high, p]

    whole = answers()
    monkeypatch.setattr(intervals, "_CHUNK", 375)
    assert answers() == pytest.approx(whole, rel=1e-12)  # a product of matrices sums in another order


def test_a_sample_is_worked_out_as_a_loop_would() -> None:
    ranks = np.random.default_rng(2).integers(1, 40, 30)
    groups = np.random.default_rng(3).integers(0, 8, 30)
    metrics = parse_metrics(["R@1", "MedR", "MeanR", "Rsum", "GeoR", "MRR"])
    asked = EvaluationSettings(metrics=metrics, resamples=200, seed=4, confidence=0.9)
    drawn: dict[str, list[float]] = {str(metric): [] for metric in metrics}
    for weights in np.concatenate([*resampled_weights(groups, 200, 4)]):
        sample = columns_of(np.repeat(ranks, weights.astype(int)))
        recalls = [sample[f"R@{k}"].mean() for k in (1, 5, 10)]
        drawn["R@1"].append(recalls[0])
        drawn["MedR"].append(float(np.median(sample["rank"])))
        drawn["MeanR"].append(sample["rank"].mean())
        drawn["Rsum"].append(sum(recalls))
        drawn["GeoR"].append(float(np.prod(recalls)) ** (1 / 3))
        drawn["MRR"].append(sample["MRR"].mean())
    found = sampled_figures(metrics, [GroupedColumns(columns_of(ranks), groups)], asked)
    for word, values in drawn.items():
        np.testing.assert_allclose(found[word][0], values)
    median = figure_intervals(columns_of(ranks), groups, asked, 100)["MedR"]
    assert median.value == np.median(ranks)
    assert (median.low, median.high) == pytest.approx(tuple(np.percentile(drawn["MedR"], [5, 95])))


def coverage(grouped: bool) -> float:
    """Share of 200 worlds in which a 90 % interval holds the true mean; 40 clips with 5 captions that go together."""
    hits = 0
    groups = np.repeat(np.arange(40), 5)
    for world in range(200):
        rng = np.random.default_rng(world)
        values = rng.normal(50, 10, 40)[groups] + rng.normal(0, 3, 200)
        asked = EvaluationSettings(resamples=300, seed=world, confidence=0.9)
        found = interval_of({"MRR": values}, groups if grouped else alone(200), asked)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 50 <= found.high
    return hits / 200


def test_intervals_cover_when_clips_are_drawn_and_do_not_when_captions_are() -> None:
    assert 0.84 <= coverage(grouped=True) <= 0.95
    assert coverage(grouped=False) < 0.7


def test_no_resample_gives_no_interval_nor_does_one_clip() -> None:
    plain = interval_of(columns_of([1, 2]), alone(2), EvaluationSettings(resamples=0))
    assert (plain.value, plain.low, plain.high) == (75.0, None, None)
    one = interval_of(columns_of([1, 2]), np.array([4, 4]), EvaluationSettings())
    assert (one.value, one.low, one.high) == (75.0, None, None)
    with pytest.raises(UsageError, match="no query to draw from"):
        interval_of({"MRR": np.ones(0)}, np.array([], dtype=int), EvaluationSettings())


def test_a_sample_without_a_known_value_is_left_out() -> None:
    assert percentile_ends(np.array([1.0, np.nan, 3.0]), 0.5) == (1.5, 2.5)


def enumerated(metric: Any, first: Array, second: Array, groups: Array) -> float:
    """p by trying every swap of every group."""
    names = sorted(set(groups))
    found = []
    for flips in itertools.product([False, True], repeat=len(names)):
        swapped = np.array([flips[names.index(group)] for group in groups])
        one, other = np.where(swapped, second, first), np.where(swapped, first, second)
        found.append(abs(metric.summary(columns_of(other))[0] - metric.summary(columns_of(one))[0]))
    return float(np.mean([one >= found[0] - 1e-9 for one in found]))


@pytest.mark.parametrize("word", ["R@1", "MRR", "MedR", "MeanR", "Rsum", "GeoR"])
@pytest.mark.parametrize("seed", range(3))
def test_few_groups_are_enumerated(word: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.integers(1, 15, (2, 12))
    groups = rng.integers(0, 7, 12)
    metric = parse_metric(word)
    found = randomisation_test(metric, columns_of(first), columns_of(second), groups, EvaluationSettings())
    assert found == pytest.approx(enumerated(metric, first, second, groups))


def test_many_groups_are_drawn_and_come_near_to_scipy() -> None:
    rng = np.random.default_rng(1)
    first = rng.geometric(0.08, 60)
    second = np.maximum(1, first - rng.integers(-2, 4, 60))
    found = randomisation_test(
        MRR, columns_of(first), columns_of(second), alone(60), EvaluationSettings(resamples=20_000)
    )
    theirs = scipy.stats.permutation_test(
        (100 / first, 100 / second),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=20_000,
        vectorized=True,
        rng=np.random.default_rng(0),
    ).pvalue
    assert 0.01 < found < 0.9
    assert found == pytest.approx(theirs, abs=0.02)


def test_p_of_drawn_arrangements_is_never_zero_and_equal_systems_have_one() -> None:
    ranks = np.arange(1, 101)
    better = columns_of(np.ones(100))
    asked = EvaluationSettings(resamples=99)
    assert randomisation_test(MRR, columns_of(ranks), better, alone(100), asked) == 1 / 100
    assert randomisation_test(MRR, better, better, alone(100), asked) == 1.0
    unknown = {"MRR": np.array([np.nan, 1.0])}
    assert randomisation_test(MRR, unknown, unknown, alone(2), asked) == 1.0


def test_under_no_difference_p_is_uniform() -> None:
    asked = EvaluationSettings(resamples=200)
    found = []
    for world in range(200):
        rng = np.random.default_rng(world)
        pair = rng.geometric(0.1, (2, 30))
        found.append(randomisation_test(MRR, columns_of(pair[0]), columns_of(pair[1]), alone(30), asked))
    assert scipy.stats.kstest(found, "uniform").pvalue > 0.01
    assert np.mean(np.array(found) <= 0.05) < 0.1


def test_wilcoxon_is_over_clips_by_enumeration() -> None:
    differences = np.array([3.0, 1.0, -1.0, -3.0, 4.0, 8.0, 2.0, np.nan])
    groups = np.array([0, 0, 1, 1, 2, 3, 4, 5])  # means 2, -2, 4, 8, 2, and one unknown
    means = np.array([2.0, -2.0, 4.0, 8.0, 2.0])
    ranks = scipy.stats.rankdata(np.abs(means))
    observed = abs(np.sum(np.sign(means) * ranks))
    sums = [abs(np.dot(signs, ranks)) for signs in itertools.product([-1, 1], repeat=5)]
    assert wilcoxon_test(differences, groups) == pytest.approx(np.mean(np.array(sums) >= observed - 1e-9))
    assert wilcoxon_test(np.zeros(3), alone(3)) == 1.0
    assert wilcoxon_test(np.array([np.nan]), alone(1)) == 1.0


@pytest.mark.parametrize("count", [1, 2, 6, 9, 13])
def test_signed_ranks_are_exact_with_equal_sizes_too(count: int) -> None:
    """Every one of the 2^n signs, which took seconds for 9 to 13 clips before."""
    means = np.random.default_rng(count).integers(-4, 5, count) + 0.0
    means[means == 0] = 2.0
    ranks = scipy.stats.rankdata(np.abs(means))
    signs = np.array([*itertools.product([0, 1], repeat=count)])
    sums, found = signs @ ranks, ranks[means > 0].sum()
    expected = min(1.0, 2 * min((sums <= found + 1e-9).mean(), (sums >= found - 1e-9).mean()))
    assert wilcoxon_test(means, alone(count)) == pytest.approx(expected)


@pytest.mark.parametrize("count", [20, 49])
def test_signed_ranks_without_ties_are_scipy_s(count: int) -> None:
    means = np.random.default_rng(count).normal(0.3, 1, count)
    assert wilcoxon_test(means, alone(count)) == pytest.approx(scipy.stats.wilcoxon(means, method="exact").pvalue)


def test_many_signed_ranks_are_the_normal_approximation() -> None:
    means = np.random.default_rng(0).normal(0.1, 1, 150)
    assert wilcoxon_test(means, alone(150)) == scipy.stats.wilcoxon(means, method="asymptotic").pvalue


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.02, 0.03, 0.9]) == pytest.approx([0.04, 0.06, 0.06, 0.9])
    assert holm([0.5, 0.5]) == [1.0, 1.0]
    assert holm([0.3]) == [0.3]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_keeps_the_order_and_only_raises(values: list[float]) -> None:
    adjusted = holm(values)
    assert all(p <= q <= min(1, p * len(values)) + 1e-12 for p, q in zip(values, adjusted, strict=True))
    assert [x for _, x in sorted(zip(values, adjusted, strict=True))] == sorted(adjusted)


METRICS = parse_metrics(["R@1", "MedR"])


def evaluation(ranks: Array, ids: list[str] | None = None, **changes: Any) -> Evaluation:
    queries = ids or [f"c{i}" for i in range(len(ranks))]
    groups = np.array([int(one[1:]) // 2 for one in queries])
    alike = np.ones(len(ranks), np.int64)
    hits = Hits(np.arange(len(ranks)), np.asarray(ranks) - 1, 0 * alike, alike, alike > 0)
    result = DirectionResult("t2v", "caption", queries, groups, columns_of(ranks), {}, 50, "", hits)
    return Evaluation({"t2v": replace(result, **changes)}, METRICS, "expected", "clip", 0.95)


def test_a_comparison_by_hand() -> None:
    base, better = np.array([1, 3, 2, 9, 4, 6]), np.array([1, 1, 1, 12, 4, 1])
    found = compare(evaluation(base), {"new": evaluation(better), "same": evaluation(base)})
    assert [(row.system, row.metric) for row in found.rows] == [
        ("new", "R@1"),
        ("same", "R@1"),
        ("new", "MedR"),
        ("same", "MedR"),
    ]
    new, same, median, _ = found.rows
    assert (new.baseline, new.value) == pytest.approx((100 / 6, 400 / 6))
    assert new.difference.value == pytest.approx(50)
    assert (new.wins, new.ties, new.losses) == (3, 3, 0)
    assert (median.wins, median.ties, median.losses) == (3, 2, 1)  # a lower rank wins
    assert new.p_randomisation == pytest.approx(0.25)  # three clips, each with a gain: 2 of 8 swaps are as extreme
    assert (new.p_holm, same.p_holm, same.p_randomisation, same.p_wilcoxon) == (0.5, 1.0, 1.0, 1.0)
    # Two systems that never differ: three clips, one more gained and one more lost, of two queries each.
    assert same.difference.value == 0
    assert same.difference.high == pytest.approx(scipy.stats.t.ppf(0.975, 4) * np.sqrt(2 * 20**2 * 5 / 4))
    assert same.difference.low == pytest.approx(-(same.difference.high or 0))
    assert found.to_json()["rows"][0]["difference"]["value"] == pytest.approx(50)


def test_queries_are_matched_by_their_ids() -> None:
    base, better = np.arange(1, 21), np.maximum(1, np.arange(1, 21) - 3)
    order = np.random.default_rng(0).permutation(20)
    mixed = evaluation(better[order], [f"c{i}" for i in order])
    assert compare(evaluation(base), {"x": mixed}) == compare(evaluation(base), {"x": evaluation(better)})


def test_systems_that_use_more_are_named() -> None:
    base = evaluation(np.arange(1, 5))
    found = compare(base, {"x": replace(base, uses=("other queries",)), "y": base})
    assert found.notices == (
        "x uses other queries and the baseline nothing but captions and videos: part of the difference may be due to "
        "that.",
    )


@pytest.mark.parametrize("word", ["R@1", "MedR", "MeanR", "Rsum", "GeoR"])
def test_sums_over_clips_are_as_good_as_every_query(word: str) -> None:
    """With values that are unknown, other ones for each column, against the weighted summary of all queries."""
    rng = np.random.default_rng(5)
    metric, groups = parse_metric(word), rng.integers(0, 9, 40)
    columns = {name: np.where(rng.random(40) < 0.2, np.nan, v) for name, v in columns_of(np.arange(1, 41)).items()}
    drawn = sampled_figures([metric], [GroupedColumns(columns, groups)], EvaluationSettings(resamples=50))[word]
    weights = np.concatenate([*resampled_weights(groups, 50, 0)])
    np.testing.assert_allclose(drawn, [metric.summary(columns, weights)])


def test_samples_without_any_known_query_give_no_interval() -> None:
    values = {"MRR": np.where(np.arange(200) == 7, 50.0, np.nan)}
    found = interval_of(values, alone(200), EvaluationSettings(resamples=1, seed=0))
    assert (found.value, found.low, found.high) == (50.0, None, None)


def test_hits_move_with_their_queries() -> None:
    mixed = evaluation(np.array([3, 1, 2]), ["c2", "c0", "c1"]).directions["t2v"]
    ordered = in_order_of(evaluation(np.array([5, 5, 5])).directions["t2v"], mixed, "x")
    assert ordered.first_rank.tolist() == [1, 2, 3]
    assert ordered.hit_chance(2).tolist() == [100, 100, 0]


def test_systems_that_were_not_asked_the_same_get_a_sentence() -> None:
    base = evaluation(np.arange(1, 5))
    cases = [
        (evaluation(np.arange(1, 4)), r"not asked the same queries of t2v .4 and 3; 'c3'"),
        (evaluation(np.arange(1, 6)), r"not asked the same queries of t2v .4 and 5; 'c4'"),
        (evaluation(np.arange(1, 5), gallery_size=9), "ranked differently in t2v .caption among 50, caption among 9"),
        (evaluation(np.arange(1, 5), gallery_digest="x"), "ranked among different items in t2v, though as many"),
        (replace(base, ties="optimistic"), "another rule for ties"),
        (replace(base, relevance="text"), "another relevance"),
    ]
    for other, sentence in cases:
        with pytest.raises(ScoresError, match=sentence):
            compare(base, {"x": other})
    with pytest.raises(UsageError, match="at least one other system"):
        compare(base, {})
    with pytest.raises(UsageError, match="at least one resample"):
        compare(base, {"x": base}, EvaluationSettings(resamples=0))


def test_signed_ranks_do_not_depend_on_the_order_of_captions() -> None:
    """Means of reciprocal ranks that are equal differ in their last bits by the order of a sum."""
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(25), 3)
    for _ in range(40):
        gains = 100 / rng.integers(1, 5, 75) - 100 / rng.integers(1, 5, 75)
        order = rng.permutation(75)
        assert wilcoxon_test(gains[order], groups[order]) == wilcoxon_test(gains, groups)


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
