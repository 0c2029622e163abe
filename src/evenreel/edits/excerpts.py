"""What a video generator is given of a clip: a keyframe, or its first half."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media import Video, open_video
from evenreel.media.encode import ClipEncoder, even_sided
from evenreel.media.sampling import Part
from evenreel.media.workers import Message

KEYFRAME_AT = Fraction(1, 5)  # where in a clip its keyframe is (Generative Ghost, section 2.2)
_USUAL_FPS = Fraction(25)


@dataclass(frozen=True)
class FrameAt:
    """Sampling rule for one frame of a clip, at a share of its length: number floor(share x n) of n frames.

    >>> FrameAt(KEYFRAME_AT).indices(14, 25.0)
    [2]
    """

    share: Fraction

    def indices(self, frame_count: int, fps: float) -> list[int]:
        return [int(self.share * frame_count)]

    def capped(self, duration_s: float, max_frames: int) -> FrameAt:
        return self


@dataclass(frozen=True)
class FirstHalf:
    """Sampling rule for all frames of the first half of a clip, rounded down; of a single frame, that frame.

    >>> FirstHalf().indices(7, 25.0)
    [0, 1, 2]
    """

    def indices(self, frame_count: int, fps: float) -> list[int]:
        return list(range(max(1, frame_count // 2)))

    def capped(self, duration_s: float, max_frames: int) -> FirstHalf:
        return self  # they are encoded one by one and not kept


class ExcerptReader:
    """Worker that answers a task `{"path", "part", "excerpt"}` with a `keyframe` or with the `first_half` of a clip.

    `nothing` finds out whether it can be read. A keyframe is sent as pixels (H, W, 3), a first half as the bytes of an
    mp4 file at the mean rate of the video, after messages `tick` that report progress. In the mp4 file the last row or
    column is left out where it would be odd.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        excerpt, part = task["excerpt"], Part(*task["part"])
        with open_video(task["path"], self._limits) as video:
            if excerpt == "keyframe":
                frame = next(video.frames(part.rule(FrameAt(KEYFRAME_AT))), None)
                if frame is None:
                    raise MediaError("no_frames", "its keyframe, a fifth into the clip, could not be decoded")
                yield {"kind": excerpt}, frame.pixels
            elif excerpt == "first_half":
                yield from _first_half(video, part)


def _first_half(video: Video, part: Part) -> Iterator[Message]:
    encoder = ClipEncoder(Fraction(video.info.fps or _USUAL_FPS).limit_denominator(1001) or _USUAL_FPS)
    size: tuple[int, ...] | None = None
    for frame in video.frames(part.rule(FirstHalf())):
        if size not in (None, frame.pixels.shape):
            raise MediaError("failed", "the size of its pictures changes on the way; give it one size")
        size = frame.pixels.shape
        encoder.add(even_sided(frame.pixels))
        yield {"kind": "tick"}, None
    if size is None:
        raise MediaError("no_frames", "no frame of its first half could be decoded")
    yield {"kind": "first_half"}, np.frombuffer(encoder.finish(), np.uint8)
