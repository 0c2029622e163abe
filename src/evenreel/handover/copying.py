"""Cutting a stretch out of a file without encoding it anew: its packets are copied from a key frame on.

What is shown from a key frame on needs nothing from before it, so a cut begins at the last key frame whose picture is
on screen at the start, or before it; pictures that are shown before that key frame but come after it in the file (the
leading ones of an open group) are left out. It ends with the last packet whose picture begins before the end; a picture
after the end is copied only where an earlier one may refer to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.handover.frames import SAME_TIME_S, slack_of
from evenreel.media.allowlist import copy_options
from evenreel.media.decode import WITHOUT_PTS
from evenreel.media.opening import FFMPEG_ERRORS, choose_stream, open_file
from evenreel.media.packets import JOINABLE, time_base_of
from evenreel.media.source import Source
from evenreel.media.workers import Message

if TYPE_CHECKING:
    from typing import TypeAlias

    from av.container import InputContainer, OutputContainer
    from av.packet import Packet as AnyPacket
    from av.stream import Stream
    from av.video.stream import VideoStream

    Packet: TypeAlias = AnyPacket[Stream]

OWN_FORMAT = {"mp4": "mp4", "matroska": "matroska", "mpegts": "mpegts", "flv": "flv", "ogg": "ogg"}
"""Format that a cut is written in, by that of its file; mp4 for others."""
ANY = "matroska"
"""Format that holds nearly every codec."""
SUFFIXES = {"mp4": ".mp4", "mov": ".mov", "matroska": ".mkv", "mpegts": ".ts", "flv": ".flv", "ogg": ".ogv"}
_REORDER_S = Fraction(1)  # containers seek by decoding time; a key frame is shown at most this much later
_TICK = 500


@dataclass(frozen=True)
class Bounds:
    """A stretch in timestamps of a stream: `start` is on screen at its start, `until` is the first after its end."""

    start: int
    until: int


def copy_stretch(
    path: str,
    out: str,
    stretch: tuple[Fraction, Fraction],
    formats: Sequence[str],
    limits: MediaLimits,
    timecode_at: Callable[[Fraction], str | None] = lambda time_s: None,
) -> Iterator[Message]:
    """Copy a stretch of a file into a file of the first format that can hold its codecs."""
    with closing(Source(path, limits, 1)) as source:
        clock, slack_s = source.clock, slack_of(source.stream)
        bounds = Bounds(
            clock.timestamp(float(stretch[0] + slack_s - SAME_TIME_S)),
            clock.timestamp(float(stretch[1] - slack_s - SAME_TIME_S)) + 1,
        )
        joinable = source.container.format.name in JOINABLE
        if source.container.format.name in WITHOUT_PTS:
            raise UncopyableError("its container does not say when pictures are shown")
    key = yield from _key_frame(path, bounds, limits, may_seek=not joinable)
    tags = {"timecode": timecode} if (timecode := timecode_at(Fraction(clock.seconds(key)))) else {}
    copy = _Copy(path, Bounds(key, bounds.until), tags, limits)
    for place, name in enumerate(formats):
        try:
            yield from copy.into(out, name, may_seek=not joinable)
        except _UnfitError as error:
            if place + 1 < len(formats):
                continue
            raise UncopyableError(f"its streams fit into no container ({error})") from error
        yield (
            {
                "format": name,
                "starts_s": clock.seconds(key),
                "ends_s": clock.seconds(copy.end),
                "left_out": sorted(copy.left_out),
            },
            None,
        )
        return


class UncopyableError(Exception):
    """Raised for a stretch whose packets cannot be copied, with the reason."""


class _UnfitError(Exception):
    """A format cannot hold what is to be copied."""


def _opened(path: str, limits: MediaLimits) -> tuple[InputContainer, VideoStream]:
    container = open_file(path, copy_options(limits))
    try:
        return container, choose_stream(container, limits)
    except BaseException:
        container.close()
        raise


def _seek(container: InputContainer, stream: VideoStream, timestamp: int) -> bool:
    try:
        container.seek(timestamp - int(_REORDER_S / time_base_of(stream)), stream=stream)
    except FFMPEG_ERRORS:
        return False
    return True


def _key_frame(path: str, bounds: Bounds, limits: MediaLimits, *, may_seek: bool) -> Generator[Message, None, int]:
    """Timestamp of the key frame that a cut begins with; yields signs of life."""
    container, stream = _opened(path, limits)
    with container:
        sought = may_seek and _seek(container, stream, bounds.start)
        found, first, last = None, None, None
        for number, packet in enumerate(_packets(container, [stream])):
            at = _shown_at(packet)
            if packet.is_keyframe and first is None:
                first = at
            if packet.is_keyframe and at <= bounds.start:
                found = at
            reached = at if packet.dts is None else packet.dts
            if last is not None and (last - reached) * time_base_of(stream) > _REORDER_S:
                raise UncopyableError("its timestamps step back on the way")  # recordings joined end to end
            last = reached
            if reached > bounds.start:
                break
            if number % _TICK == 0:
                yield {}, None
    if found is None and sought:
        return (yield from _key_frame(path, bounds, limits, may_seek=False))
    if found is None:
        found = first  # the stretch begins before the first picture
    if found is None or found >= bounds.until:
        raise UncopyableError("it has no key frame to begin with")
    return found


def _packets(container: InputContainer, streams: Sequence[Stream]) -> Iterator[Packet]:
    """Packets that hold data; a read error ends the file, as its end does."""
    try:
        for packet in container.demux(*streams):
            if packet.size and not packet.is_discard:
                yield packet
    except FFMPEG_ERRORS:
        return


def _shown_at(packet: Packet) -> int:
    """When a packet's picture comes on screen, in units of its stream's time base."""
    if packet.pts is None:
        raise UncopyableError("its packets do not say when they are shown")
    return packet.pts


class _Copy:
    """Copies packets of a stretch; its start is the timestamp of a key frame.

    Attributes:
        end: timestamp of the end of the last picture that was copied.
        left_out: kinds of streams that do not fit into the format.
    """

    def __init__(self, path: str, bounds: Bounds, tags: Mapping[str, str], limits: MediaLimits) -> None:
        self._path, self._bounds, self._tags, self._limits = path, bounds, tags, limits
        self.end = self._key = bounds.start
        self.left_out: set[str] = set()

    def into(self, out: str, form: str, *, may_seek: bool) -> Iterator[Message]:
        """Write the file; yields signs of life."""
        container, stream = _opened(self._path, self._limits)
        with container:
            if may_seek:
                _seek(container, stream, self._key)
            try:
                with av.open(out, "w", format=form) as target:
                    targets = self._add_streams(target, container, stream)
                    yield from self._copy(container, stream, targets, target)
            except OSError as error:
                raise cannot_write(error) from error
            except FFMPEG_ERRORS as error:
                raise UncopyableError(f"its packets do not fit into {form} ({error})") from error

    def _add_streams(
        self, target: OutputContainer, container: InputContainer, stream: VideoStream
    ) -> dict[int, tuple[Stream, Fraction]]:
        """Streams of the target by the index of the source's."""
        self.left_out = set()
        targets: dict[int, Stream] = {}
        try:
            for one in (stream, *container.streams.audio):
                if one.codec_context is None or one.codec_context.name not in target.supported_codecs:
                    if one is stream:
                        raise _UnfitError(f"{target.format.name} holds no {stream.codec_context.name}")
                    self.left_out.add("sound")
                    continue
                targets[one.index] = target.add_stream_from_template(one)
            if self.left_out and target.format.name != ANY:
                raise _UnfitError(f"{target.format.name} holds not all of its sound")
            target.metadata.update(self._tags)
            target.start_encoding()
        except FFMPEG_ERRORS as error:
            if getattr(error, "errno", None) in _DISK:
                raise
            raise _UnfitError(str(error)) from error
        return {index: (one, _time_base(container.streams[index])) for index, one in targets.items()}

    def _copy(
        self,
        container: InputContainer,
        stream: VideoStream,
        targets: Mapping[int, tuple[Stream, Fraction]],
        target: OutputContainer,
    ) -> Iterator[Message]:
        zero_s = self._key * time_base_of(stream)
        until_s = self._bounds.until * time_base_of(stream)
        pictures = _Pictures(self._key, self._bounds.until)
        open_ends = set(targets)
        streams = [container.streams[index] for index in targets]
        for number, packet in enumerate(_packets(container, streams)):
            index = packet.stream.index
            if index == stream.index:
                ready = pictures.take(packet)
                if pictures.ended:
                    open_ends.discard(index)
            else:
                ready = _sound(packet, zero_s, until_s)
                if _begins_s(packet) >= until_s:
                    open_ends.discard(index)
            for one in ready:
                self._mux(one, *targets[index], zero_s, target)
            if not open_ends or pictures.over_s(packet, until_s):
                break
            if number % _TICK == 0:
                yield {}, None
        self.end = pictures.end
        if not pictures.began:
            raise UncopyableError("its key frame is not found when the file is read again")

    def _mux(
        self, packet: Packet, stream: Stream, time_base: Fraction, zero_s: Fraction, target: OutputContainer
    ) -> None:
        shift = round(zero_s / time_base)
        packet.pts = None if packet.pts is None else packet.pts - shift
        packet.dts = None if packet.dts is None else packet.dts - shift
        packet.stream = stream
        target.mux_one(packet)


