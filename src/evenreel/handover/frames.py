"""Frame numbers and timecodes at the rates of film and television, in integers and rationals alone.

A timecode (SMPTE ST 12-1) names frames by hours, minutes, seconds and frames of a whole-numbered rate. At 30000/1001
and 60000/1001 frames a second it may drop labels so that it keeps up with a clock: the first two (four) of each
minute but every tenth. Some files do so at 30 and 60 too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from evenreel.errors import UsageError

if TYPE_CHECKING:
    from av.video.stream import VideoStream

SAME_TIME_S = Fraction(1, 1_000_000)
"""Times are floats in seconds and frames begin at exact ones; one that is this little later or earlier is meant."""

_OF_NTSC = Fraction(1000, 1001)
STANDARD = (
    *(whole * _OF_NTSC for whole in map(Fraction, (24, 30, 48, 60))),
    *map(Fraction, (24, 25, 30, 48, 50, 60)),
)
"""Frames a second that editors know."""

_NEAR = Fraction(1, 4000)
"""Share by which a measured rate may differ from the one that is meant; 24 and 24000/1001 differ by four times it."""

_TIMECODE = re.compile(r"(\d{1,2}):(\d{2}):(\d{2})([:;.,])(\d{2,3})", re.ASCII)
_STEADY = Fraction(1, 4)
"""Share of a frame by which a steady film's timestamps may be off their grid, as those in milliseconds are."""


@dataclass(frozen=True)
class FrameRate:
    """Number of frames a second, and whether timecodes drop labels to keep up with a clock.

    Attributes:
        fps: frames a second.
        drop: whether labels are dropped; only of 30000/1001 and 60000/1001, and of 30 and 60 where a file does so.
    """

    fps: Fraction
    drop: bool = False

    @property
    def base(self) -> int:
        """Whole number of labels in a second of timecode."""
        return math.ceil(self.fps)

    @property
    def frame_s(self) -> Fraction:
        """Length of a frame in seconds."""
        return 1 / self.fps

    def frame_at(self, time_s: Fraction, slack_s: Fraction = SAME_TIME_S) -> int:
        """Return the number of the frame on screen at a time; one that begins at most `slack_s` later is taken.

        >>> FrameRate(Fraction(30000, 1001)).frame_at(Fraction(1.001))
        30
        """
        return math.floor((time_s + slack_s) * self.fps)

    def frame_after(self, time_s: Fraction, slack_s: Fraction = SAME_TIME_S) -> int:
        """Return the number of the first frame that begins at a time or after it, or at most `slack_s` before.

        >>> FrameRate(Fraction(25)).frame_after(Fraction(0.5))
        13
        """
        return math.ceil((time_s - slack_s) * self.fps)

    def timecode(self, frame: int) -> str:
        """Return the label of a frame, with `;` before its frames where labels are dropped; after 24 hours from 0 on.

        >>> FrameRate(Fraction(30000, 1001), drop=True).timecode(1800)
        '00:01:00;02'
        """
        label = (self._label(frame) if self.drop else frame) % (24 * 3600 * self.base)
        seconds, frames = divmod(label, self.base)
        minutes, seconds = divmod(seconds, 60)
        mark = ";" if self.drop else ":"
        return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}{mark}{frames:02}"

    def frame_of(self, timecode: str) -> int:
        """Return the number of the frame that a timecode names.

        >>> FrameRate(Fraction(30000, 1001), drop=True).frame_of("00:10:00;00")
        17982
        """
        found = _TIMECODE.fullmatch(timecode.strip())
        hours, minutes, seconds, frames = (int(found[part]) for part in (1, 2, 3, 5)) if found else (0, 60, 0, 0)
        if minutes > 59 or seconds > 59 or frames >= self.base:
            raise UsageError(f"{timecode[:40]!r} is no timecode of {self}; write HH:MM:SS:FF.")
        if self.drop and seconds == 0 and minutes % 10 and frames < self._dropped_a_minute:
            raise UsageError(f"{timecode[:40]!r} is a label that {self} leaves out; write the one after it.")
        total_minutes = 60 * hours + minutes
        frame = (60 * total_minutes + seconds) * self.base + frames
        return frame - self._dropped_a_minute * (total_minutes - total_minutes // 10) if self.drop else frame

    @property
    def _dropped_a_minute(self) -> int:
        return self.base // 15

    def _label(self, frame: int) -> int:
        """Count of a frame among all labels, those that are dropped too."""
        dropped = self._dropped_a_minute
        a_minute = 60 * self.base - dropped
        tens, rest = divmod(frame, 10 * a_minute + dropped)
        minutes = 0 if rest < 60 * self.base else 1 + (rest - 60 * self.base) // a_minute
        return frame + dropped * (9 * tens + minutes)

    def __str__(self) -> str:
        return f"{float(self.fps):.6g} frames a second" + (" (drop-frame)" if self.drop else "")


def drops_by_habit(fps: Fraction) -> bool:
    """Return whether timecodes at a rate usually drop labels."""
    return fps.denominator == 1001 and fps.numerator % 30_000 == 0


def meant_rate(measured: Fraction) -> Fraction:
    """Return the standard rate that is meant by a measured one, or that one itself where none is near.

    >>> meant_rate(Fraction(2997, 100)), meant_rate(Fraction(15))
    (Fraction(30000, 1001), Fraction(15, 1))
    """
    nearest = min(STANDARD, key=lambda rate: abs(rate - measured))
    return nearest if abs(nearest - measured) <= _NEAR * nearest else measured


def editing_rate(fps: Fraction) -> Fraction:
    """Return a rate that editors know: the rate itself, else a multiple of it, else 30 or, for a faster one, 60.

    >>> editing_rate(Fraction(25)), editing_rate(Fraction(12)), editing_rate(Fraction(17)), editing_rate(Fraction(120))
    (Fraction(25, 1), Fraction(24, 1), Fraction(30, 1), Fraction(60, 1))
    """
    if fps in STANDARD:
        return fps
    multiples = [rate for rate in sorted(STANDARD) if (rate / fps).denominator == 1]
    return multiples[0] if multiples else Fraction(30 if fps <= 30 else 60)


def slack_of(stream: VideoStream) -> Fraction:
    """Return by how much a stream's timestamps may be rounded, in seconds; at most a quarter of a frame.

    Containers that count in milliseconds round each to the nearest.
    """
    fps = stream.guessed_rate or stream.average_rate or Fraction(25)
    return max(SAME_TIME_S, min((stream.time_base or Fraction(1, 1000)) / 2 + SAME_TIME_S, 1 / (4 * fps)))


def is_steady(times: Sequence[int], time_base: Fraction, fps: Fraction) -> bool:
    """Return whether the frames of a film follow at one rate."""
    return all(abs((at - times[0]) * time_base * fps - number) <= _STEADY for number, at in enumerate(times))


def most_common(rates: Iterable[FrameRate]) -> FrameRate:
    """Return the rate that most have; of several the first."""
    given = list(rates)
    return max(given, key=given.count)
