"""Small real video files for the tests of the library, each with its own colour so that contents differ."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from evenreel.media.encode import clip_bytes
from evenreel.types import Pixels


def write_video(path: Path, seed: int, seconds: float = 2.0, fps: int = 5, size: int = 64) -> Path:
    """A square that moves over a background; equal seeds give equal bytes, which FFmpeg's defaults do not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_content(seed, round(seconds * fps), fps, size))
    return path


@cache
def _content(seed: int, count: int, fps: int, size: int) -> bytes:
    """Of one video; a run of tests writes the same ones hundreds of times."""
    return clip_bytes(_pictures(seed, count, size), fps)


def _pictures(seed: int, count: int, size: int) -> Iterator[Pixels]:
    rng = np.random.default_rng(seed)
    background, square = rng.integers(0, 255, 3), rng.integers(0, 255, 3)
    for number in range(count):
        picture = np.tile(background.astype(np.uint8), (size, size, 1))
        left = 3 * number % (size - 16)
        picture[20:36, left : left + 16] = square
        yield picture


def write_folder(folder: Path, count: int, seconds: float = 2.0, first: int = 0) -> list[Path]:
    """`clip_00.mp4` and so on, from the number `first`."""
    return [write_video(folder / f"clip_{number:02}.mp4", number, seconds) for number in range(first, first + count)]
