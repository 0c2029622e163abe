"""A video file: what its header says, and its frames as a sampling rule chooses them."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media.allowlist import CONTAINER_NAMES
from evenreel.media.dates import recorded_at
from evenreel.media.opening import (
    FFMPEG_ERRORS,
    check_size,
    is_dolby_vision_alone,
    open_container,
    subtitles_in_pictures,
    subtitles_of_text,
)
from evenreel.media.packets import JOINABLE, Demuxer, UnsafeSkipError, mean_rate, presentation_times
from evenreel.media.picture import PictureMaker, orientation_of, shown_size
from evenreel.media.sampling import SamplingRule, TimeRule
from evenreel.media.source import Source
from evenreel.types import Frame, Pixels, VideoInfo

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

    from evenreel.media.shots import ShotFinder

_SHORT_BY_S = 0.5  # less is rounding, or a last frame that is held
DOUBTFUL_S = 30 * 86_400.0
"""A longer video is taken for one whose timestamps are wrong."""
_TAIL_S = 2.0  # what is looked at to see whether a claimed end is real


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
    video = Video(path, limits or MediaLimits(), threads)
    try:
        yield video
    finally:
        video.close()


def probe(path: str | os.PathLike[str], limits: MediaLimits | None = None) -> VideoInfo:
    """Return what the header, the first frame and the last packets of a video file say.

    Raises:
        MediaError: it cannot be used; `reason` says why in a word, the message in a sentence.
    """
    with open_video(path, limits) as video:
        return video.info


@dataclass(frozen=True)
class _Extent:
    """How far the packets of a video go, on the clock's timeline.

    Attributes:
        last_s: when the last frame comes on screen.
        end_s: when it leaves it.
        frame_count: number of frames, where all had to be counted because the header does not tell or is wrong.
    """

    last_s: float
    end_s: float
    frame_count: int | None = None


class Video:
    """An open video file, its header and its frames; made by `open_video`.

    Attributes:
        notes: sentences about what is unusual in the file; more are added while frames are read.
    """

    def __init__(self, path: str | os.PathLike[str], limits: MediaLimits, threads: int) -> None:
        self._path, self._limits, self._threads = path, limits, threads
        self._source: Source = Source(path, limits, threads)
        self._fresh = True
        self._size = (self._source.first_frame.width, self._source.first_frame.height)
        try:
            self._shown_size = self._check_shown_size()
        except BaseException:
            self.close()
            raise
        self.notes: list[str] = list(_stream_notes(self._source))

    @property
    def packets_decoded(self) -> int:
        """Number of packets decoded by the last reading of frames, which is what it cost."""
        return self._source.reader.damage.packets

    @property
    def answered(self) -> int:
        """Number of a rule's moments that were answered by frames before the last one yielded; all at the end."""
        return self._source.cursor.answered

    def close(self) -> None:
        """Close the video file; may be called twice."""
        self._source.close()

    @cached_property
    def info(self) -> VideoInfo:
        """Return what the header and the first frame say, and the length that the packets confirm.

        The last packets are read, and all of them where the last contradict the header; nothing is decoded.
        """
        stream, container, extent = self._source.stream, self._source.container, self._extent
        name, end_s = container.format.name, self._believed_end_s(extent)
        width, height = self._shown_size
        return VideoInfo(
            container=CONTAINER_NAMES.get(name, name),
            codec=stream.codec_context.name,
            width=width,
            height=height,
            duration_s=end_s,
            frame_count=extent.frame_count or stream.frames or None,
            fps=mean_rate(stream),
            rotation=orientation_of(self._source.first_frame).degrees,
            notes=tuple(self.notes),
            starts_s=self._source.clock.starts_s,
            subtitle_streams=len(subtitles_of_text(container)) + len(subtitles_in_pictures(container)),
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
        source = self._fresh_source()
        kept_rule = self._within_limits(rule, source)
        source.cursor.aim(self._targets(kept_rule, source))
        aspect, turned = source.stream.sample_aspect_ratio, orientation_of(source.first_frame)
        maker = PictureMaker(aspect, turned, is_ipt=is_dolby_vision_alone(source.stream))
        count = 0
        for timestamp, frame in self._wanted(source, shots):
            count += 1
            yield Frame(self._source.clock.seconds(timestamp), self._convert(maker, frame))
        if count >= self._limits.max_frames and kept_rule == rule and not self._source.reader.finished:
            self._note(f"at most {count} frames are kept of a video; it may go on after them")
        self._conclude(self._source)

    def _check_shown_size(self) -> tuple[int, int]:
        stream, frame = self._source.stream, self._source.first_frame
        shown = shown_size(frame.width, frame.height, stream.sample_aspect_ratio, orientation_of(frame))
        check_size(*shown, self._limits)
        return shown

    def _fresh_source(self) -> Source:
        if not self._fresh:
            self._source.close()
            self._source = Source(self._path, self._limits, self._threads)
        self._fresh = False
        return self._source

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
        if claimed_s is not None and end_s < claimed_s - _SHORT_BY_S:
            self._note_short(end_s, claimed_s)
        return _Extent(last_s, end_s, len(timestamps))

    def _believed_end_s(self, extent: _Extent) -> float | None:
        """Where the video ends; None where that is not to be believed."""
        if extent.end_s <= DOUBTFUL_S:
            return extent.end_s
        shown_s = extent.last_s + self._source.usual_duration_s()  # as if its last frame did not stay
        end_s = shown_s if shown_s <= DOUBTFUL_S else None
        counts = "its length counts as unknown" if end_s is None else f"{end_s:.2f} s are counted"
        self._note(f"doubtful: it says that it lasts {extent.end_s / 86_400:,.0f} days; {counts}")
        return end_s

    def _measure(self, since: int | None = None) -> tuple[list[int], int]:
        """Timestamps and end of the packets, all of them or from the keyframe before a timestamp on."""
        container, stream = open_container(self._path, self._limits)
        with container:
            demuxer = Demuxer(container, stream)
            if since is not None:
                demuxer.seek(since)
            return presentation_times(demuxer)

    def _convert(self, maker: PictureMaker, frame: VideoFrame) -> Pixels:
        if (frame.width, frame.height) != self._size:
            check_size(frame.width, frame.height, self._limits)
            was, self._size = self._size, (frame.width, frame.height)
            self._note(f"the picture size changes on the way: {was[0]} x {was[1]}, then others")
        try:
            return maker.pixels(frame)
        except FFMPEG_ERRORS as error:
            raise MediaError(
                "failed", f"its pictures ({frame.format.name}) cannot be converted to RGB: {error}"
            ) from error

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _conclude(self, source: Source) -> None:
        """Say what was met on the way; refuse a video that is mostly damage."""
        damage = source.reader.damage
        if damage.unstamped:
            self._note(f"{damage.unstamped} frames have no usable timestamp; theirs is counted on")
        if (joined := source.reader.demuxer.shifted_at) is not None:
            at_s = source.clock.seconds(joined)
            self._note(f"timestamps step back at {at_s:.2f} s; they are continued from there")
        if source.reader.finished:
            self._check_length(source)
        if damage.refused:
            self._check_damage(source)

    def _check_length(self, source: Source) -> None:
        end_s, found_s = self._extent.end_s, source.clock.seconds(max(source.reader.end, source.reader.cut_off))
        if found_s < end_s - _SHORT_BY_S:
            self._note_short(found_s, end_s)

    def _note_short(self, found_s: float, claimed_s: float) -> None:
        self._note(f"short: {found_s:.2f} of {claimed_s:.2f} s can be read")

    def _check_damage(self, source: Source) -> None:
        damage, limit = source.reader.damage, self._limits.max_damaged_share
        said = (
            f"damaged: {damage.refused} of {damage.packets} packets cannot be decoded, which spoils "
            f"{damage.share:.0%} of the pictures"
        )
        self._note(said)
        if damage.share > limit:
            accepted = f"at most {limit:.0%} is accepted (--retry --max-damage SHARE)"
            raise MediaError("damaged", f"{said}; {accepted}")


def _stream_notes(source: Source) -> Iterator[str]:
    videos = source.container.streams.video
    if len(videos) > 1:
        yield f"{len(videos)} video streams; number {videos.index(source.stream) + 1} of them is used"
    if is_dolby_vision_alone(source.stream):
        yield "Dolby Vision that no other decoder can show (profile 5 or 10.0); its colours are near what is meant"
