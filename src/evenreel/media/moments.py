"""The part of reading clips' frames at given moments that runs in a killable worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from evenreel.config import MediaLimits
from evenreel.media import open_video
from evenreel.media.workers import Message


@dataclass(frozen=True)
class GivenTimes:
    """Sampling rule for the frames at given moments, rising, in seconds of the file.

    >>> list(GivenTimes((0.5, 2.0)).times(0.0, 8.0))
    [0.5, 2.0]
    """

    needs_end: ClassVar[bool] = False
    at_s: Sequence[float]

    def times(self, start_s: float, end_s: float) -> Iterator[float]:
        """Return the given moments, in seconds."""
        return iter(self.at_s)

    def capped(self, duration_s: float, max_frames: int) -> GivenTimes:
        """Return this rule unchanged: all given moments are wanted."""
        return self


class MomentReader:
    """Worker that answers a task `{"path", "at_s"}` with the frames on screen at these seconds, pixels (H, W, 3).

    Each frame is a message of its own.

    Args:
        limits: fields of `MediaLimits`.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Read one clip."""
        with open_video(task["path"], self._limits) as video:
            for frame in video.frames(GivenTimes(task["at_s"])):
                yield {"time_s": frame.time_s}, frame.pixels
