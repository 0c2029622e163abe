"""Batches hold the real items of their rows, wherever these stand, and little else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.matchers.batches import row_lengths, text_batch, video_batch
from evenreel.types import OnScreen, TextFeatures, VideoFeatures

MASK = np.array([[1, 1, 0, 0, 0], [1, 0, 0, 1, 0], [1, 1, 1, 0, 0]], np.bool_)
VALUES = np.arange(3 * 5 * 2, dtype=np.float32).reshape(3, 5, 2)
TEXTS = TextFeatures(("a", "b", "c"), VALUES, MASK, VALUES[:, 0])
VIDEOS = VideoFeatures(("u", "v", "w"), VALUES, MASK, np.arange(15.0).reshape(3, 5))
SURENESS = np.array([[0.5, 0.25], [0.0, 1.0], [0.0, 0.0]], np.float32)
SURE = replace(VIDEOS, on_screen=OnScreen(VALUES[:, :2], SURENESS > 0, SURENESS))


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5))
def test_a_row_reaches_to_its_last_real_item(rows: list[list[bool]]) -> None:
    expected = [max((place + 1 for place, there in enumerate(row) if there), default=0) for row in rows]
    assert row_lengths(np.array(rows)).tolist() == expected


@pytest.mark.parametrize(("rows", "longest"), [([0], 2), ([0, 1], 4), ([2, 0], 3), ([0, 1, 2], 4)], ids=str)
def test_a_batch_is_cut_behind_the_last_real_item_of_its_rows(rows: list[int], longest: int) -> None:
    text, video = text_batch(TEXTS, np.array(rows)), video_batch(VIDEOS, np.array(rows))
    assert text.words.shape == video.frames.shape == (len(rows), longest, 2)
    assert text.word_mask.tolist() == video.frame_mask.tolist() == MASK[rows, :longest].tolist()
    np.testing.assert_array_equal(text.words.numpy(), VALUES[rows, :longest])
    np.testing.assert_array_equal(video.times_s.numpy(), VIDEOS.times_s[rows, :longest])
    read = video_batch(SURE, np.array(rows)).on_screen
    assert read is not None
    np.testing.assert_array_equal(read.confidence, SURENESS[rows])
    assert video.on_screen is None
    assert text.ids == tuple("abc"[row] for row in rows)
    assert video.ids == tuple("uvw"[row] for row in rows)
