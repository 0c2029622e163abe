"""An opened video file: its decoder at the start, its clock, and what its header claims."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media.allowlist import codec_options
from evenreel.media.decode import Damage, FrameReader, frames_on_screen
from evenreel.media.opening import open_container, refused_size, too_large
from evenreel.media.packets import Cursor, time_base_of, usual_duration

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    from evenreel.media.shots import ShotFinder

_SAME_TIME_S = 1e-6  # wanted times are floats, timestamps are exact; a frame this little later is meant
_CONTAINER_TICKS_S = Fraction(1, 1_000_000)
_ROUNDING_FRAMES = 1.5  # by so many a claimed end may be off and is believed
_MATROSKA = "matroska,webm"
_DURATION_TAG = re.compile(r"(\d{1,9}):(\d{1,9}):(\d{1,9}(?:\.\d*)?)", re.ASCII)


class Clock:
    """Conversion between timestamps of a stream and seconds on the timeline that a player shows.

    Zero is the container's start, as in browsers: its first frame, unless sound comes first, or pictures that cannot
    be decoded without earlier ones. A start above zero, negative timestamps and edit lists vanish so.
    """

    def __init__(self, first: int, time_base: Fraction, offset_s: float) -> None:
        self._first, self._time_base = first, time_base
        self.offset_s = offset_s

    @property
    def starts_s(self) -> float:
        """Time in seconds, on the file's own clock, at which a player's timeline begins; 0 where it is negative."""
        return max(0.0, -self.seconds(0))

    def seconds(self, timestamp: int) -> float:
        """Return the time in seconds at which a frame with this timestamp comes on screen."""
        return self.offset_s + float((timestamp - self._first) * self._time_base)

    def timestamp(self, time_s: float) -> int:
        """Return the latest timestamp of the stream that is not after a time in seconds."""
        since_first = Fraction(time_s - self.offset_s + _SAME_TIME_S)
        return self._first + math.floor(since_first / self._time_base)


class Source:
    """One opening of a video file: decodes its first frame, then the frames at wanted timestamps."""

    def __init__(
        self, path: str | os.PathLike[str], limits: MediaLimits, threads: int, cursor: Cursor | None = None
    ) -> None:
        self.container, self.stream = open_container(path, limits)
        try:
            _set_up_codec(self.stream, limits, threads)
            self.cursor = cursor or Cursor()
            self.reader = FrameReader(self.container, self.stream, self.cursor, may_skip=cursor is None)
            frames = iter(self.reader)
            first = next(frames, None)
            if first is None:
                raise _why_no_frame(path, limits, self.reader.damage)
        except BaseException:
            self.container.close()
            raise
        self.first_frame: VideoFrame = first[1]
        self.clock = Clock(first[0], time_base_of(self.stream), self._offset_s(first[0]))
        self._frames = itertools.chain([first], frames)

    def close(self) -> None:
        """Close the video file; may be called twice."""
        self.container.close()

    def wanted(self, shots: ShotFinder | None = None) -> Iterator[tuple[int, VideoFrame]]:
        """Yield (timestamp, frame) of the frames that the cursor wants; may be called once."""
        frames = self._frames if shots is None else self._looked_at(shots)
        return frames_on_screen(frames, self.reader, self.cursor)

    def claimed_end_s(self) -> float | None:
        """Return the end of the pictures that the header claims, in seconds of the player's timeline, or None."""
        stream, container = self.stream, self.container
        if stream.duration and stream.duration > 0:
            start = None if self.reader.by_order else stream.start_time
            begins_s = self.clock.offset_s if start is None else self.clock.seconds(start)
            return begins_s + float(stream.duration * time_base_of(stream))
        claim = tagged_duration_s(stream)
        if claim is None and container.duration and container.duration > 0:
            claim = float(container.duration * _CONTAINER_TICKS_S)
        if claim is None or container.format.name != _MATROSKA:
            return claim
        # Some writers of Matroska count from zero, others from the first timestamp.
        start_s = float((container.start_time or 0) * _CONTAINER_TICKS_S)
        return claim - start_s if 0 < start_s < claim else claim

    def confirms_end(self, end: int, claimed_s: float) -> bool:
        """Return whether the last packet's end (a timestamp) agrees with a claimed end in seconds, but for rounding."""
        return abs(self.clock.seconds(end) - claimed_s) <= _ROUNDING_FRAMES * self.usual_duration_s()

    def usual_duration_s(self) -> float:
        """Return how long a frame is shown at the stream's usual rate, in seconds."""
        return float(usual_duration(self.stream) * time_base_of(self.stream))

    def _looked_at(self, shots: ShotFinder) -> Iterator[tuple[int, VideoFrame]]:
        skips = 0
        for timestamp, frame in self._frames:
            shots.add(self.clock.seconds(timestamp), frame, skipped=self.reader.skips > skips)
            skips = self.reader.skips
            yield timestamp, frame

    def _offset_s(self, first: int) -> float:
        container_start, start = self.container.start_time, self.stream.start_time
        if container_start is None:
            return 0.0
        if start is None or not self.reader.by_order or self.reader.damage.refused:
            start = first  # whatever the decoder has dropped before it
        return max(0.0, float(start * time_base_of(self.stream) - container_start * _CONTAINER_TICKS_S))


def _set_up_codec(stream: VideoStream, limits: MediaLimits, threads: int) -> None:
    codec = stream.codec_context
    codec.options = codec_options(limits)  # also for a size that changes on the way
    codec.thread_count = threads
    codec.thread_type = "AUTO"


def _why_no_frame(path: str | os.PathLike[str], limits: MediaLimits, damage: Damage) -> MediaError:
    if damage.packets == 0:
        return MediaError("no_frames", "its video stream holds no data; the file may be cut short")
    if size := refused_size(path, limits):
        return too_large(*size, limits)
    return MediaError(
        "no_frames", f"none of its {damage.packets} video packets could be decoded; it is damaged throughout"
    )


def tagged_duration_s(stream: VideoStream | AudioStream) -> float | None:
    """Return the duration in a stream's tag (Matroska: `00:01:02.500000000`); None where it is no length of time."""
    found = _DURATION_TAG.fullmatch(stream.metadata.get("DURATION", ""))
    if found is None:
        return None
    hours, minutes, seconds = found.groups()
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds) or None
