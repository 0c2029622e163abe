"""The untrusted half of stills and previews, run in a killable worker: open, decode, scale, encode."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media import open_video
from evenreel.media.picture import BT709, to_jpeg
from evenreel.media.sampling import EverySeconds, Part
from evenreel.media.workers import Message
from evenreel.types import Frame

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

PREVIEW_SIDE_PX = 480
PREVIEW_RATE = 30
LAST_S = 1e-3
"""Seconds before the end of a video at which its last frame is still on screen."""
LIMITED_RANGE = 1
TICKS = 90_000
"""Ticks of a preview's clock in a second."""


@dataclass(frozen=True)
class OneMoment:
    needs_end: ClassVar[bool] = True
    time_s: float

    def times(self, start_s: float, end_s: float) -> Iterator[float]:
        """Return the one moment, or the last one if the video ends before it."""
        return iter([max(start_s, min(self.time_s, end_s - LAST_S))])

    def capped(self, duration_s: float, max_frames: int) -> OneMoment:
        return self


class PictureReader:
    """Worker that answers `{"still": path, "time_s", "width"}` with JPEG bytes, and requests for previews.

    And `{"preview": path, "start_s", "end_s", "out"}` with a file at `out` and a message for each of its frames.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        if "still" in task:
            yield {}, np.frombuffer(self._still(task["still"], task["time_s"], task["width"]), np.uint8)
        else:
            yield from self._preview(task)

    def _still(self, path: str, time_s: float, width: int) -> bytes:
        with open_video(path, self._limits) as video:
            frame = next(video.frames(OneMoment(time_s)), None)
        if frame is None:
            raise MediaError("no_frames", "there is no picture at this time")
        return to_jpeg(frame.pixels, width, 4 * width)

    def _preview(self, task: dict[str, Any]) -> Iterator[Message]:
        import av

        part = Part(task["start_s"], task["end_s"])
        with open_video(task["preview"], self._limits, threads=2) as video:
            frames = video.frames(part.rule(EverySeconds(1 / PREVIEW_RATE)))
            first = next(frames, None)
            if first is None:
                raise MediaError("no_frames", "there are no pictures in this part of the video")
            try:
                with av.open(task["out"], "w", format="mp4", options={"movflags": "+faststart"}) as container:
                    yield from _encode(container, itertools.chain([first], _until_damaged(frames)), task["start_s"])
            except OSError as error:
                why = error.strerror or "it cannot be written"
                raise MediaError("unreadable", f"its preview cannot be written ({why.lower()})") from error


def _encode(container: OutputContainer, frames: Iterator[Frame], start_s: float) -> Iterator[Message]:
    stream = None
    for frame in frames:
        stream = stream or _stream(container, *_preview_size(*frame.pixels.shape[:2]))
        container.mux(stream.encode(_video_frame(frame, start_s, stream.width, stream.height)))
        yield {"time_s": frame.time_s}, None
    if stream is not None:
        container.mux(stream.encode(None))


def _until_damaged(frames: Iterator[Frame]) -> Iterator[Frame]:
    """The good frames of a video that is refused at its end for the others."""
    try:
        yield from frames
    except MediaError:
        return


def _stream(container: OutputContainer, width: int, height: int) -> VideoStream:
    stream = container.add_stream("libx264", rate=PREVIEW_RATE, options={"preset": "veryfast", "crf": "26"})
    stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
    context = stream.codec_context
    context.time_base = Fraction(1, TICKS)
    context.colorspace = context.color_primaries = context.color_trc = BT709
    context.color_range = LIMITED_RANGE
    return stream


def _video_frame(frame: Frame, start_s: float, width: int, height: int) -> Any:
    import av

    made = av.VideoFrame.from_ndarray(frame.pixels, format="rgb24").reformat(
        width, height, "yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG"
    )
    made.pts = round(max(0.0, frame.time_s - start_s) * TICKS)
    made.time_base = Fraction(1, TICKS)
    return made


def _preview_size(height: int, width: int) -> tuple[int, int]:
    """Even width and height, the shorter of at most `PREVIEW_SIDE_PX`."""
    factor = min(1.0, PREVIEW_SIDE_PX / min(height, width))
    return max(2, round(width * factor / 2) * 2), max(2, round(height * factor / 2) * 2)
