"""Frame numbers and timecodes at the rates of film and television, in integers and rationals alone.

A timecode (SMPTE ST 12-1) may drop labels at 30000/1001 and 60000/1001 frames a second, so that it keeps up with a
clock: the first two (four) of each minute but every tenth. Some files do so at 30 and 60 too.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from contextlib import closing
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from evenreel.config import MediaLimits
from evenreel.errors import UsageError
from evenreel.files import printable
from evenreel.media.opening import open_container
from evenreel.media.video import DOUBTFUL_S, Demuxer, Source, probe, time_base_of

if TYPE_CHECKING:
    from av.video.stream import VideoStream

# Times are floats in seconds and frames begin at exact ones; one that is this little later or earlier is meant.
SAME_TIME_S = Fraction(1, 1_000_000)
STANDARD = (*(Fraction(1000 * whole, 1001) for whole in (24, 30, 48, 60)), *map(Fraction, (24, 25, 30, 48, 50, 60)))
"""Frames a second that editors know."""
_NEAR = Fraction(1, 4000)  # share by which a measured rate may differ from what is meant; 24 and 24000/1001 differ by 4
_STEADY = Fraction(1, 4)  # of a frame, by which a steady film's timestamps may be off their grid, as in milliseconds
_TIMECODE = re.compile(r"(\d{1,2}):(\d{2}):(\d{2})([:;.,])(\d{2,3})", re.ASCII)
_LOOKED_AT = 400  # packets that show whether a film is steady
_REORDERED = 16  # packets whose later ones may be shown before them
_USUAL_FPS = Fraction(25)


@dataclass(frozen=True)
class FrameRate:
    fps: Fraction  # frames a second
    drop: bool = False  # whether timecodes drop labels to keep up with a clock

    @property
    def base(self) -> int:
        """Whole number of labels in a second of timecode."""
        return math.ceil(self.fps)

    def frame_at(self, time_s: Fraction, slack_s: Fraction = SAME_TIME_S) -> int:
        """Number of the frame on screen at a time; one that begins at most `slack_s` later is taken."""
        return math.floor((time_s + slack_s) * self.fps)

    def frame_after(self, time_s: Fraction, slack_s: Fraction = SAME_TIME_S) -> int:
        """Number of the first frame that begins at a time or after it, or at most `slack_s` before."""
        return math.ceil((time_s - slack_s) * self.fps)

    def timecode(self, frame: int) -> str:
        """Return the label of a frame, with `;` before its frames where labels are dropped; after 24 hours from 0 on.

        >>> FrameRate(Fraction(30000, 1001), drop=True).timecode(1800)
        '00:01:00;02'
        """
        if self.drop:  # count the labels that are dropped too
            dropped = self._dropped_a_minute
            a_minute = 60 * self.base - dropped
            tens, rest = divmod(frame, 10 * a_minute + dropped)
            minutes = 0 if rest < 60 * self.base else 1 + (rest - 60 * self.base) // a_minute
            frame += dropped * (9 * tens + minutes)
        seconds, frames = divmod(frame % (24 * 3600 * self.base), self.base)
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

    def __str__(self) -> str:
        return f"{float(self.fps):.6g} frames a second" + (" (drop-frame)" if self.drop else "")


def meant_rate(measured: Fraction) -> Fraction:
    """Return the standard rate that is meant by a measured one, or that one itself where none is near."""
    nearest = min(STANDARD, key=lambda rate: abs(rate - measured))
    return nearest if abs(nearest - measured) <= _NEAR * nearest else measured


def editing_rate(fps: Fraction) -> Fraction:
    """Return a rate that editors know: the rate itself, else a multiple of it, else 30 or, for a faster one, 60."""
    if fps in STANDARD:
        return fps
    multiples = [rate for rate in sorted(STANDARD) if (rate / fps).denominator == 1]
    return multiples[0] if multiples else Fraction(30 if fps <= 30 else 60)


def slack_of(stream: VideoStream) -> Fraction:
    """By how much a stream's timestamps may be rounded, in seconds: half a tick, at most a quarter of a frame."""
    fps = stream.guessed_rate or stream.average_rate or Fraction(25)
    return max(SAME_TIME_S, min((stream.time_base or Fraction(1, 1000)) / 2 + SAME_TIME_S, 1 / (4 * fps)))


