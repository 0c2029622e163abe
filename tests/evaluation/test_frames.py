"""Figures, differences and groups as tables: a row for each, with what the records hold."""

from __future__ import annotations

import numpy as np
import polars as pl

from evenreel.corpus import make_corpus
from evenreel.evaluation import EvaluationSettings, compare, evaluate
from evenreel.types import Corpus, Scores

COUNT = 80


def corpus() -> Corpus:
    ids = [f"v{number}" for number in range(COUNT)]
    clips = pl.DataFrame({"clip_id": ids, "genre": ["film", "news"] * (COUNT // 2)})
    captions = pl.DataFrame({"caption_id": [f"c{one}" for one in ids], "clip_id": ids, "text": ids})
    return make_corpus(clips, captions)


def scores(seed: int, signal: float) -> Scores:
    values = np.random.default_rng(seed).normal(size=(COUNT, COUNT)) + signal * np.eye(COUNT)
    ids = [f"v{number}" for number in range(COUNT)]
    return Scores(values, [f"c{one}" for one in ids], ids)


def test_every_figure_has_a_row() -> None:
    found = evaluate(scores(0, 2), corpus(), EvaluationSettings(metrics=("R@1", "MedR")))
    assert found.to_frame().rows() == [
        (direction, word, figure.value, figure.low, figure.high)
        for direction in ("t2v", "v2t")
        for word, figure in found.directions[direction].summary.items()
    ]


def test_figures_without_intervals_have_empty_ends() -> None:
    settings = EvaluationSettings(metrics="R@1", directions="t2v", resamples=0)
    table = evaluate(scores(0, 2), corpus(), settings).to_frame()
    assert table.columns == ["direction", "metric", "value", "low", "high"]
    assert table.select("low", "high").row(0) == (None, None)


def test_every_difference_has_a_row_with_its_interval() -> None:
    settings = EvaluationSettings(metrics=("R@1", "MRR"), directions="t2v")
    base, other = (evaluate(scores(seed, signal), corpus(), settings) for seed, signal in ((0, 2), (1, 3)))
    compared = compare(base, {"other": other}, settings)
    for row, made in zip(compared.rows, compared.to_frame().iter_rows(named=True), strict=True):
        assert (made["difference"], made["low"], made["high"]) == (
            row.difference.value,
            row.difference.low,
            row.difference.high,
        )
        assert (made["system"], made["metric"], made["p_holm"], made["wins"]) == (
            row.system,
            row.metric,
            row.p_holm,
            row.wins,
        )


def test_every_group_has_a_row_a_metric() -> None:
    settings = EvaluationSettings(metrics=("R@1", "MRR"), directions="t2v", by="genre")
    groups = evaluate(scores(0, 2), corpus(), settings).directions["t2v"].by["genre"]
    table = groups.to_frame()
    assert table.select("group", "queries", "drawn", "metric").rows() == [
        (name, COUNT // 2, COUNT // 2, word) for name in ("film", "news") for word in ("R@1", "MRR")
    ]
    assert table["value"].to_list() == [one.summary[word].value for one in groups.groups for word in ("R@1", "MRR")]
