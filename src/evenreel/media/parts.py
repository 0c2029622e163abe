"""A part of a video as a clip of its own: sampling rules that are limited to a stretch of the file."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from evenreel.errors import MediaError
from evenreel.media.sampling import IndexRule, SamplingRule, TimeRule


@dataclass(frozen=True)
class Part:
    """Stretch of a file that is one clip, in seconds; None stands for the file's beginning or end."""

    start_s: float | None = None
    end_s: float | None = None

    def length_s(self, file_s: float | None) -> float | None:
        """Return the length of the clip in seconds, given that of the file; None where it is unknown.

        >>> Part(5.0, 30.0).length_s(12.0), Part(end_s=9.0).length_s(None), Part().length_s(None)
        (7.0, 9.0, None)
        """
        ends = [end_s for end_s in (self.end_s, file_s) if end_s is not None]
        return max(0.0, min(ends) - (self.start_s or 0.0)) if ends else None

    def within(self, times_s: Sequence[float]) -> list[float]:
        """Select the times of the file, in seconds, that lie inside the part (edges excluded), counted from its start.

        >>> Part(2.0, 8.0).within([1.0, 2.0, 3.5, 8.0])
        [1.5]
        """
        start_s = self.start_s or 0.0
        return [at - start_s for at in times_s if start_s < at < (math.inf if self.end_s is None else self.end_s)]

    def rule(self, rule: SamplingRule) -> SamplingRule:
        """Return the rule that samples this part as `rule` samples a whole file; `rule` itself for the whole."""
        if self == WHOLE:
            return rule
        if isinstance(rule, TimeRule):
            return TimesInPart(rule, self)
        return NumbersInPart(rule, self)


WHOLE = Part()


@dataclass(frozen=True)
class TimesInPart:
    """Sampling rule by time for a part of a file; a part that goes on after the file's end stops there.

    >>> from evenreel.media.sampling import Midpoints
    >>> list(TimesInPart(Midpoints(2), Part(4.0, 8.0)).times(0.0, 60.0))
    [5.0, 7.0]
    """

    needs_end: ClassVar[bool] = True
    inner: TimeRule
    part: Part

    def times(self, start_s: float, end_s: float) -> Iterator[float]:
        """Return the moments to sample in the part, in seconds of the file."""
        first_s = max(start_s, self.part.start_s or 0.0)
        last_s = end_s if self.part.end_s is None else min(end_s, self.part.end_s)
        if first_s >= last_s:
            raise MediaError(
                "no_frames", f"the clip is {_span(self.part)} of a video that ends at {end_s:.2f} s; is it another cut?"
            )
        return itertools.takewhile(lambda time_s: time_s < last_s, self.inner.times(first_s, last_s))

    def capped(self, duration_s: float, max_frames: int) -> TimesInPart:
        """Return this rule, or a sparser one that keeps at most `max_frames` of the part."""
        length_s = self.part.length_s(duration_s)
        return replace(self, inner=self.inner.capped(duration_s if length_s is None else length_s, max_frames))

    def __str__(self) -> str:
        return f"{self.inner} of {_span(self.part)}"


@dataclass(frozen=True)
class NumbersInPart:
    """Sampling rule by frame number for a part of a file; numbers follow from its seconds at the video's mean rate.

    CLIP4Clip does the same: it seeks to frame `int(start * fps)`.

    >>> from evenreel.media.sampling import Clip4Clip
    >>> NumbersInPart(Clip4Clip(3), Part(4.0, 7.0)).indices(100, 10.0)
    [40, 50, 60]
    """

    inner: IndexRule
    part: Part

    def indices(self, frame_count: int, fps: float) -> list[int]:
        """Return the numbers of the frames to sample in the part, rising, counted from the start of the file."""
        first = int((self.part.start_s or 0.0) * fps)
        stop = frame_count if self.part.end_s is None else min(frame_count, math.ceil(self.part.end_s * fps))
        if first >= stop:
            raise MediaError(
                "no_frames", f"the clip is {_span(self.part)} of a video of {frame_count} frames; is it another cut?"
            )
        return [first + number for number in self.inner.indices(stop - first, fps)]

    def capped(self, duration_s: float, max_frames: int) -> NumbersInPart:
        """Return this rule, or a sparser one that keeps at most `max_frames` of the part."""
        return replace(self, inner=self.inner.capped(duration_s, max_frames))

    def __str__(self) -> str:
        return f"{self.inner} of {_span(self.part)}"


def _span(part: Part) -> str:
    start = f"{part.start_s or 0.0:g}"
    return f"{start} s on" if part.end_s is None else f"{start} to {part.end_s:g} s"
