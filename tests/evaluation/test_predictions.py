"""Predictions of MTEB as scores; in `tests/integrations` its harness writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenreel.errors import ScoresError
from evenreel.evaluation import load_scores
from evenreel.integrations.mteb import load_predictions
from tests.evaluation.small_corpus import corpus_of

LISTED = {"c0": {"v0": 0.5, "v2": 0.25}, "c1": {"v0": 1, "v1": -2.5}, "c2": {}}


def written(folder: Path, document: Any) -> Path:
    path = folder / "Task_predictions.json"
    path.write_text(json.dumps(document))
    return path


def predictions(folder: Path, **parts: Any) -> Path:
    return written(folder, {"mteb_model_meta": {"name": "org/model"}} | (parts or {"default": {"test": LISTED}}))


def test_what_is_listed_scores_and_what_is_not_was_not_retrieved(tmp_path: Path) -> None:
    notices: list[str] = []
    scores = load_scores(predictions(tmp_path), corpus_of([0, 1, 2], 3), notice=notices.append)
    none = -np.inf
    expected = [[0.5, none, 0.25], [1, -2.5, none], [none, none, none]]
    assert scores.block(slice(0, 3), slice(0, 3)).tolist() == expected
    assert len(notices) == 1
    assert "list 44.4% of all pairs" in notices[0]
    assert "1 of 3 captions have no list" in notices[0]


def test_videos_ask_where_the_ids_say_so(tmp_path: Path) -> None:
    turned = {"v0": {"c1": 2.0, "c0": 1.0}}
    scores = load_predictions(predictions(tmp_path, default={"test": turned}), corpus_of([0, 1, 2], 3))
    assert (scores.queries, scores.block(slice(0, 2), slice(0, 1)).tolist()) == ("v2t", [[1], [2]])


def test_hazard_197_a_result_file_of_mteb_says_that_it_holds_figures_alone(tmp_path: Path) -> None:
    path = written(tmp_path, {"task_name": "T", "scores": {"test": [{"ndcg_at_10": 0.5, "hf_subset": "default"}]}})
    with pytest.raises(ScoresError, match=r"holds figures alone; .* writes as TASK_predictions.json"):
        load_scores(path, corpus_of([0, 1, 2], 3))


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"a": {"test": LISTED}, "b": {"test": LISTED}}, r"several parts \(a/test, b/test\); load one with"),
        ({"default": {"test": {"c0": {"v0": "high"}}}}, "no table of numbers for the query 'c0'"),
        ({"default": {"test": {"c0": ["v0"]}}}, "no table of numbers for the query 'c0'"),
        ({"default": {"test": {"c0": {"v0": float("nan")}}}}, "Pair 1 of .* has no number"),
        ({"c0": {"v0": 0.5}}, "has no predictions of any subset/any split; it has: none"),
        ([], "holds no table of names"),
    ],
)
def test_hazard_198_a_file_in_json_that_is_no_list_of_scores_is_refused(
    tmp_path: Path, document: Any, sentence: str
) -> None:
    with pytest.raises(ScoresError, match=sentence):
        load_scores(written(tmp_path, document), corpus_of([0, 1, 2], 3))


def test_one_of_several_parts_is_loaded(tmp_path: Path) -> None:
    path = predictions(tmp_path, en={"dev": {"c1": {"v1": 1.0}}, "test": LISTED}, de={"test": {"c0": {"v2": 3.0}}})
    scores = load_predictions(path, corpus_of([0, 1, 2], 3), split="test", subset="de")
    assert scores.block(slice(0, 1), slice(2, 3)).tolist() == [[3]]
