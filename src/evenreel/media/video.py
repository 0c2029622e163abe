"""A video file: what its header says, and its frames as a sampling rule chooses them.

`Source` is one opening of a file with its decoder at the start; a `Video` opens it anew where it must.

The picture on screen at time t is the last one with a timestamp not after t. A decoder that starts at a
keyframe K with K <= t produces it, for whatever is shown from K on needs nothing from before K. So packets
are held back, undecoded, from the last keyframe on: when a later keyframe is still not after t, what is held
is dropped; when one is after t, the picture wanted lies in what is held, and it is decoded. Dense wishes
decode everything in one run, sparse ones a run here and there, with the same result. Where the next wish is
far away and the container finds keyframes by its index, the packets between are not read either. Damaged
packets are counted and stepped over, and reading goes on.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from numpy.typing import NDArray

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media import opening
from evenreel.media.picture import PictureMaker, orientation_of, shown_size, to_jpeg
from evenreel.media.sampling import SamplingRule, TimeRule
from evenreel.media.workers import Message
from evenreel.types import Frame, Pixels, VideoInfo

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    Stamped = tuple[int, VideoFrame]

DOUBTFUL_S = 30 * 86_400.0  # a longer video is taken for one whose timestamps are wrong
_SAME_TIME_S = 1e-6  # wanted times are floats, timestamps are exact; a frame this little later is meant
_ROUNDING_FRAMES = 1.5  # by so many a claimed end may be off and is believed
_SHORT_BY_S = 0.5  # less is rounding, or a last frame that is held
_TAIL_S = 2.0  # what is looked at to see whether a claimed end is real
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
        """Time on the file's own clock at which a player's timeline begins; 0 where it is negative."""
        return max(0.0, -self.seconds(0))

    def seconds(self, timestamp: int) -> float:
        return self.offset_s + float((timestamp - self._first) * self._time_base)

    def timestamp(self, time_s: float) -> int:
        since_first = Fraction(time_s - self.offset_s + _SAME_TIME_S)
        return self._first + math.floor(since_first / self._time_base)


class Source:
    """One opening of a video file: decodes its first frame, then the frames at wanted timestamps."""

    def __init__(
        self, path: str | os.PathLike[str], limits: MediaLimits, threads: int, cursor: Cursor | None = None
    ) -> None:
        self.container, self.stream = opening.open_container(path, limits)
        try:
            codec = self.stream.codec_context
            codec.options = opening.codec_options(limits)  # also for a size that changes on the way
            codec.thread_count, codec.thread_type = threads, "AUTO"
            self.cursor = cursor or Cursor()
            self.reader = FrameReader(self.container, self.stream, self.cursor, may_skip=cursor is None)
            frames = iter(self.reader)
            first = next(frames, None)
            if first is None:
                raise self._why_no_frame(path, limits)
        except BaseException:
            self.container.close()
            raise
        self.first_frame: VideoFrame = first[1]
        self.clock = Clock(first[0], time_base_of(self.stream), self._offset_s(first[0]))
        self._frames = itertools.chain([first], frames)

    def close(self) -> None:
        self.container.close()

    def wanted(self, shots: ShotFinder | None = None) -> Iterator[tuple[int, VideoFrame]]:
        """Yield (timestamp, frame) of the frames that the cursor wants; may be called once."""

        def looked_at() -> Iterator[tuple[int, VideoFrame]]:
            skips = 0
            for timestamp, frame in self._frames:
                if shots is not None:
                    shots.add(self.clock.seconds(timestamp), frame, skipped=self.reader.skips > skips)
                    skips = self.reader.skips
                yield timestamp, frame

        return frames_on_screen(looked_at(), self.reader, self.cursor)

    def claimed_end_s(self) -> float | None:
        """The end of the pictures that the header claims, on the player's timeline."""
        stream, container = self.stream, self.container
        if stream.duration and stream.duration > 0:
            start = None if self.reader.by_order else stream.start_time
            begins_s = self.clock.offset_s if start is None else self.clock.seconds(start)
            return begins_s + float(stream.duration * time_base_of(stream))
        claim = tagged_duration_s(stream)
        if claim is None and container.duration and container.duration > 0:
            claim = container.duration / av.time_base
        if claim is None or opening.CONTAINER_NAMES.get(container.format.name) != "matroska":
            return claim
        # Some writers of Matroska count from zero, others from the first timestamp.
        start_s = (container.start_time or 0) / av.time_base
        return claim - start_s if 0 < start_s < claim else claim

    def confirms_end(self, end: int, claimed_s: float) -> bool:
        """Whether the last packet's end (a timestamp) agrees with a claimed end, but for rounding."""
        return abs(self.clock.seconds(end) - claimed_s) <= _ROUNDING_FRAMES * self.usual_duration_s()

    def usual_duration_s(self) -> float:
        return float(usual_duration(self.stream) * time_base_of(self.stream))

    def _offset_s(self, first: int) -> float:
        container_start, start = self.container.start_time, self.stream.start_time
        if container_start is None:
            return 0.0
        if start is None or not self.reader.by_order or self.reader.refused:
            start = first  # whatever the decoder has dropped before it
        return max(0.0, float(start * time_base_of(self.stream) - Fraction(container_start, av.time_base)))

    def _why_no_frame(self, path: str | os.PathLike[str], limits: MediaLimits) -> MediaError:
        packets = self.reader.packets
        if packets and (size := opening.refused_size(path, limits)):
            return opening.too_large(*size, limits)
        what = f"none of its {packets} video packets could be decoded; it is damaged throughout"
        return MediaError("no_frames", what if packets else "its video stream holds no data; the file may be cut short")


