"""Guesses that look at no video: by hand, and DiDeMo's known position prior."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evenreel.corpus import FORMATS, select
from evenreel.evaluation.moments import (
    MomentSettings,
    best_positions,
    blind_predictions,
    evaluate_moments,
    moment_truth,
    whole_clips,
)
from tests.evaluation.moments.test_measured import truth_of


def test_the_whole_clip_ends_with_the_last_window_where_its_length_is_not_known() -> None:
    truth = truth_of([[10, 30]], [[0, 5]])
    truth.durations[1] = np.nan
    windows = whole_clips(truth).windows
    assert windows["q0"].tolist() == [[0, 100]] and windows["q1"].tolist() == [[0, 5]]


def test_positions_are_those_of_the_training_annotations() -> None:
    truth, late = truth_of([[0, 10]]), truth_of(*([[80 + shift / 7, 100 - shift / 7]] for shift in range(120)))
    found = best_positions(truth, late).windows["q0"]
    assert found[0, 0] >= 75 and found.shape == (10, 2)
    assert best_positions(truth, None).windows["q0"].tolist() == [[0, 50]]
    few = truth_of([[0, 10]], [[0, 10]], [[10, 20]])
    assert best_positions(truth, few).windows["q0"].tolist() == [[0, 10], [10, 20]]
    assert list(blind_predictions(truth)) == ["the whole clip", "the first half of the clip"]


def test_the_position_prior_of_didemo_is_the_published_one(shared_data: Path) -> None:
    corpus = FORMATS["didemo-moments"]([shared_data / "didemo_moments"]).corpus
    test, val = (moment_truth(select(corpus, split=split)) for split in ("test", "val"))
    prior = best_positions(test, val)
    found = evaluate_moments(prior, test, MomentSettings(("Rank@1", "Rank@5", "mIoU"))).summary
    assert [round(one.value, 2) for one in found.values()] == [19.40, 68.12, 25.42]


def test_the_first_half_of_qvhighlights_clips(shared_data: Path) -> None:
    truth = moment_truth(select(FORMATS["qvhighlights"]([shared_data / "qvhighlights"]).corpus, split="val"))
    found = evaluate_moments(best_positions(truth, None), truth, MomentSettings(("mIoU", "R1@0.5"))).summary
    assert [one.value for one in found.values()] == pytest.approx([21.53, 13.55], abs=0.005)
