"""Directions of habits of wording, found from captions of the same clips."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.debias.habits import habit_directions, without_directions
from evenreel.errors import UsageError
from evenreel.types import FloatArray


def written(habits: float, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Captions by people whose habits lie in three of twelve directions, their clips (1 to 3 each), the directions."""
    rng = np.random.default_rng(seed)
    clips = np.repeat(np.arange(600), rng.integers(1, 4, 600))
    basis = np.linalg.qr(rng.standard_normal((12, 3)))[0].T
    shown = rng.standard_normal((600, 12))[clips]
    own = habits * rng.standard_normal((len(clips), 3)) @ basis
    order = rng.permutation(len(clips))
    return (shown + own + 0.3 * rng.standard_normal(shown.shape))[order], clips[order], basis


def test_the_directions_are_those_of_habits_and_as_many() -> None:
    captions, clips, basis = written(1.0)
    found = habit_directions(captions, clips)
    assert found.shape == (3, 12) and found @ found.T == pytest.approx(np.eye(3), abs=1e-9)
    assert np.linalg.svd(found @ basis.T)[1].min() > 0.99


def test_differences_are_those_of_pairs_of_captions_of_one_clip() -> None:
    """Their second moment is that of the distances to the clips' means, by a slow loop over pairs."""
    captions, clips, _ = written(1.0)
    total, by_clip = np.zeros((12, 12)), {clip: np.flatnonzero(clips == clip) for clip in set(clips.tolist())}
    for rows in by_clip.values():
        for one in rows:
            for other in rows:
                apart = captions[one] - captions[other]
                total += np.outer(apart, apart) / (2 * len(rows))
    values, vectors = np.linalg.eigh(total)
    wanted = vectors[:, values > 2 * np.median(values)].T
    found = habit_directions(captions, clips)
    assert found.T @ found == pytest.approx(wanted.T @ wanted, abs=1e-6)


def test_without_habits_nothing_is_taken_out() -> None:
    captions, clips, _ = written(0.0)
    assert habit_directions(captions, clips).shape == (0, 12)


def test_a_higher_bar_takes_less_and_never_more_than_half() -> None:
    captions, clips, _ = written(1.0)
    assert len(habit_directions(captions, clips, beyond=1e6)) == 0
    rng = np.random.default_rng(0)
    apart = rng.standard_normal((400, 4)) * [1, 5, 7, 9]
    assert len(habit_directions(apart, np.arange(400) // 2, beyond=1)) == 2


@given(st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_what_is_taken_out_is_gone_and_the_rest_has_unit_length(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((6, 6)))[0][:count]
    vectors = rng.standard_normal((3, 4, 6))
    vectors[0, 0] = 0
    cleared = without_directions(vectors, directions)
    assert np.abs(cleared @ directions.T).max(initial=0) < 1e-9
    lengths = np.linalg.norm(cleared, axis=-1)
    assert lengths[0, 0] == 0 and np.delete(lengths.ravel(), 0) == pytest.approx(1)
    again = without_directions(cleared, directions)
    assert again == pytest.approx(cleared)


def test_captions_that_stand_alone_say_nothing_of_habits() -> None:
    captions, _, _ = written(1.0)
    with pytest.raises(UsageError, match="0 captions share a clip"):
        habit_directions(captions, np.arange(len(captions)))
