"""Metrics as words, and their figures over weighted queries."""

from __future__ import annotations

import re

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.evaluation import parse_metric, parse_metrics

WORDS = ["R@1", "R@100", "MedR", "MeanR", "MRR", "Rsum", "GeoR", "nDCG", "nDCG@10", "nDCG@R", "mAP", "mAP-EPIC", "P@5"]


@pytest.mark.parametrize("word", WORDS)
def test_a_metric_prints_the_word_it_came_from(word: str) -> None:
    metric = parse_metric(word)
    assert str(metric) == word
    assert metric == parse_metric(word)
    assert len({metric, parse_metric(word)}) == 1
    assert metric.explanation
    assert metric.higher_is_better == (word not in ("MedR", "MeanR"))


NEAR = {
    "Recall@10": "but R@k says whether one of the first k is relevant",
    "RR@10": "since MRR and mAP are of whole rankings",
    "AP(rel=2)@100": "since relevant is a degree of 1",
    "RBP(p=0.8, rel=1)@10": "since relevant is a degree of 1",
    "RBP(p=0.8)@10": r"ir_measures .* the files that --save-run and --save-qrels write\.$",
}
BAD = ["", "R", "R@", "R@0", "R@-1", "R@1.5", "R@R", "r@1", "nDCG@", "map", "R@1 ", "R@01", "P", "P@R"]
BAD += ["nDCG(dcg='exp-log2')@10", "ERR@10", "Bpref", "unjudged@k", *NEAR]


@pytest.mark.parametrize("word", BAD)
def test_other_words_are_refused_in_a_sentence_with_what_comes_near(word: str) -> None:
    with pytest.raises(UsageError, match=f"is no metric.*{NEAR.get(word, '')}"):
        parse_metric(word)


SPELLINGS = {"RR": "MRR", "AP": "mAP", "MAP": "mAP", "Precision@5": "P@5", "Success@10": "R@10", "NDCG@10": "nDCG@10"}


@pytest.mark.parametrize(("word", "name"), SPELLINGS.items())
def test_other_spellings_are_the_same_metric(word: str, name: str) -> None:
    assert str(parse_metric(word)) == name
    assert parse_metric(word) == parse_metric(name)


@pytest.mark.parametrize("name", sorted(ir_measures.measures.registry))
def test_every_name_of_ir_measures_is_read_as_the_same_or_refused_in_a_sentence(name: str) -> None:
    """Those that are read are the metric that ir_measures has by that name, or its R@k where one item is relevant."""
    for word in (name, f"{name}@10", f"{name}(rel=2)", f"{name}(rel=2)@10"):
        try:
            found = str(parse_metric(word))
        except UsageError as error:
            assert re.fullmatch(rf"'{re.escape(word)}' is no metric(, [^;]+)?; there are [^;]+\.", str(error))
            assert ("since relevant is a degree of 1" in str(error)) == ("rel=" in word)
            continue
        theirs = {"MRR": "RR", "mAP": "AP", "R@10": "Success@10" if name == "Success" else "R@10"}.get(found, found)
        assert str(ir_measures.parse_measure(word)) == str(ir_measures.parse_measure(theirs)), word


def test_a_metric_named_twice_counts_once_and_none_is_an_error() -> None:
    assert [str(metric) for metric in parse_metrics(["R@5", "MedR", "R@5"])] == ["R@5", "MedR"]
    with pytest.raises(UsageError):
        parse_metrics([])


def test_sum_and_geometric_mean_of_recalls() -> None:
    columns = {"R@1": np.array([0.0, 100.0]), "R@5": np.array([100.0, 100.0]), "R@10": np.array([50.0, 100.0])}
    assert parse_metric("Rsum").summary(columns)[0] == pytest.approx(50 + 100 + 75)
    assert parse_metric("GeoR").summary(columns)[0] == pytest.approx((50 * 100 * 75) ** (1 / 3))


@pytest.mark.parametrize(
    ("recalls", "printed"),
    [
        ((53.5, 78.6, 86.5), 218.6),  # BiMa, MSR-VTT, text to video, and ...
        ((52.2, 77.1, 85.3), 214.6),  # video to text
        ((51.0, 76.4, 85.2), 212.6),  # NarVid
        ((46.1, 71.8, 80.7), 198.6),  # TempMe
        ((48.3, 73.0, 83.2), 204.5),  # PAU, video to text
        ((45.2, 75.5, 84.3), 205.0),  # CLIP4Clip, MSVD
        ((22.6, 41.0, 49.1), 112.7),  # LSMDC
        ((40.5, 72.4, 83.6), 196.5),  # ActivityNet
        ((42.8, 68.5, 79.2), 190.5),  # DiDeMo
    ],
)
def test_sums_of_recalls_as_tables_1_and_2_of_bima_print_them(
    recalls: tuple[float, float, float], printed: float
) -> None:
    """From the ranks of 1,000 captions that have these recalls (arXiv 2506.03589)."""
    first, five, ten = (round(10 * recall) for recall in recalls)
    ranks = np.repeat([1, 4, 8, 300], [first, five - first, ten - five, 1000 - ten])
    columns = {f"R@{k}": 100.0 * (ranks <= k) for k in (1, 5, 10)}
    assert parse_metric("Rsum").summary(columns)[0] == pytest.approx(printed, abs=0.05)


@given(
    st.lists(st.tuples(st.floats(1, 1000), st.lists(st.integers(0, 3), min_size=4, max_size=4)), min_size=1, max_size=9)
)
def test_a_weight_is_how_often_a_query_stands_in_the_sample(drawn: list[tuple[float, list[int]]]) -> None:
    values = np.array([value for value, _ in drawn])
    weights = np.array([counts for _, counts in drawn]).T
    weights[weights.sum(axis=1) == 0] = 1
    repeated = [np.repeat(values, counts) for counts in weights]
    columns = {"rank": values}
    np.testing.assert_allclose(parse_metric("MedR").summary(columns, weights), [np.median(one) for one in repeated])
    np.testing.assert_allclose(parse_metric("MeanR").summary(columns, weights), [np.mean(one) for one in repeated])


@pytest.mark.parametrize("word", ["MedR", "MeanR"])
def test_a_query_without_a_value_does_not_count(word: str) -> None:
    weights = np.array([[1, 5, 1, 1], [2, 0, 1, 0], [0, 3, 0, 0]])
    with_gap = parse_metric(word).summary({"rank": np.array([1.0, np.nan, 4.0, 9.0])}, weights)
    without = parse_metric(word).summary({"rank": np.array([1.0, 4.0, 9.0])}, np.array([[1, 1, 1], [2, 1, 0]]))
    np.testing.assert_allclose(with_gap[:2], without)
    assert np.isnan(with_gap[2])