def tagged_duration_s(stream: VideoStream | AudioStream) -> float | None:
    """The duration in a stream's tag (Matroska: `00:01:02.500000000`); None where it is no length of time."""
    found = _DURATION_TAG.fullmatch(stream.metadata.get("DURATION", ""))
    if found is None:
        return None
    hours, minutes, seconds = found.groups()
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds) or None


@contextmanager
def open_video(path: str | os.PathLike[str], limits: MediaLimits | None = None, *, threads: int = 1) -> Iterator[Video]:
    """Open a local video file for a `with` block; it is closed when the block ends.

    Args:
        path: a regular file of any name.
        limits: limits on pixels, frames and damage; None for the defaults of `MediaLimits`.
        threads: decoder threads; 0 lets FFmpeg choose.

    Raises:
        MediaError: it cannot be used; `reason` says why in a word, the message in a sentence.
    """
    with contextlib.closing(Video(path, limits or MediaLimits(), threads)) as video:
        yield video


def still_jpeg(path: str, rule: SamplingRule, width: int, limits: MediaLimits) -> NDArray[np.uint8]:
    """Make a JPEG of the one frame that a rule asks for, at most so wide."""
    with open_video(path, limits) as video:
        frame = next(video.frames(rule), None)
    if frame is None:
        raise MediaError("no_frames", "there is no picture at this time")
    return np.frombuffer(to_jpeg(frame.pixels, width, 4 * width), np.uint8)


def probe(path: str | os.PathLike[str], limits: MediaLimits | None = None) -> VideoInfo:
    """Return what the header, the first frame and the last packets of a video file say.

    Raises:
        MediaError: it cannot be used; `reason` says why in a word, the message in a sentence.
    """
    with open_video(path, limits) as video:
        return video.info


@dataclass(frozen=True)
class _Extent:
    """When the last frame comes on screen and leaves it, on the clock's timeline, as the packets say."""

    last_s: float
    end_s: float
    frame_count: int | None = None  # where all had to be counted, as the header does not tell or is wrong


