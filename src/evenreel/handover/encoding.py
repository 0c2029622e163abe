"""Cutting a stretch out of a file to the frame, by encoding its pictures and its sound anew.

Pictures become H.264 as a person sees them: upright, with square pixels, in BT.709; the first stream of sound becomes
AAC. The frames are those on screen in the stretch, each for as long as in the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import av

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.handover.copying import cannot_write
from evenreel.handover.encoded_sound import EncodedSound
from evenreel.handover.facts import FileFacts
from evenreel.handover.frames import FrameRate
from evenreel.media import open_video
from evenreel.media.encode import BT709, LIMITED_RANGE, even_sided
from evenreel.media.moments import GivenTimes
from evenreel.media.workers import Message
from evenreel.types import Frame, Pixels

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

FORM = "mp4"
OPTIONS = {"preset": "medium", "crf": "18"}
TICKS = 90_000
"""Ticks of the clock of a film whose frame rate varies, in a second."""
_FASTEST = 240
"""Frames a second that a film of varying rate is looked at."""


def encode_stretch(
    path: str, out: str, stretch: tuple[Fraction, Fraction], facts: FileFacts, limits: MediaLimits
) -> Iterator[Message]:
    """Encode a stretch of a file as an mp4 file."""
    try:
        with av.open(out, "w", format=FORM, options={"movflags": "+faststart"}) as target:
            if timecode := facts.timecode_at(stretch[0]):
                target.metadata["timecode"] = timecode
            film = _Film(target, facts, stretch)
            yield from film.encode(path, limits)
    except OSError as error:
        raise cannot_write(error) from error
    starts_s, ends_s = film.span_s
    yield {"format": FORM, "starts_s": float(starts_s), "ends_s": float(ends_s), "left_out": film.left_out}, None


class _Film:
    """A file that frames and sound of a stretch are encoded into."""

    def __init__(self, target: OutputContainer, facts: FileFacts, stretch: tuple[Fraction, Fraction]) -> None:
        self._target, self._facts, self._stretch = target, facts, stretch
        self._rate = FrameRate(facts.own_fps)
        first = max(0, self._rate.frame_at(stretch[0] - facts.offset_s, facts.slack_s))
        self._frames = range(first, max(first + 1, self._rate.frame_after(stretch[1] - facts.offset_s, facts.slack_s)))
        self._last_pts = -1
        self.left_out: list[str] = []

    @property
    def span_s(self) -> tuple[Fraction, Fraction]:
        """Start and end of what is encoded, on the player's timeline."""
        if not self._facts.steady:
            return self._stretch
        offset_s, frame_s = self._facts.offset_s, self._rate.frame_s
        return offset_s + self._frames.start * frame_s, offset_s + self._frames.stop * frame_s

    def encode(self, path: str, limits: MediaLimits) -> Iterator[Message]:
        """Encode pictures and sound; yields a sign of life a frame."""
        times = self._times_s()
        stream, sound = None, None
        with open_video(path, replace(limits, max_frames=max(limits.max_frames, len(times) + 1)), threads=2) as video:
            for frame in video.frames(GivenTimes(times)):
                if stream is None:
                    stream = self._picture_stream(frame.pixels)
                    sound = EncodedSound.of(path, limits, self._target)
                self._add(stream, frame)
                yield {}, None
        if stream is None:
            raise MediaError("no_frames", "no picture of the stretch can be decoded")
        self._finish(stream)
        if sound is not None:
            with closing(sound):
                yield from sound.encode(*self.span_s)
            self.left_out = ["sound"] if sound.missing else []

    def _finish(self, stream: VideoStream) -> None:
        """Write what is still held; the last picture stays to the end of the stretch."""
        for packet in stream.encode(None):
            if packet.pts == self._last_pts:
                end = len(self._frames) if self._facts.steady else round((self._stretch[1] - self._stretch[0]) * TICKS)
                packet.duration = max(1, end - self._last_pts)
            self._target.mux_one(packet)

    def _times_s(self) -> list[float]:
        """Times at which the frames are on screen: of a steady film their middles."""
        start_s, end_s = self._stretch
        if self._facts.steady:
            frame_s = self._rate.frame_s
            return [float(self._facts.offset_s + (number + Fraction(1, 2)) * frame_s) for number in self._frames]
        count = math.ceil((end_s - start_s) * _FASTEST)
        return [float(start_s + Fraction(number, _FASTEST)) for number in range(count)]

    def _add(self, stream: VideoStream, frame: Frame) -> None:
        pixels = even_sided(frame.pixels)
        if (stream.width, stream.height) != (pixels.shape[1], pixels.shape[0]):
            raise MediaError("failed", "the size of its pictures changes in the stretch, which is not encoded")
        picture = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(
            format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG"
        )
        self._last_pts = max(self._pts(frame.time_s), self._last_pts + 1)
        picture.pts, picture.time_base = self._last_pts, stream.codec_context.time_base
        self._target.mux(stream.encode(picture))

    def _pts(self, time_s: float) -> int:
        time = Fraction(time_s)
        if self._facts.steady:
            nearest = round((time - self._facts.offset_s) * self._rate.fps)
            return max(0, nearest - self._frames.start)
        return max(0, round((time - self._stretch[0]) * TICKS))

    def _picture_stream(self, pixels: Pixels) -> VideoStream:
        facts, shape = self._facts, even_sided(pixels).shape
        stream = self._target.add_stream("libx264", rate=self._rate.fps, options=OPTIONS)
        stream.height, stream.width, stream.pix_fmt = shape[0], shape[1], "yuv420p"
        context = stream.codec_context
        context.time_base = self._rate.frame_s if facts.steady else Fraction(1, TICKS)
        context.colorspace = context.color_primaries = context.color_trc = BT709
        context.color_range = LIMITED_RANGE
        return stream
