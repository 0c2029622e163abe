"""Frames at a steady rate and pictures of one size, against their definitions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.media.encode import Form, framed, inner_size, steady
from evenreel.types import Frame

hundredths = st.integers(1, 60)
sides = st.integers(1, 900)


@given(gaps=st.lists(hundredths, min_size=1, max_size=12), start=st.integers(0, 300), fps=st.integers(1, 50))
def test_each_moment_shows_the_last_frame_before_it(gaps: list[int], start: int, fps: int) -> None:
    times = np.cumsum([start, *gaps]) / 100
    frames = [Frame(float(time), np.full((1, 1, 3), place, np.uint8)) for place, time in enumerate(times)]
    count, start_s = 20, start / 100
    shown = [int(pixels[0, 0, 0]) for pixels in steady(frames, Fraction(fps), start_s, count)]
    moments = [start_s + number / fps for number in range(count)]
    assert shown == [max(sum(time <= moment + 1e-6 for time in times) - 1, 0) for moment in moments]


@given(width=sides, height=sides, frame=st.tuples(st.integers(8, 320), st.integers(8, 240)))
def test_pad_stays_inside_and_crop_covers(width: int, height: int, frame: tuple[int, int]) -> None:
    whole = inner_size(width, height, Form(Fraction(8), *frame))
    filled = inner_size(width, height, Form(Fraction(8), *frame, "crop"))
    assert whole[0] <= frame[1]
    assert whole[1] <= frame[0]
    assert whole[0] == frame[1] or whole[1] == frame[0]
    assert filled[0] >= frame[1]
    assert filled[1] >= frame[0]
    assert filled[0] == frame[1] or filled[1] == frame[0]


@pytest.mark.parametrize("size", [(4, 6), (10, 6), (4, 12), (10, 12), (6, 10), (5, 9)])
def test_a_picture_stands_in_the_middle(size: tuple[int, int]) -> None:
    """A mark in the middle of the picture is in the middle of the frame, to a pixel; what is beside it is black."""
    height, width = size
    picture = np.full((height, width, 3), 200, np.uint8)
    picture[height // 2, width // 2] = 255
    done = framed(picture, 10, 6)
    assert done.shape == (6, 10, 3)
    row, column = np.argwhere(done[..., 0] == 255)[0]
    assert abs(row - 3) <= 1
    assert abs(column - 5) <= 1
    assert (done[..., 0] > 0).sum() == min(height, 6) * min(width, 10)