class Video:
    """An open video file, its header and its frames; made by `open_video`.

    Attributes:
        notes: sentences about what is unusual in the file; more are added while frames are read.
    """

    def __init__(self, path: str | os.PathLike[str], limits: MediaLimits, threads: int) -> None:
        self._path, self._limits, self._threads = path, limits, threads
        self._source = Source(path, limits, threads)
        self._fresh = True
        frame, aspect = self._source.first_frame, self._source.stream.sample_aspect_ratio
        self._size = frame.width, frame.height
        self._shown_size = shown_size(*self._size, aspect, orientation_of(frame))
        try:
            opening.check_size(*self._shown_size, limits)
        except BaseException:
            self.close()
            raise
        self.notes: list[str] = []
        stream, videos = self._source.stream, self._source.container.streams.video
        if len(videos) > 1:
            self._note(f"{len(videos)} video streams; number {videos.index(stream) + 1} of them is used")
        if opening.is_dolby_vision_alone(stream):
            of = "Dolby Vision that no other decoder can show (profile 5 or 10.0)"
            self._note(f"{of}; its colours are near what is meant")

    @property
    def answered(self) -> int:
        """Number of a rule's moments that were answered by frames before the last one yielded."""
        return self._source.cursor.answered

    def close(self) -> None:
        self._source.close()

    @cached_property
    def info(self) -> VideoInfo:
        """Return what the header and the first frame say, and the length that the packets confirm.

        The last packets are read, and all of them where the last contradict the header; nothing is decoded.
        """
        stream, container = self._source.stream, self._source.container
        name, end_s = container.format.name, self._believed_end_s()
        kinds = {*opening.TEXT_SUBTITLES, *opening.PICTURE_SUBTITLES}
        width, height = self._shown_size
        return VideoInfo(
            container=opening.CONTAINER_NAMES.get(name, name),
            codec=opening.codec_name(stream),
            width=width,
            height=height,
            duration_s=end_s,
            frame_count=self._extent.frame_count or stream.frames or None,
            fps=mean_rate(stream),
            rotation=orientation_of(self._source.first_frame).degrees,
            notes=tuple(self.notes),
            starts_s=self._source.clock.starts_s,
            subtitle_streams=len(opening.subtitles_in(container, kinds)),
            created=recorded_at({**stream.metadata, **container.metadata}),
        )

    def frames(self, rule: SamplingRule, shots: ShotFinder | None = None) -> Iterator[Frame]:
        """Yield the frames that a rule samples, in rising time, each at most once.

        Pixels are upright, (H, W, 3) uint8 RGB, square; a video whose size changes on the way gives frames of
        several sizes. Memory does not grow with the length of the video; rules by frame number keep one
        number a frame. May be called again; that opens the file anew.

        Args:
            rule: sampling rule that chooses the frames.
            shots: detector of cuts that is shown every decoded frame, also those that the rule does not sample.

        Raises:
            MediaError: after the last good frame, when more than `limits.max_damaged_share` of what was
                decoded is damaged (failed); or when pictures cannot be converted (failed).
        """
        if not self._fresh:
            self._source.close()
            self._source = Source(self._path, self._limits, self._threads)
        source, self._fresh = self._source, False
        kept_rule = self._within_limits(rule, source)
        source.cursor.aim(self._targets(kept_rule, source))
        aspect, turned = source.stream.sample_aspect_ratio, orientation_of(source.first_frame)
        maker = PictureMaker(aspect, turned, is_ipt=opening.is_dolby_vision_alone(source.stream))
        count = 0
        for timestamp, frame in self._wanted(source, shots):
            count += 1
            yield Frame(self._source.clock.seconds(timestamp), self._convert(maker, frame))
        if count >= self._limits.max_frames and kept_rule == rule and not self._source.reader.finished:
            self._note(f"at most {count} frames are kept of a video; it may go on after them")
        self._conclude(self._source)

    def _wanted(self, source: Source, shots: ShotFinder | None) -> Iterator[tuple[int, VideoFrame]]:
        try:
            yield from source.wanted(shots)
        except UnsafeSkipError:  # keyframes that are none: what is left to answer is decoded from the start
            source.close()
            self._source = Source(self._path, self._limits, self._threads, source.cursor)
            yield from self._source.wanted(shots)

    def _within_limits(self, rule: SamplingRule, source: Source) -> SamplingRule:
        most = self._limits.max_frames
        if rule.capped(math.inf, most) == rule:
            return rule
        # What is wanted after the last frame has come gives no frame, however long that one is said to stay.
        last_s = self._extent.last_s + source.usual_duration_s()
        capped: SamplingRule = rule.capped(min(last_s, self._extent.end_s) - source.clock.offset_s, most)
        if capped != rule:
            self._note(f"sampled by '{capped}' instead of '{rule}': at most {most} frames are kept of a video")
        return capped

    def _targets(self, rule: SamplingRule, source: Source) -> Iterator[int]:
        if isinstance(rule, TimeRule):
            end_s = self._extent.end_s if rule.needs_end else math.inf
            times = rule.times(source.clock.offset_s, end_s)
            return (source.clock.timestamp(t) for t in itertools.islice(times, self._limits.max_frames))
        timestamps, _ = self._measure()
        fps = source.stream.guessed_rate or source.stream.average_rate
        chosen = rule.indices(len(timestamps), float(fps or 25))
        return iter([timestamps[index] for index in chosen])

    @cached_property
    def _extent(self) -> _Extent:
        """Where the video ends: the header's claim if its last packets bear it out, else as all packets say."""
        source = self._source
        claimed_s = source.claimed_end_s()
        if claimed_s is not None and source.container.format.name not in JOINABLE:
            timestamps, end = self._measure(since=source.clock.timestamp(claimed_s - _TAIL_S))
            if timestamps and source.confirms_end(end, claimed_s):
                return _Extent(source.clock.seconds(timestamps[-1]), claimed_s)
        timestamps, end = self._measure()
        last_s = source.clock.seconds(timestamps[-1]) if timestamps else source.clock.offset_s
        if claimed_s is not None and source.confirms_end(end, claimed_s):
            return _Extent(last_s, claimed_s)
        end_s = max(source.clock.offset_s, source.clock.seconds(end))
        if claimed_s is not None:
            self._note_if_short(end_s, claimed_s)
        return _Extent(last_s, end_s, len(timestamps))

    def _believed_end_s(self) -> float | None:
        """Where the video ends; None where that is not to be believed."""
        extent = self._extent
        if extent.end_s <= DOUBTFUL_S:
            return extent.end_s
        shown_s = extent.last_s + self._source.usual_duration_s()  # as if its last frame did not stay
        end_s = shown_s if shown_s <= DOUBTFUL_S else None
        counts = "its length counts as unknown" if end_s is None else f"{end_s:.2f} s are counted"
        self._note(f"doubtful: it says that it lasts {extent.end_s / 86_400:,.0f} days; {counts}")
        return end_s

    def _measure(self, since: int | None = None) -> tuple[list[int], int]:
        """Timestamps and end of the packets, all of them or from the keyframe before a timestamp on."""
        container, stream = opening.open_container(self._path, self._limits)
        with container:
            demuxer = Demuxer(container, stream)
            if since is not None:
                demuxer.seek(since)
            return presentation_times(demuxer)

    def _convert(self, maker: PictureMaker, frame: VideoFrame) -> Pixels:
        if (frame.width, frame.height) != self._size:
            opening.check_size(frame.width, frame.height, self._limits)
            was, self._size = self._size, (frame.width, frame.height)
            self._note(f"the picture size changes on the way: {was[0]} x {was[1]}, then others")
        try:
            return maker.pixels(frame)
        except opening.FFMPEG_ERRORS as error:
            what = f"its pictures ({frame.format.name}) cannot be converted to RGB"
            raise MediaError("failed", f"{what}: {error}") from error

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _conclude(self, source: Source) -> None:
        """Say what was met on the way; refuse a video that is mostly damage."""
        damage = source.reader
        if damage.unstamped:
            self._note(f"{damage.unstamped} frames have no usable timestamp; theirs is counted on")
        if (joined := damage.demuxer.shifted_at) is not None:
            at_s = source.clock.seconds(joined)
            self._note(f"timestamps step back at {at_s:.2f} s; they are continued from there")
        if damage.finished:
            found_s = source.clock.seconds(max(damage.end, damage.cut_off))
            self._note_if_short(found_s, self._extent.end_s)
        if damage.refused:
            share, limit = damage.spoilt / damage.packets, self._limits.max_damaged_share
            refused = f"{damage.refused} of {damage.packets} packets cannot be decoded"
            said = f"damaged: {refused}, which spoils {share:.0%} of the pictures"
            self._note(said)
            if share > limit:
                remedy = "copy the file again, or read it all the same: --retry --set max_damaged_share=1, of a corpus "
                raise MediaError("damaged", f"{said}; at most {limit:.0%} is accepted; {remedy}--max-damage 1")

    def _note_if_short(self, found_s: float, claimed_s: float) -> None:
        if found_s < claimed_s - _SHORT_BY_S:
            self._note(f"short: {found_s:.2f} of {claimed_s:.2f} s can be read")