@dataclass(frozen=True)
class FileFacts:
    """What is needed to say in frames where a stretch of a file lies."""

    fps: Fraction  # frames a second, those of an editor where the file's own are no rate that editors know
    own_fps: Fraction  # the file's own; the mean where they vary
    steady: bool  # whether all frames follow at the file's own rate
    drop: bool  # whether its timecodes drop labels
    timecode: str | None  # the file's own timecode of its first frame; None where it has none, which then is 0
    offset_s: Fraction  # when the first frame comes on screen, in seconds of a player's timeline
    slack_s: Fraction  # by how much a timestamp may be rounded, in seconds
    duration_s: Fraction  # when the last frame leaves it
    width: int  # size of the picture as it is shown, in pixels
    height: int
    channels: int  # of its first stream of sound; 0 where it has none
    container: str  # FFmpeg's name of its format
    sound_rate: int = 48_000  # of that stream, in samples a second
    counted: int | None = None  # number of frames that the file says it has; None where it does not
    note: str = ""  # what is unusual, in a sentence; empty for nothing

    @property
    def rate(self) -> FrameRate:
        return FrameRate(self.fps, self.drop)

    @property
    def is_exact(self) -> bool:
        """Whether the frames that are counted are the file's own."""
        return self.steady and self.fps == self.own_fps

    @property
    def first_frame(self) -> int:
        return 0 if self.timecode is None else self.rate.frame_of(self.timecode)

    @property
    def frame_count(self) -> int:
        by_time = self.rate.frame_after(self.duration_s - self.offset_s, self.slack_s)
        return max(1, min(by_time, self.counted) if self.is_exact and self.counted else by_time)

    def timecode_at(self, time_s: Fraction) -> str | None:
        """Return the file's own timecode of the frame on screen at a time; None where it has none."""
        if self.timecode is None:
            return None
        return self.rate.timecode(self.first_frame + self.frames(time_s, time_s).start)

    def frames(self, start_s: Fraction, end_s: Fraction) -> range:
        """Return the numbers, from its first frame on, of the frames that are on screen in a stretch; at least one."""
        first = max(0, min(self.rate.frame_at(start_s - self.offset_s, self.slack_s), self.frame_count - 1))
        stop = min(self.rate.frame_after(end_s - self.offset_s, self.slack_s), self.frame_count)
        return range(first, max(first + 1, stop))

    def to_json(self) -> dict[str, Any]:
        return {name: str(value) if isinstance(value, Fraction) else value for name, value in asdict(self).items()}

    @staticmethod
    def from_json(record: dict[str, Any]) -> FileFacts:
        exact = {name: Fraction(record[name]) for name in ("fps", "own_fps", "offset_s", "slack_s", "duration_s")}
        return FileFacts(**{**record, **exact})


def read_facts(path: str | os.PathLike[str], limits: MediaLimits) -> FileFacts:
    """Read what a file says of its frames, by its header and its first packets."""
    info = probe(path, limits)
    with closing(Source(path, limits, 1)) as source:
        guessed, average, slack_s = source.stream.guessed_rate, source.stream.average_rate, slack_of(source.stream)
        offset_s = Fraction(source.clock.offset_s).limit_denominator(1_000_000)
        sound = next(iter(source.container.streams.audio), None)
        heard = None if sound is None else sound.codec_context  # None for a codec that FFmpeg does not know
        streams = (source.container, *source.container.streams)
        tags = (value for one in streams for name, value in one.metadata.items() if name.lower() == "timecode")
        tag = next(tags, None)
    fps, steady = _rate(path, limits, guessed, average)
    shown = editing_rate(fps)
    timecode, drop, refused = _timecode(tag, shown)
    counted = ""
    if not steady:
        counted = f"is counted at {float(shown):.6g} frames a second, as its frame rate varies"
    elif shown != fps:
        counted = f"has {float(fps):.6g} frames a second, which no editing program knows; they are counted at {shown}"
    return FileFacts(
        fps=shown,
        own_fps=fps,
        steady=steady,
        drop=drop,
        timecode=timecode,
        offset_s=offset_s,
        slack_s=slack_s,
        duration_s=Fraction(DOUBTFUL_S if info.duration_s is None else info.duration_s).limit_denominator(1_000_000),
        width=info.width,
        height=info.height,
        channels=0 if sound is None else max(1, heard.channels if heard else 0),
        sound_rate=(heard and heard.rate) or 48_000,
        container=info.container,
        counted=info.frame_count,
        note=", and ".join(filter(None, (counted, refused))),
    )


def _rate(
    path: str | os.PathLike[str], limits: MediaLimits, guessed: Fraction | None, average: Fraction | None
) -> tuple[Fraction, bool]:
    """The rate that is meant, and whether the first frames follow at it."""
    container, stream = open_container(path, limits)
    with container:
        packets = itertools.islice(Demuxer(container, stream), _LOOKED_AT)
        at = [packet.dts if packet.pts is None else packet.pts for packet in packets if not packet.is_discard]
        times, time_base = sorted(time for time in at if time is not None), time_base_of(stream)
        times = times[:-_REORDERED] if len(at) == _LOOKED_AT else times
    candidates = [meant_rate(rate) for rate in (guessed, average) if rate]
    if len(times) > 1 and times[-1] > times[0]:  # timestamps tell where a header does not
        counted = (len(times) - 1) / (Fraction(times[-1] - times[0]) * time_base)
        candidates += [min(STANDARD, key=lambda rate: abs(rate - counted)), meant_rate(counted)]
    for fps in candidates:
        if all(abs((at - times[0]) * time_base * fps - number) <= _STEADY for number, at in enumerate(times)):
            return fps, True
    usual = [rate for rate in reversed(candidates) if 1 <= rate <= 1000]  # the mean of a varying rate comes nearest
    return (usual[0] if usual else _USUAL_FPS), False


def _timecode(tag: str | None, fps: Fraction) -> tuple[str | None, bool, str]:
    """A file's timecode, whether it drops labels, and what is wrong with it."""
    habit = fps.denominator == 1001 and fps.numerator % 30_000 == 0
    if tag is None:
        return None, habit, ""
    drop = FrameRate(fps).base % 30 == 0 and any(mark in tag for mark in ";.,")
    try:
        FrameRate(fps, drop).frame_of(tag)
    except UsageError:
        return None, habit, f"has the timecode {printable(tag[:40])!r}, which is none of its frame rate and is left out"
    return tag.strip(), drop, ""
