"""Intervals that cover, tests that enumerate, and second sources for what scipy knows too."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation import intervals
from evenreel.evaluation.comparison import compare, in_order_of
from evenreel.evaluation.intervals import (
    GroupedColumns,
    Interval,
    figure_intervals,
    holm,
    percentile_ends,
    randomisation_test,
    resampled_weights,
    sampled_figures,
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
    monkeypatch.setattr(intervals, "_CHUNK_BYTES", 3000)
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