class _Pictures:
    """Chooses the packets of pictures: from the key frame on, none shown before it, none needless after the end.

    Attributes:
        began: whether the key frame has come.
        ended: whether no later packet can hold a picture of the stretch.
        end: end of the last picture that was chosen.
    """

    def __init__(self, key: int, until: int) -> None:
        self._key, self._until = key, until
        self._held: list[Packet] = []  # shown after the end; copied only where a wanted one follows
        self.began = self.ended = False
        self.end = key

    def take(self, packet: Packet) -> list[Packet]:
        """Return the packets that are to be copied now."""
        at = _shown_at(packet)
        if not self.began:
            self.began = packet.is_keyframe and at == self._key
        if not self.began or at < self._key or self.ended:
            return []
        if packet.dts is not None and packet.dts >= self._until:
            self.ended = True
            return []
        if at >= self._until:
            self._held.append(packet)
            return []
        ready, self._held = [*self._held, packet], []
        self.end = max(self.end, *(one.pts + (one.duration or 0) for one in ready if one.pts is not None))
        return ready

    def over_s(self, packet: Packet, until_s: Fraction) -> bool:
        """Whether pictures have ended and a packet is a second later than that, so that sound has ended too."""
        return self.ended and _begins_s(packet) >= until_s + _REORDER_S