_DATE_NAMES = ("com.apple.quicktime.creationdate", "date_recorded", "creation_time", "date", "year")
"""Names of what says when a video was recorded, those that know the camera's own time first; case does not count."""

_WHEN = re.compile(
    r"(\d{4})(?:[-:/.]?(\d\d)[-:/.]?(\d\d)(?:[T ](\d\d):?(\d\d)(?::?(\d\d))?(?:\.\d+)?)?|[-:/.](\d\d))?"
    r"(Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_FIRST_YEAR = 1888  # of the oldest film that is left
_NEVER_SET = ("1903-12-31", "1904-01-0", "1969-12-31", "1970-01-0")  # where clocks begin


def recorded_at(metadata: Mapping[str, str]) -> str | None:
    """Return when a video was recorded, by the metadata of its container or a stream; None where they do not say.

    >>> recorded_at({"creation_time": "2024-05-31T12:03:00.000000Z"})
    '2024-05-31T12:03:00Z'
    >>> recorded_at({"com.apple.quicktime.creationdate": "2024-05-31T14:03:00+0200"})
    '2024-05-31T14:03:00'
    >>> recorded_at({"date": "20240531"}), recorded_at({"date": "1962"})
    ('2024-05-31', '1962')
    >>> recorded_at({"creation_time": "1904-01-01T00:00:00.000000Z"})
    """
    given = {name.casefold(): value for name, value in metadata.items()}
    return next(filter(None, (_date_in(given[name]) for name in _DATE_NAMES if name in given)), None)


def _date_in(text: str) -> str | None:
    found = _WHEN.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, hours, minutes, seconds, month_alone, zone = found.groups()
    told = "-".join(filter(None, (year, month or month_alone, day)))
    try:
        clock = f"{hours or '00'}:{minutes or '00'}:{seconds or '00'}"
        when = datetime.fromisoformat(f"{told}-01-01"[:10] + f"T{clock}")
    except ValueError:
        return None
    if not _FIRST_YEAR <= when.year <= datetime.now(timezone.utc).year + 1 or told.startswith(_NEVER_SET):
        return None
    return when.isoformat() + ("Z" if zone == "Z" else "") if hours else told


class HeaderReader:
    """Worker that answers a task `{"path"}` with one message, the fields of `VideoInfo`."""

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        with open_video(task["path"], self._limits) as video:
            yield asdict(video.info), None


# packets and frames, no more than are wanted --------------------------------------------------------------------------

BEFORE_ALL = -(2**62)  # a timestamp that no packet has
_HELD_PACKETS = 1024
_HELD_BYTES = 32 * 2**20
_FIRST_SPACING_S = 5.0  # guess of the distance of keyframes, until two have been seen
_REORDER_S = 1.0  # containers seek by decoding time; a keyframe is shown at most this much later
_JUMP_BACK_S = 1.0  # a step back in decoding time that is a new recording, not jitter


class UnsafeSkipError(Exception):
    """Error that a run of packets did not begin with its keyframe, so the file must be decoded from start to end."""


class Cursor:
    """The next wanted timestamp, in units of the stream's time base; None when all have been answered."""

    def __init__(self) -> None:
        self._targets: Iterator[int] = iter(())
        self.answered = -1  # how many of them have their frame; the first advance goes to the first of them
        self.target: int | None = BEFORE_ALL  # the first packets are decoded
        self.given: int | None = None  # timestamp of the frame that was given last

    def aim(self, targets: Iterator[int]) -> None:
        self._targets = targets
        self.advance()

    def advance(self) -> None:
        self.answered += 1
        self.target = next(self._targets, None)


class Demuxer:
    """Iterator over the packets of a stream that hold data, in file order, with timestamps that never step back.

    Where recordings were joined end to end (transport streams), the second one's timestamps are shifted to follow on.
    """

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        self._container, self._stream = container, stream
        self._usual_duration = usual_duration(stream)
        self._jump = int(_JUMP_BACK_S / time_base_of(stream))
        self._shift = 0
        self._last_dts: int | None = None
        self._end = 0  # of what was read, in presentation time
        self.shifted_at: int | None = None  # timestamp of the last such place; None without one

    def __iter__(self) -> Iterator[Packet[VideoStream]]:
        with contextlib.suppress(*opening.FFMPEG_ERRORS):  # a time past all numbers ends the file too
            for packet in opening.packets_of(self._container, self._stream):
                self._continue_clock(packet)
                yield packet

    def seek(self, timestamp: int) -> bool:
        """Seek to the keyframe before a timestamp; return False where the container cannot."""
        try:
            self._container.seek(timestamp, stream=self._stream)
        except opening.FFMPEG_ERRORS:
            return False
        self._last_dts = None
        return True

    def _continue_clock(self, packet: Packet[VideoStream]) -> None:
        if packet.dts is None:
            return
        if self._last_dts is not None and self._last_dts - packet.dts - self._shift > self._jump:
            self._shift = self._end - (packet.dts if packet.pts is None else packet.pts)
            self.shifted_at = self._end
        packet.dts += self._shift
        self._last_dts = packet.dts
        if packet.pts is not None:
            packet.pts += self._shift
            self._end = max(self._end, packet.pts + self.length(packet))

    def length(self, packet: Packet[VideoStream]) -> int:
        """Return how long a packet's picture is shown, in units of the time base; at least 1."""
        return packet.duration or self._usual_duration


def usual_duration(stream: VideoStream) -> int:
    """Return how long a frame is shown at the stream's usual rate, in units of its time base; at least 1."""
    rate = stream.guessed_rate or stream.average_rate or 25
    return max(1, round(1 / (rate * time_base_of(stream))))


def mean_rate(stream: VideoStream) -> float | None:
    """Return the stream's frames per second; None where it is unknown.

    FFmpeg's mean rate is wrong for some files that start late (1,000 for 25), in which case its guessed rate is taken.
    """
    mean, usual = stream.average_rate, stream.guessed_rate
    rate = usual if mean and usual and mean > 2 * usual else mean
    return float(rate) if rate else None


def time_base_of(stream: Stream) -> Fraction:
    return stream.time_base or Fraction(1, 1000)


JOINABLE = {"mpegts", "mpeg", "mpegvideo"}
"""Containers whose recordings may be joined end to end, so that their last timestamps say nothing of the whole."""


def presentation_times(demuxer: Demuxer) -> tuple[list[int], int]:
    """Read the timestamps of all packets in the order they are shown, and the end of the last, without decoding.

    Both are in units of the stream's time base. A packet without a timestamp is placed where it comes in the file.
    Without any packet the end is 0.
    """
    times: list[int] = []
    last, end = 0, BEFORE_ALL
    for packet in demuxer:
        if packet.is_discard:
            continue
        length = demuxer.length(packet)
        last = packet.pts if packet.pts is not None else last + length
        times.append(last)
        end = max(end, last + length)
    return sorted(times), end if times else 0


class PacketReader:
    """Reader of a stream's packets that leaves out those that no wanted frame needs."""

    def __init__(
        self, container: InputContainer, stream: VideoStream, cursor: Cursor, *, may_skip: bool = True
    ) -> None:
        self.demuxer = Demuxer(container, stream)
        self._cursor = cursor
        self._may_skip = may_skip
        self._may_seek = may_skip and container.format.name in opening.CONTAINER_NAMES  # with an index of keyframes
        self._time_base = time_base_of(stream)
        self._held: deque[Packet[VideoStream]] = deque()
        self._held_bytes = 0
        self._restart = False  # whether something was left out before the next packet
        self._last_key: int | None = None  # timestamp of the latest keyframe read
        self._spacing_s = _FIRST_SPACING_S
        self._sought_for: int | None = None

    def steps(self) -> Iterator[tuple[Packet[VideoStream], bool]]:
        """Yield the packets to decode, in decoding order, and whether the decoder must be reset before each."""
        after_seek = False
        for packet in self.demuxer:
            if self._is_far_from_target(packet) and self._seek():
                after_seek = True
                continue
            if after_seek and not self._begins_run(packet):
                raise UnsafeSkipError
            after_seek = False
            self._hold(packet)
            yield from self._release()
        yield from self._release(at_end=True)

    def _hold(self, packet: Packet[VideoStream]) -> None:
        if packet.pts is None:  # nothing can be said about what is shown when
            self._may_skip = self._may_seek = False
        elif packet.is_keyframe:
            if self._last_key is not None and packet.pts > self._last_key:
                self._spacing_s = float((packet.pts - self._last_key) * self._time_base)
            self._last_key = packet.pts
        if self._begins_run(packet):
            self._drop(len(self._held))
        self._held.append(packet)
        self._held_bytes += packet.size

    def _release(self, *, at_end: bool = False) -> Iterator[tuple[Packet[VideoStream], bool]]:
        """Give out what is held as long as what is wanted, which changes meanwhile, must be in it."""
        judged_for: int | None = None
        while self._held:
            if self._cursor.target != judged_for:
                judged_for = self._cursor.target
                self._drop_before_run()
            if not (at_end or self._must_decode()):
                return
            packet = self._held.popleft()
            self._held_bytes -= packet.size
            restart, self._restart = self._restart, False
            yield packet, restart

    def _begins_run(self, packet: Packet[VideoStream]) -> bool:
        """Whether what is wanted needs nothing from before this packet."""
        if not self._may_skip or not packet.is_keyframe or packet.pts is None:
            return False
        target = self._cursor.target
        return target is not None and packet.pts <= target

    def _drop_before_run(self) -> None:
        for place in range(len(self._held) - 1, 0, -1):
            if self._begins_run(self._held[place]):
                self._drop(place)
                return

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._held_bytes -= self._held.popleft().size
            self._restart = True

    def _must_decode(self) -> bool:
        target = self._cursor.target
        return (
            not self._may_skip
            or (target is not None and self._last_key is not None and self._last_key > target)
            or len(self._held) >= _HELD_PACKETS
            or self._held_bytes >= _HELD_BYTES
        )

    def _is_far_from_target(self, packet: Packet[VideoStream]) -> bool:
        target = self._cursor.target
        if not self._may_seek or target is None or packet.pts is None or target == self._sought_for:
            return False
        return float((target - packet.pts) * self._time_base) > 2 * self._spacing_s + _REORDER_S

    def _seek(self) -> bool:
        self._sought_for = target = self._cursor.target
        if target is None or not self.demuxer.seek(target - int(_REORDER_S / self._time_base)):
            self._may_seek = False
            return False
        self._drop(len(self._held))
        self._restart = True
        self._last_key = None
        return True


# AVI stores frames in slots of equal length, in decoding order. What FFmpeg makes up as presentation times is
# wrong where several pictures share a slot (packed B-frames); the slot at which a frame came out is right.
WITHOUT_PTS = {"avi"}


class FrameReader:
    """Decoder of the frames at wanted timestamps, as (timestamp, frame) with rising timestamps within each run."""

    def __init__(
        self, container: InputContainer, stream: VideoStream, cursor: Cursor, *, may_skip: bool = True
    ) -> None:
        self._packets = PacketReader(container, stream, cursor, may_skip=may_skip)
        self.demuxer = self._packets.demuxer
        self._codec = stream.codec_context
        self.by_order = container.format.name in WITHOUT_PTS
        self._usual_duration = usual_duration(stream)
        self._last: int | None = None
        self._run_start: int | None = None  # set until a run begun with a skip has shown its keyframe
        self._spoilt = False
        self.packets = 0  # given to the decoder
        self.refused = 0  # of these it could not decode
        self.spoilt = 0  # from a refused one to the next keyframe: their pictures depend on the missing one
        self.unstamped = 0  # frames without a usable timestamp, which is then extrapolated from the frame before
        self.end = 0  # where the latest frame's time on screen ends
        self.cut_off = BEFORE_ALL  # the latest timestamp decoded that an edit list leaves out
        self.skips = 0  # how often packets were passed over
        self.finished = False  # whether the end of the file was reached

    def __iter__(self) -> Iterator[Stamped]:
        for packet, restart in self._packets.steps():
            if not self.packets and packet.has_sidedata("encryption_info"):
                raise MediaError("encrypted", "its pictures are encrypted (DRM); only unprotected files can be read")
            if restart:
                self.skips += 1
                self._codec.flush_buffers()
                self._last, self._run_start, self._spoilt = None, packet.pts, False
            yield from self._stamped(self._decode(packet))
        try:
            held = self._codec.decode(None)
        except opening.FFMPEG_ERRORS:
            held = []
        yield from self._stamped(held)
        self.finished = True

    def _decode(self, packet: Packet[VideoStream]) -> list[VideoFrame]:
        if packet.is_keyframe:
            self._spoilt = False
        self.packets += 1
        try:
            frames = self._codec.decode(packet)
            if packet.is_discard and packet.pts is not None:
                self.cut_off = max(self.cut_off, packet.pts)
        except opening.FFMPEG_ERRORS:
            self._spoilt = True
            self.refused += 1
            frames = []
        self.spoilt += self._spoilt
        return frames

    def _stamped(self, frames: list[VideoFrame]) -> Iterator[Stamped]:
        for frame in frames:
            timestamp = self._timestamp(frame)
            if self._run_start is not None and timestamp >= self._run_start:
                if timestamp > self._run_start and not self._spoilt:
                    raise UnsafeSkipError
                self._run_start = None
            self._last = timestamp
            self.end = timestamp + (frame.duration or self._usual_duration)
            yield timestamp, frame

    def _timestamp(self, frame: VideoFrame) -> int:
        """The frame's own timestamp, else one counted on from the frame before."""
        own = frame.dts if self.by_order or frame.pts is None else frame.pts
        if self._last is None:
            return own if own is not None else 0
        if own is None or own <= self._last:
            self.unstamped += not self.by_order
            return self._last + self._usual_duration
        return own


def frames_on_screen(frames: Iterator[Stamped], reader: FrameReader, cursor: Cursor) -> Iterator[Stamped]:
    """Yield, for each wanted timestamp, the frame that is on screen then, each frame at most once.

    At the end of the stream the last frame is the answer for timestamps before its end.
    """
    shown: Stamped | None = None
    for timestamp, frame in frames:
        if shown is not None and timestamp <= shown[0]:
            continue  # read again after a seek
        while cursor.target is not None and timestamp > cursor.target:
            answer = shown or (timestamp, frame)
            if answer[0] != cursor.given:
                cursor.given = answer[0]
                yield answer
            cursor.advance()
        if cursor.target is None:
            return
        shown = (timestamp, frame)
    while shown is not None and cursor.target is not None and cursor.target < reader.end:
        if shown[0] != cursor.given:
            cursor.given = shown[0]
            yield shown
        cursor.advance()


# cuts -----------------------------------------------------------------------------------------------------------------

SHORTEST_S = 0.6  # below which nothing is a shot of its own: flashes, fast cuts
LONGEST_GAP_S = 2.0  # skipped, across which frames are still compared
SMALL_PX = (64, 36)  # of the small pictures that are compared; the size of frames may change on the way
LEAST, TIMES, AROUND = 15.0, 3.0, 2  # by which two shots differ, and in times of as many frames on either side
ANY_TWO, RATIO = 27.0, 2.0  # the same of two frames across a gap, and in times of what frames of one shot do
Small = NDArray[np.uint8]  # hue, saturation, value


class ShotFinder:
    """Detector of the cuts between shots of one video, which is given its frames in order."""

    def __init__(self) -> None:
        from av.video.reformatter import VideoReformatter

        # Times, rising, at which a shot begins, without that of the first; the last two frames can begin none.
        self.cuts_s: list[float] = []
        self._reformatter = VideoReformatter()
        self._seen: deque[tuple[float, Small]] = deque()
        self._changes: deque[tuple[float, float, bool]] = deque(maxlen=2 * AROUND + 1)  # may be a cut, but for a gap
        self._began_s = 0.0  # of the shot

    def add(self, time_s: float, frame: VideoFrame, *, skipped: bool = False) -> None:
        """Look for a cut at a frame; a frame not later than the last one is ignored, as when a file is read anew."""
        import cv2

        last_s = self._seen[-1][0] if self._seen else -math.inf
        if time_s <= last_s:
            return
        try:
            made = self._reformatter.reformat(frame, *SMALL_PX, "bgr24", interpolation="AREA")
        except opening.FFMPEG_ERRORS:  # where it is wanted as a picture this is an error of the video
            return
        small = np.asarray(cv2.cvtColor(np.asarray(made.to_ndarray(), np.uint8), cv2.COLOR_BGR2HSV), np.uint8)
        if not self._seen or (skipped and time_s - last_s > LONGEST_GAP_S):
            self._changes.clear()
            self._changes.append((time_s, 0.0, False))
            self._began_s = time_s
        else:
            change = _difference(self._seen[-1][1], small)
            self._changes.append((time_s, change, not skipped or self._stands_out(time_s, change)))
        self._seen.append((time_s, small))
        while self._seen[0][0] < time_s - 2 * LONGEST_GAP_S:
            self._seen.popleft()
        if len(self._changes) == 2 * AROUND + 1:
            self._judge()

    def _judge(self) -> None:
        at_s, change, may_be = self._changes[AROUND]
        around = (sum(one for _, one, _ in self._changes) - change) / (2 * AROUND)
        if change < LEAST or change < TIMES * around or at_s - self._began_s < SHORTEST_S - _SAME_TIME_S:
            return
        self._began_s = at_s
        if may_be:
            self.cuts_s.append(max(0.0, at_s))

    def _stands_out(self, time_s: float, change: float) -> bool:
        last_s, last = self._seen[-1]
        gap_s = time_s - last_s
        _, before = min(self._seen, key=lambda seen: abs(last_s - gap_s - seen[0]))
        return change >= max(ANY_TWO, RATIO * _difference(before, last))


def _difference(one: Small, other: Small) -> float:
    """How far two pictures are apart, as the detector measures it: the mean of hue, saturation and value, 0 to 255."""
    return float(np.abs(other.astype(np.int16) - one).mean())
