"""Makes video files for tests, ordinary and odd. Each frame carries its number as black and white blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]

BITS = 12
MILLISECONDS = Fraction(1, 1000)
ENCRYPTION = {
    "encryption_scheme": "cenc-aes-ctr",
    "encryption_key": "76a6c65c5ea762046bd749a2e632ccbb",
    "encryption_kid": "a7e61c373e219033c21091fa607bf3b8",
}
"""Options with which FFmpeg encrypts an MP4 file."""


def numbered_picture(number: int, width: int = 96, height: int = 64) -> Picture:
    """(height, width, 3): the number in 12 blocks, 6 a row, over a grey that moves; the first bit top left."""
    rows = np.arange(height)[:, None] * BITS // 6 // height
    columns = np.arange(width)[None, :] * 6 // width
    bit = rows * 6 + columns
    picture = np.where(number >> bit & 1, 235, 20).astype(np.uint8)
    return np.repeat(picture[..., None], 3, axis=2)


def number_in(picture: Picture) -> int:
    """The number that a picture of `numbered_picture` shows, read at the middle of each block."""
    height, width = picture.shape[:2]
    bits = [
        picture[height * (2 * (bit // 6) + 1) // 4, width * (2 * (bit % 6) + 1) // 12].mean() > 128
        for bit in range(BITS)
    ]
    return sum(1 << position for position, bit in enumerate(bits) if bit)


@dataclass(frozen=True)
class Film:
    """How `write_film` encodes: `times` are the timestamps of the frames in units of `time_base`."""

    times: Sequence[int]
    codec: str = "libx264"
    pix_fmt: str = "yuv420p"
    size: tuple[int, int] = (96, 64)
    time_base: Fraction = MILLISECONDS
    options: dict[str, str] = field(default_factory=dict)
    container_options: dict[str, str] = field(default_factory=dict)
    aspect: Fraction | None = None


def steady(count: int, fps: int = 25) -> list[int]:
    """Timestamps in milliseconds of `count` frames at a whole frame rate that divides 1000."""
    return [k * 1000 // fps for k in range(count)]


def gop(length: int, *, b_frames: int = 0, more: str = "") -> dict[str, str]:
    """x264 options: a keyframe each `length` frames, no scene cuts."""
    parts = f"keyint={length}:min-keyint={length}:scenecut=0:bframes={b_frames}{more}"
    return {"preset": "ultrafast", "x264-params": parts}


def write_film(path: Path, film: Film, pictures: Sequence[Picture | av.VideoFrame] | None = None) -> Path:
    """Encode numbered pictures, or the given ones, into a file; its container follows from the name."""
    with av.open(str(path), "w", options=film.container_options) as container:
        stream = container.add_stream(film.codec, rate=25, options=film.options)
        stream.width, stream.height = film.size
        stream.pix_fmt = film.pix_fmt
        stream.codec_context.time_base = film.time_base
        stream.time_base = film.time_base
        if film.aspect is not None:
            stream.codec_context.sample_aspect_ratio = film.aspect
        for number, time in enumerate(film.times):
            picture = pictures[number] if pictures is not None else numbered_picture(number, *film.size)
            container.mux(stream.encode(_frame(picture, film, time)))
        container.mux(stream.encode(None))
    return path


def _frame(picture: Picture | av.VideoFrame, film: Film, time: int) -> av.VideoFrame:
    if isinstance(picture, av.VideoFrame):
        frame = picture
    else:
        layout = {2: "gray", 3: "rgb24"} if picture.ndim == 2 or picture.shape[2] == 3 else {3: "rgba"}
        frame = av.VideoFrame.from_ndarray(picture, layout[picture.ndim])
    frame.pts, frame.time_base = time, film.time_base
    return frame


def remux(source: Path, target: Path, change: object = None, **options: str) -> Path:
    """Copy the packets of a file into another; `change(packet)` returns the packet, changed, or None."""
    with av.open(str(source)) as reader, av.open(str(target), "w", options=options) as writer:
        video = reader.streams.video[0]
        copy = writer.add_stream_from_template(video)
        for packet in reader.demux(video):
            if packet.dts is None:
                continue
            changed = change(packet) if callable(change) else packet
            if changed is not None:
                changed.stream = copy
                writer.mux(changed)
    return target


def all_times(path: Path) -> list[float]:
    """Seconds of every frame, the first at zero, read the plain way: decode everything, look at pts."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stamps = [frame.pts for frame in container.decode(stream)]
        base = stream.time_base
    return [float((stamp - stamps[0]) * base) for stamp in stamps]
