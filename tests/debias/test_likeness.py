"""Weights of training clips follow the ratio of densities that the searched clips and they were drawn by."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.debias.likeness import likeness_weights
from evenreel.errors import UsageError
from evenreel.types import FloatArray


def mean_frames_at(places: list[float], count: int, seed: int) -> FloatArray:
    """Mean frames from normal distributions around places on the first axis, `count` of each."""
    rng = np.random.default_rng(seed)
    found: FloatArray = rng.standard_normal((len(places) * count, 4)).astype(np.float32)
    found[:, 0] += np.repeat(places, count)
    return found


def test_weights_are_the_bounded_ratio_of_the_densities() -> None:
    """Nine in ten clips are around 0, the others and all searched ones around 3: g / ((p + g) / 2) by hand."""
    learned = np.concatenate([mean_frames_at([0.0], 1_800, 0), mean_frames_at([3.0], 200, 1)])
    found = likeness_weights(learned, mean_frames_at([3.0], 500, 2))
    away, home = (np.exp(-((learned[:, 0] - place) ** 2) / 2) for place in (0.0, 3.0))
    wanted = home / ((0.9 * away + 0.1 * home + home) / 2)
    assert np.corrcoef(found, wanted)[0, 1] > 0.97
    assert found[1_800:].sum() / found.sum() == pytest.approx(wanted[1_800:].sum() / wanted.sum(), abs=0.1)


def test_clips_that_are_alike_weigh_alike() -> None:
    found = likeness_weights(mean_frames_at([0.0], 2_000, 0), mean_frames_at([0.0], 500, 1))
    assert found.mean() == pytest.approx(1) and np.abs(found - 1).max() < 0.3


@settings(max_examples=20)
@given(
    st.lists(st.floats(0.1, 10), min_size=4, max_size=4),
    st.lists(st.floats(-5, 5), min_size=4, max_size=4),
    st.permutations(range(4)),
)
def test_neither_unit_nor_origin_nor_order_of_features_matters(
    scale: list[float], origin: list[float], order: list[int]
) -> None:
    learned, searched = mean_frames_at([0.0, 2.0], 30, 0), mean_frames_at([2.0], 20, 1)
    changed = [(part * np.array(scale) + np.array(origin))[:, order] for part in (learned, searched)]
    assert likeness_weights(*changed) == pytest.approx(likeness_weights(learned, searched), abs=1e-3)


def test_a_feature_that_never_changes_is_no_reason() -> None:
    learned, searched = mean_frames_at([0.0, 2.0], 30, 0), mean_frames_at([2.0], 20, 1)
    constant = [np.concatenate([part, np.full((len(part), 1), 7.0)], axis=1) for part in (learned, searched)]
    assert likeness_weights(*constant) == pytest.approx(likeness_weights(learned, searched), abs=1e-3)


@pytest.mark.parametrize("wrong", [np.zeros((0, 4)), np.full((2, 4), np.nan)])
def test_what_cannot_be_compared_is_refused(wrong: FloatArray) -> None:
    with pytest.raises(UsageError, match="Likeness compares the frames of 3 training clips"):
        likeness_weights(np.eye(3, 4), wrong)
