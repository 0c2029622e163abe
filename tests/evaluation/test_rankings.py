"""Every per-query figure against plain loops over all orders of equal scores, and against trec_eval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evenreel.evaluation import EvaluationSettings, evaluate, parse_metric, parse_metrics
from evenreel.evaluation.metrics import Ties
from evenreel.evaluation.saving import write_run
from evenreel.evaluation.scores import read_run
from tests.evaluation import slow_metrics
from tests.evaluation.small_corpus import Degrees, corpus_of, scores_of

WORDS = [word for word in slow_metrics.METRICS if word != "rank"]
DEGREES = [0.0, 0.0, 0.0, 0.25, 0.75, 1.0, 1.0]


def one_query(scores: list[float], degrees: list[float], ties: Ties = "expected", **more: Any) -> dict[str, float]:
    """Columns of a single caption among videos, and the same the other way round, which must agree."""
    values, table = np.array([scores], **more), np.array([degrees])
    asked = EvaluationSettings(parse_metrics(WORDS), ties=ties, resamples=0, directions=("t2v",))
    ahead = evaluate(scores_of(values), corpus_of([0], len(scores)), asked, relevance=Degrees(table))
    asked = EvaluationSettings(parse_metrics(WORDS), ties=ties, resamples=0, directions=("v2t",))
    back = evaluate(scores_of(values.T), corpus_of([0] * len(scores), 1), asked, relevance=Degrees(table.T))
    columns = {name: float(column[0]) for name, column in ahead.directions["t2v"].per_query.items()}
    for name, column in back.directions["v2t"].per_query.items():
        assert column[0] == columns[name]
    return columns


few_scores = st.sampled_from([-np.inf, -1.0, 0.0, -0.0, 2.0, np.inf])
queries = st.lists(st.tuples(few_scores, st.sampled_from(DEGREES)), min_size=1, max_size=6).filter(
    lambda query: any(degree == 1 for _, degree in query)
)


@given(queries)
def test_expected_ties_are_the_mean_over_every_order(query: list[tuple[float, float]]) -> None:
    scores, degrees = [score for score, _ in query], [degree for _, degree in query]
    columns = one_query(scores, degrees)
    for name, value in columns.items():
        assert value == pytest.approx(slow_metrics.expected(name, scores, degrees), abs=1e-9), name


@given(queries)
def test_optimistic_and_pessimistic_ties_are_the_ends(query: list[tuple[float, float]]) -> None:
    scores, degrees = [score for score, _ in query], [degree for _, degree in query]
    for ties, sign in (("optimistic", 1), ("pessimistic", -1)):
        for name, value in one_query(scores, degrees, ties).items():
            order = slow_metrics.favouring(scores, degrees, sign)
            assert value == pytest.approx(slow_metrics.METRICS[name](order), abs=1e-9), (ties, name)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64, np.bool_, ">f4"])
def test_every_numeric_type_ranks_the_same(kind: Any) -> None:
    scores, degrees = [1, 0, 1, 0, 1], [0, 1, 1, 0.5, 0.5]
    assert one_query(scores, degrees, dtype=kind) == one_query(scores, degrees)


def test_half_precision_is_compared_as_it_is() -> None:
    near = np.nextafter(np.float16(1), np.float16(2))
    assert one_query([near, 1.0], [0, 1], dtype=np.float16)["rank"] == 2
    assert one_query([near, 1.0], [1, 0], dtype=np.float16)["rank"] == 1


def test_large_whole_numbers_are_not_rounded() -> None:
    assert one_query([2**60 + 1, 2**60], [0, 1], dtype=np.int64)["rank"] == 2


@pytest.mark.parametrize("relevant", [1, 2, 40])
@pytest.mark.parametrize("k", [1, 7, 30, 70])
def test_the_chance_of_a_hit_by_drawing(relevant: int, k: int) -> None:
    """Among 20 better items and 60 equal ones, against the ratio of binomial coefficients."""
    from math import comb

    drawn = max(k - 20, 0)
    chance = 1 - comb(60 - relevant, drawn) / comb(60, drawn) if drawn <= 60 else 1
    scores, degrees = [1.0] * 20 + [0.0] * 60, [0.0] * 20 + [1.0] * relevant + [0.0] * (60 - relevant)
    asked = EvaluationSettings(parse_metrics([f"R@{k}"]), resamples=0, directions=("t2v",))
    done = evaluate(scores_of([scores]), corpus_of([0], 80), asked, relevance=Degrees(np.array([degrees])))
    assert done.directions["t2v"].per_query[f"R@{k}"][0] == pytest.approx(100 * chance, abs=1e-9)


@given(hnp.arrays(np.float64, (5, 12), elements=st.integers(0, 1000), unique=True), st.integers(0, 2**60 - 1))
def test_trec_eval_has_the_same_figures(values: np.ndarray, bits: int) -> None:
    """Without ties, and with grades 0, 1, 2 as degrees 0, 1/2, 1: gain is linear there too."""
    grades = np.random.default_rng(bits).choice([0, 0, 0, 1, 2], (5, 12))
    grades[:, 0] = 2
    names = {"ndcg": "nDCG", "ndcg_cut_5": "nDCG@5"}
    binary = {"map": "mAP", "recip_rank": "MRR", "success_1": "R@1", "success_5": "R@5"}
    asked = EvaluationSettings(parse_metrics([*names.values(), *binary.values()]), resamples=0, directions=("t2v",))
    done = evaluate(scores_of(values), corpus_of([0] * 5, 12), asked, relevance=Degrees(grades / 2))
    run = {f"c{q}": {f"v{v}": float(values[q, v]) for v in range(12)} for q in range(5)}
    for wanted, lowest in ((names, 1), (binary, 2)):
        qrels = {
            f"c{q}": {f"v{v}": int(g) if lowest == 1 else int(g == 2) for v, g in enumerate(grades[q])}
            for q in range(5)
        }
        measures = {"ndcg", "ndcg_cut.5"} if lowest == 1 else {"map", "recip_rank", "success.1,5"}
        reference = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
        for theirs, ours in wanted.items():
            column = done.directions["t2v"].per_query[ours]
            np.testing.assert_allclose(column, [100 * reference[f"c{q}"][theirs] for q in range(5)], atol=1e-9)


def test_trec_eval_has_the_same_figures_of_short_lists(tmp_path: Path) -> None:
    """What a run of limited depth does not list is never retrieved, and earns nothing."""
    random = np.random.default_rng(3)
    values, grades = random.permuted(np.tile(np.arange(40.0), (30, 1)), axis=1), random.choice([0, 0, 0, 1], (30, 40))
    grades[:, 0] = 1
    corpus = corpus_of([0] * 30, 40)
    write_run(scores_of(values), tmp_path / "a.run", depth=6)
    names = {"map": "mAP", "recip_rank": "MRR", "success_5": "R@5", "success_10": "R@10", "ndcg": "nDCG"}
    asked = EvaluationSettings(parse_metrics(list(names.values())), resamples=0, directions=("t2v",))
    done = evaluate(read_run(tmp_path / "a.run", corpus), corpus, asked, relevance=Degrees(grades.astype(float)))
    kept = np.argsort(-values, axis=1)[:, :6]
    run = {f"c{q}": {f"v{v}": float(values[q, v]) for v in kept[q]} for q in range(30)}
    qrels = {f"c{q}": {f"v{v}": int(grade) for v, grade in enumerate(grades[q])} for q in range(30)}
    measures = {"map", "recip_rank", "success.5,10", "ndcg"}
    reference = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    columns = done.directions["t2v"].per_query
    for theirs, ours in names.items():
        np.testing.assert_allclose(columns[ours], [100 * reference[f"c{q}"][theirs] for q in range(30)], atol=1e-9)
    assert (columns["R@10"] == 0).any()


@pytest.mark.parametrize("depth", [40, 7])
def test_ir_measures_has_the_same_figures_by_the_same_names(depth: int, tmp_path: Path) -> None:
    words = ["P@1", "P@5", "P@50", "Precision@3", "Success@3", "AP", "RR"]
    random = np.random.default_rng(depth)
    values = random.permuted(np.tile(np.arange(40.0), (25, 1)), axis=1)
    table = random.choice([0, 0, 0, 1], (25, 40))
    table[:, 0] = 1
    corpus = corpus_of([0] * 25, 40)
    write_run(scores_of(values), tmp_path / "a.run", depth=depth)
    asked = EvaluationSettings(parse_metrics(words), resamples=0, directions=("t2v",))
    done = evaluate(read_run(tmp_path / "a.run", corpus), corpus, asked, relevance=Degrees(table.astype(float)))
    qrels = [
        ir_measures.Qrel(f"c{q}", f"v{v}", int(grade)) for q, row in enumerate(table) for v, grade in enumerate(row)
    ]
    run = ir_measures.read_trec_run(str(tmp_path / "a.run"))
    found = {}
    for one in ir_measures.iter_calc([ir_measures.parse_measure(word) for word in words], qrels, run):
        found[str(one.measure), one.query_id] = 100 * one.value
    for word in words:
        theirs = [found[str(ir_measures.parse_measure(word)), f"c{q}"] for q in range(25)]
        ours = done.directions["t2v"].per_query[str(parse_metric(word))]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
