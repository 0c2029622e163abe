"""What a file's own clock says: its frame rate, its timecode, and where its first frame lies."""

from __future__ import annotations

import itertools
import os
from contextlib import closing
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from evenreel.config import MediaLimits
from evenreel.errors import UsageError
from evenreel.handover.frames import (
    STANDARD,
    FrameRate,
    drops_by_habit,
    editing_rate,
    is_steady,
    meant_rate,
    slack_of,
)
from evenreel.media import open_video
from evenreel.media.opening import open_container
from evenreel.media.packets import Demuxer, time_base_of
from evenreel.media.source import Source
from evenreel.media.video import DOUBTFUL_S
from evenreel.wording import printable

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

_LOOKED_AT = 400
"""Packets that show whether a film is steady."""
_REORDERED = 16
"""Packets whose later ones may be shown before them."""
_USUAL_FPS = Fraction(25)


@dataclass(frozen=True)
class FileFacts:
    """What is needed to say in frames where a stretch of a file lies.

    Attributes:
        fps: frames a second, those of an editor where the file's own are no rate that editors know.
        own_fps: the file's own; the mean where they vary.
        steady: whether all frames follow at the file's own rate.
        drop: whether its timecodes drop labels.
        timecode: the file's own timecode of its first frame; None where it has none, which then is 0.
        offset_s: when the first frame comes on screen, in seconds of a player's timeline.
        slack_s: by how much a timestamp may be rounded, in seconds.
        duration_s: when the last frame leaves it.
        counted: number of frames that the file says it has; None where it does not.
        width, height: size of the picture as it is shown, in pixels.
        sounds: number of streams of sound.
        container: FFmpeg's name of its format.
        note: what is unusual, in a sentence; empty for nothing.
    """

    fps: Fraction
    own_fps: Fraction
    steady: bool
    drop: bool
    timecode: str | None
    offset_s: Fraction
    slack_s: Fraction
    duration_s: Fraction
    width: int
    height: int
    sounds: int
    container: str
    counted: int | None = None
    note: str = ""

    @property
    def rate(self) -> FrameRate:
        """Rate that its frames are counted at."""
        return FrameRate(self.fps, self.drop)

    @property
    def is_exact(self) -> bool:
        """Whether the frames that are counted are the file's own."""
        return self.steady and self.fps == self.own_fps

    @property
    def first_frame(self) -> int:
        """Number of its first frame, by its timecode."""
        return 0 if self.timecode is None else self.rate.frame_of(self.timecode)

    @property
    def frame_count(self) -> int:
        """Number of frames from its first to its end."""
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
        """Return plain data, with fractions as text."""
        return {name: str(value) if isinstance(value, Fraction) else value for name, value in asdict(self).items()}

    @staticmethod
    def from_json(record: dict[str, Any]) -> FileFacts:
        """Make facts of what `to_json` returned."""
        exact = {name: Fraction(record[name]) for name in ("fps", "own_fps", "offset_s", "slack_s", "duration_s")}
        return FileFacts(**{**record, **exact})


def read_facts(path: str | os.PathLike[str], limits: MediaLimits) -> FileFacts:
    """Read what a file says of its frames, by its header and its first packets."""
    with open_video(path, limits) as video:
        info = video.info
    with closing(Source(path, limits, 1)) as source:
        guessed, average, slack_s = source.stream.guessed_rate, source.stream.average_rate, slack_of(source.stream)
        offset_s = Fraction(source.clock.offset_s).limit_denominator(1_000_000)
        sounds = len(source.container.streams.audio)
        tag = _timecode_tag(source.container)
    fps, steady = _rate(path, limits, guessed, average)
    shown = editing_rate(fps)
    timecode, drop, refused = _timecode(tag, shown)
    counted = ""
    if not steady:
        counted = f"is counted at {float(shown):.6g} frames a second, as its frame rate varies"
    elif shown != fps:
        counted = f"has {float(fps):.6g} frames a second, which editors do not know; they are counted at {shown}"
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
        sounds=sounds,
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
        times = _first_times(container, stream)
        time_base = time_base_of(stream)
    candidates = [meant_rate(rate) for rate in (guessed, average) if rate]
    if len(times) > 1 and times[-1] > times[0]:  # timestamps tell where a header does not
        counted = (len(times) - 1) / (Fraction(times[-1] - times[0]) * time_base)
        candidates += [min(STANDARD, key=lambda rate: abs(rate - counted)), meant_rate(counted)]
    for fps in candidates:
        if is_steady(times, time_base, fps):
            return fps, True
    usual = [rate for rate in reversed(candidates) if 1 <= rate <= 1000]  # the mean of a varying rate comes nearest
    return (usual[0] if usual else _USUAL_FPS), False


def _first_times(container: InputContainer, stream: VideoStream) -> list[int]:
    """Timestamps of the first frames, rising."""
    packets = itertools.islice(Demuxer(container, stream), _LOOKED_AT)
    at = [packet.dts if packet.pts is None else packet.pts for packet in packets if not packet.is_discard]
    times = sorted(time for time in at if time is not None)
    return times[:-_REORDERED] if len(at) == _LOOKED_AT else times


def _timecode_tag(container: InputContainer) -> str | None:
    """The timecode in the tags of a file or of one of its streams."""
    for tags in (container.metadata, *(stream.metadata for stream in container.streams)):
        for name, value in tags.items():
            if name.lower() == "timecode":
                return value
    return None


def _timecode(tag: str | None, fps: Fraction) -> tuple[str | None, bool, str]:
    """A file's timecode, whether it drops labels, and what is wrong with it."""
    habit = drops_by_habit(fps)
    if tag is None:
        return None, habit, ""
    drop = FrameRate(fps).base % 30 == 0 and any(mark in tag for mark in ";.,")
    try:
        FrameRate(fps, drop).frame_of(tag)
    except UsageError:
        return None, habit, f"has the timecode {printable(tag[:40])!r}, which is none of its frame rate and is left out"
    return tag.strip(), drop, ""
