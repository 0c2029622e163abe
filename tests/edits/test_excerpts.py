"""Clips that are written: excerpts, and clips in one form."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenreel.config import MediaLimits
from evenreel.edits.equalise import ExcerptReader
from evenreel.errors import MediaError
from evenreel.media import open_video, parse_rule, probe
from evenreel.media.encode import Form, framed, inner_size
from evenreel.media.encode import steady as evenly
from evenreel.planted import write_clip
from evenreel.types import Frame
from tests.media_files import Film, gop, number_in, numbered_picture, steady, write_film


def read(path: Path, excerpt: str, part: tuple[float | None, float | None] = (None, None)) -> list[NDArray[Any]]:
    reader = ExcerptReader(asdict(MediaLimits()))
    messages = list(reader({"path": str(path), "part": list(part), "excerpt": excerpt}))
    return [array for _, array in messages if array is not None]


def numbers(path: Path) -> list[int]:
    with open_video(path) as video:
        return [number_in(frame.pixels) for frame in video.frames(parse_rule("every 0.001 s"))]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 frames at 25 a second, each with its number."""
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    write_clip(path, (numbered_picture(number) for number in range(23)), 25)
    return path


@pytest.mark.parametrize(
    ("part", "number"), [((None, None), 4), ((0.4, None), 10 + 2), ((None, 0.2), 1), ((0.2, 0.24), 5)]
)
def test_the_keyframe_is_a_fifth_into_the_clip(
    film: Path, part: tuple[float | None, float | None], number: int
) -> None:
    (pixels,) = read(film, "keyframe", part)
    assert number_in(pixels) == number


@pytest.mark.parametrize(
    ("part", "shown"),
    [((None, None), range(11)), ((0.4, None), range(10, 16)), ((0.2, 0.6), range(5, 10)), ((0.2, 0.24), range(5, 6))],
)
def test_the_first_half_has_its_frames_at_their_rate(
    film: Path, tmp_path: Path, part: tuple[float | None, float | None], shown: range
) -> None:
    (first,), (again,) = read(film, "first_half", part), read(film, "first_half", part)
    assert first.tobytes() == again.tobytes()
    half = tmp_path / "half.mp4"
    half.write_bytes(first.tobytes())
    assert numbers(half) == list(shown)
    info = probe(half)
    assert (info.codec, info.width, info.height, info.fps) == ("H.264", 96, 64, 25.0)


def test_odd_sides_lose_a_row_or_column(tmp_path: Path) -> None:
    film = Film(steady(6), size=(97, 65), pix_fmt="yuv444p", options=gop(5))
    source = write_film(tmp_path / "odd.mkv", film)
    (half,) = read(source, "first_half")
    (tmp_path / "half.mp4").write_bytes(half.tobytes())
    info = probe(tmp_path / "half.mp4")
    assert (info.width, info.height, info.frame_count) == (96, 64, 3)


def test_a_picture_that_changes_its_size_has_no_first_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "film.mp4"
    write_clip(source, [numbered_picture(0)] * 8, 25)
    from evenreel.media.picture import PictureMaker

    sizes = iter([(64, 96), (64, 90)])
    monkeypatch.setattr(PictureMaker, "pixels", lambda self, frame: np.zeros((*next(sizes), 3), np.uint8))
    with pytest.raises(MediaError, match="changes on the way"):
        read(source, "first_half")


hundredths = st.integers(1, 60)
sides = st.integers(1, 900)


@given(gaps=st.lists(hundredths, min_size=1, max_size=12), start=st.integers(0, 300), fps=st.integers(1, 50))
def test_each_moment_shows_the_last_frame_before_it(gaps: list[int], start: int, fps: int) -> None:
    times = np.cumsum([start, *gaps]) / 100
    frames = [Frame(float(time), np.full((1, 1, 3), place, np.uint8)) for place, time in enumerate(times)]
    count, start_s = 20, start / 100
    shown = [int(pixels[0, 0, 0]) for pixels in evenly(frames, Fraction(fps), start_s, count)]
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
