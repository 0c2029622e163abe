"""Keyframes and first halves: the right frames, read from whole files and from parts of them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media import open_video, parse_rule, probe
from evenreel.media.encode import ExcerptReader
from evenreel.planted import write_clip
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
    assert (info.codec, info.width, info.height, info.fps) == ("h264", 96, 64, 25.0)


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
