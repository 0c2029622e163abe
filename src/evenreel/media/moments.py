"""The part of reading headers, and frames and sound at given moments, that runs in a killable worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media import open_sound, open_video
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

    Each frame is a message of its own. Where the task has `sound_s`, a start and an end in seconds, the blocks of sound
    that are heard between follow, with `start_s` each, and a message with `no_sound` where that cannot be read.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Read one clip."""
        with open_video(task["path"], self._limits) as video:
            for frame in video.frames(GivenTimes(task["at_s"])):
                yield {"kind": "frame", "time_s": frame.time_s}, frame.pixels
        if "sound_s" in task:
            yield from self._sound(task["path"], *task["sound_s"])

    def _sound(self, path: str, start_s: float, end_s: float) -> Iterator[Message]:
        try:
            with open_sound(path, self._limits) as sound:
                for block in sound.readable_blocks():
                    if block.start_s >= end_s:
                        return
                    heard = block.samples if block.end_s > start_s else None
                    yield {"kind": "sound", "start_s": block.start_s}, heard
        except MediaError as error:
            yield {"kind": "no_sound", "reason": error.reason, "why": str(error)}, None


class HeaderReader:
    """Worker that answers a task `{"path"}` with one message, the fields of `VideoInfo`."""

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Look at one file."""
        with open_video(task["path"], self._limits) as video:
            yield asdict(video.info), None
