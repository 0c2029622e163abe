"""Class lengths against a dictionary of lists, and the known figures of EPIC-KITCHENS-100."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.audits.class_lengths import class_lengths

Clips = list[tuple[int, float]]
CLIPS = st.lists(st.tuples(st.integers(0, 4), st.floats(1, 100) | st.just(float("nan"))), max_size=20)
TAKE_RUBBISH = 54


def columns(clips: Clips) -> tuple[np.ndarray, np.ndarray]:
    return np.array([c for c, _ in clips], np.int64), np.array([length for _, length in clips], np.float64)


def listed(clips: Clips) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for name, length in clips:
        if not np.isnan(length):
            found[name].append(length)
    return found


@given(CLIPS, CLIPS)
def test_means_of_the_classes_that_both_have(train: Clips, test: Clips) -> None:
    found, first, second = class_lengths(columns(train), columns(test)), listed(train), listed(test)
    assert found.classes.tolist() == sorted(first.keys() & second.keys())
    for place, name in enumerate(found.classes.tolist()):
        assert found.discrepancy[place] == pytest.approx(np.mean(second[name]) - np.mean(first[name]))
        assert (found.train_count[place], found.test_count[place]) == (len(first[name]), len(second[name]))


def test_a_discrepancy_counts_either_way() -> None:
    found = class_lengths(
        (np.array([0, 1, 2]), np.array([10.0, 10.0, 10.0])), (np.array([0, 1, 2]), np.array([13.0, 7.0, 12.0]))
    )
    assert (found.count_above(2), found.count_above(3), found.count_above(3, or_equal=True)) == (2, 0, 2)


def test_the_classes_of_epic_kitchens(shared_data: Path) -> None:
    """The paper: 1,114 classes; take+rubbish 95 clips of mean 177.11, in test 305.5; 559 above 60, 212 of at least 200.

    The two counts differ because the training lengths here are re-timed from 30 frames a second.
    """
    folder = shared_data / "epic_kitchens_100"
    rates = pl.read_csv(folder / "EPIC_100_video_info.csv").select("video_id", "fps")
    names = ["narration_id", "video_id", "start", "stop", "verb", "noun", "action"]
    train = pl.read_csv(folder / "rulstm_training.csv", has_header=False, new_columns=names).join(rates, on="video_id")
    test = pl.read_csv(folder / "EPIC_100_retrieval_test.csv")
    found = class_lengths(
        (
            train.select(pl.col("verb") * 1000 + pl.col("noun")).to_series().to_numpy(),
            train.select((pl.col("stop") - pl.col("start")) * pl.col("fps") / 30).to_series().to_numpy(),
        ),
        (
            test.select(pl.col("verb_class") * 1000 + pl.col("noun_class")).to_series().to_numpy(),
            test.select((pl.col("stop_frame") - pl.col("start_frame")).cast(pl.Float64)).to_series().to_numpy(),
        ),
    )
    assert (train.height, test.height, len(found.classes)) == (67_217, 9_668, 1_114)
    place = int(np.searchsorted(found.classes, TAKE_RUBBISH))
    assert (found.train_count[place], found.test_count[place]) == (95, 4)
    assert found.train_mean[place] == pytest.approx(177.1, abs=0.2)
    assert found.test_mean[place] == 305.5
    assert found.count_above(60) == pytest.approx(580, abs=3)
    assert found.count_above(200, or_equal=True) == pytest.approx(217, abs=2)
