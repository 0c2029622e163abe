"""Decoding of frames with exact timestamps, of no more packets than the wanted frames need.

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
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from evenreel.errors import MediaError
from evenreel.media.opening import CONTAINER_NAMES, FFMPEG_ERRORS, packets_of

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    Stamped = tuple[int, VideoFrame]

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
        with contextlib.suppress(*FFMPEG_ERRORS):  # a time past all numbers ends the file too
            for packet in packets_of(self._container, self._stream):
                self._continue_clock(packet)
                yield packet

    def seek(self, timestamp: int) -> bool:
        """Seek to the keyframe before a timestamp; return False where the container cannot."""
        try:
            self._container.seek(timestamp, stream=self._stream)
        except FFMPEG_ERRORS:
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
        self._may_seek = may_skip and container.format.name in CONTAINER_NAMES  # with an index of keyframes
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


@dataclass
class Damage:
    packets: int = 0  # packets given to the decoder
    refused: int = 0  # packets it could not decode
    spoilt: int = 0  # packets from a refused one to the next keyframe, whose pictures depend on the missing one
    unstamped: int = 0  # frames without a usable timestamp, which is then extrapolated from the frame before

    @property
    def share(self) -> float:
        return self.spoilt / max(1, self.packets)


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
        self.damage = Damage()
        self.end = 0  # where the latest frame's time on screen ends
        self.cut_off = BEFORE_ALL  # the latest timestamp decoded that an edit list leaves out
        self.skips = 0  # how often packets were passed over
        self.finished = False  # whether the end of the file was reached

    def __iter__(self) -> Iterator[Stamped]:
        for packet, restart in self._packets.steps():
            if not self.damage.packets and packet.has_sidedata("encryption_info"):
                raise MediaError("encrypted", "its pictures are encrypted (DRM); only unprotected files can be read")
            if restart:
                self.skips += 1
                self._codec.flush_buffers()
                self._last, self._run_start, self._spoilt = None, packet.pts, False
            yield from self._stamped(self._decode(packet))
        try:
            held = self._codec.decode(None)
        except FFMPEG_ERRORS:
            held = []
        yield from self._stamped(held)
        self.finished = True

    def _decode(self, packet: Packet[VideoStream]) -> list[VideoFrame]:
        if packet.is_keyframe:
            self._spoilt = False
        self.damage.packets += 1
        try:
            frames = self._codec.decode(packet)
            if packet.is_discard and packet.pts is not None:
                self.cut_off = max(self.cut_off, packet.pts)
        except FFMPEG_ERRORS:
            self._spoilt = True
            self.damage.refused += 1
            frames = []
        self.damage.spoilt += self._spoilt
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
            self.damage.unstamped += not self.by_order
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
