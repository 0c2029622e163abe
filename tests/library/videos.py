"""Small real video files for the tests of the library, each with its own colour so that contents differ."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np


def write_video(path: Path, seed: int, seconds: float = 2.0, fps: int = 5, size: int = 64) -> Path:
    """A square that moves over a background; equal seeds look alike, though bytes of two encodings may differ."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    background, square = rng.integers(0, 255, 3), rng.integers(0, 255, 3)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"threads": "1"})
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        for number in range(round(seconds * fps)):
            picture = np.tile(background.astype(np.uint8), (size, size, 1))
            left = 3 * number % (size - 16)
            picture[20:36, left : left + 16] = square
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode())
    return path


def write_folder(folder: Path, count: int, seconds: float = 2.0) -> list[Path]:
    """`clip_00.mp4` and so on."""
    return [write_video(folder / f"clip_{number:02}.mp4", number, seconds) for number in range(count)]