def _time_base(stream: Stream) -> Fraction:
    return stream.time_base or Fraction(1, 1000)


def _begins_s(packet: Packet) -> Fraction:
    at = packet.dts if packet.pts is None else packet.pts
    return Fraction(0) if at is None else at * _time_base(packet.stream)


def _sound(packet: Packet, zero_s: Fraction, until_s: Fraction) -> list[Packet]:
    """The packet, where it is heard in the stretch."""
    begins_s = _begins_s(packet)
    ends_s = begins_s + (packet.duration or 0) * _time_base(packet.stream)
    return [packet] if ends_s > zero_s and begins_s < until_s else []


_DISK = {28, 30, 13, 27, 5, 122}
"""Numbers of errors of a disk: full, read-only, not permitted, file too large, failing, over a quota."""


def cannot_write(error: OSError) -> MediaError:
    """Make the error for a file that cannot be written."""
    why = (os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)).lower()
    return MediaError("failed", f"its cut cannot be written ({why}); make room or choose another place")


def formats_for(container: str, suffix: str) -> list[str]:
    """List the formats to try for a cut of a file: its own, then one that holds nearly everything.

    >>> formats_for("mp4", ".MOV"), formats_for("matroska", ".webm"), formats_for("mxf", ".mxf")
    (['mov', 'matroska'], ['matroska'], ['mp4', 'matroska'])
    """
    own = "mov" if container == "mp4" and suffix.lower() == ".mov" else OWN_FORMAT.get(container, "mp4")
    return list(dict.fromkeys((own, ANY)))


def as_stretch(task: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
    """Read the start and end of a task, which are written as fractions."""
    start_s, end_s = task["stretch"]
    return Fraction(start_s), Fraction(end_s)
