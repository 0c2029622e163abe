"""Decoding of frames with exact timestamps: damaged packets are counted and stepped over, and reading goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenreel.errors import MediaError
from evenreel.media.opening import FFMPEG_ERRORS
from evenreel.media.packets import BEFORE_ALL, Cursor, Demuxer, PacketReader, UnsafeSkipError, usual_duration

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    Stamped = tuple[int, VideoFrame]

# AVI stores frames in slots of equal length, in decoding order. What FFmpeg makes up as presentation times is
# wrong where several pictures share a slot (packed B-frames); the slot at which a frame came out is right.
WITHOUT_PTS = {"avi"}


@dataclass
class Damage:
    """Counts of damaged packets and frames while a video is decoded.

    Attributes:
        packets: packets given to the decoder.
        refused: packets it could not decode.
        spoilt: packets from a refused one to the next keyframe, whose pictures depend on the missing one.
        unstamped: frames without a usable timestamp, which is then extrapolated from the frame before.
    """

    packets: int = 0
    refused: int = 0
    spoilt: int = 0
    unstamped: int = 0

    @property
    def share(self) -> float:
        """Share of damaged packets among those decoded, 0 to 1."""
        return self.spoilt / max(1, self.packets)


class FrameReader:
    """Decoder of the frames at wanted timestamps, as (timestamp, frame) with rising timestamps within each run."""

    def __init__(
        self, container: InputContainer, stream: VideoStream, cursor: Cursor, *, may_skip: bool = True
    ) -> None:
        self._packets = PacketReader(container, stream, cursor, may_skip=may_skip)
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

    @property
    def demuxer(self) -> Demuxer:
        """Demuxer that the packets come from."""
        return self._packets.demuxer

    def __iter__(self) -> Iterator[Stamped]:
        for packet, restart in self._packets.steps():
            if not self.damage.packets and packet.has_sidedata("encryption_info"):
                raise MediaError("encrypted", "its pictures are encrypted (DRM); only unprotected files can be read")
            if restart:
                self._forget(packet)
            yield from self._stamped(self._decode(packet))
        yield from self._stamped(self._flush())
        self.finished = True

    def _forget(self, packet: Packet[VideoStream]) -> None:
        self.skips += 1
        self._codec.flush_buffers()
        self._last, self._run_start, self._spoilt = None, packet.pts, False

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

    def _flush(self) -> list[VideoFrame]:
        try:
            return self._codec.decode(None)
        except FFMPEG_ERRORS:
            return []

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
