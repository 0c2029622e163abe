"""Writing of mp4 files: pictures, with sound beside them. Equal pictures give equal bytes in every run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from evenreel.errors import MediaError
from evenreel.types import FloatArray, Pixels

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.video.stream import VideoStream

BT709 = 1
LIMITED_RANGE = 1
_SOUND_RATE = 16_000
_BITEXACT = 1 << 23  # AV_CODEC_FLAG_BITEXACT: no version string in the file
REPEATABLE = MappingProxyType({"preset": "veryfast", "threads": "1", "x264-params": "mbtree=0"})
"""x264's output depends on the number of threads, and its macroblock tree was seen to write other bytes for the same
pictures from one run to the next."""
FIXED_QUANTISER = MappingProxyType({**REPEATABLE, "qp": "22"})


def constant_quality(crf: int) -> Mapping[str, str]:
    return {**REPEATABLE, "crf": str(crf)}


def clip_bytes(
    frames: Iterable[Pixels],
    fps: int | Fraction,
    options: Mapping[str, str] = FIXED_QUANTISER,
    sound: FloatArray | None = None,
) -> bytes:
    """Encode frames as an mp4 file (H.264, 4:2:0, BT.709) and return its bytes."""
    encoder = ClipEncoder(fps, options, sound)
    for pixels in frames:
        encoder.add(pixels)
    return encoder.finish()


class ClipEncoder:
    """Encoder of an mp4 file that takes one frame at a time, for callers that report progress; see `clip_bytes`."""

    def __init__(
        self, fps: int | Fraction, options: Mapping[str, str] = FIXED_QUANTISER, sound: FloatArray | None = None
    ) -> None:
        import av

        self._held = BytesIO()
        self._container = av.open(self._held, "w", format="mp4", options={"fflags": "+bitexact"})
        self._fps, self._options = Fraction(fps), dict(options)
        self._stream: VideoStream | None = None
        self._sound = sound
        self._sound_stream: AudioStream | None = None
        self._count = 0

    def add(self, pixels: Pixels) -> None:
        """Encode one frame, (H, W, 3) uint8 RGB, of the size of the first."""
        import av

        if self._stream is None:
            self._stream = self._add_stream(pixels)
        frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(
            format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG"
        )
        frame.pts, frame.time_base = self._count, 1 / self._fps
        self._count += 1
        self._container.mux(self._stream.encode(frame))

    def finish(self) -> bytes:
        if self._stream is not None:
            self._container.mux(self._stream.encode(None))
        if self._sound_stream is not None:
            self._mux_sound(self._sound_stream)
        self._container.close()
        return self._held.getvalue()

    def _add_stream(self, pixels: Pixels) -> VideoStream:
        stream = self._container.add_stream("libx264", rate=self._fps, options=self._options)
        stream.height, stream.width = pixels.shape[:2]
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        context.time_base = 1 / self._fps
        context.flags |= _BITEXACT
        context.colorspace = context.color_primaries = context.color_trc = BT709
        context.color_range = LIMITED_RANGE
        if self._sound is not None:
            self._sound_stream = self._container.add_stream("aac", rate=_SOUND_RATE, layout="mono")
            self._sound_stream.codec_context.flags |= _BITEXACT
        return stream

    def _mux_sound(self, stream: AudioStream) -> None:
        import av

        assert self._sound is not None
        step = 1024  # samples of a frame of AAC
        for first in range(0, len(self._sound), step):
            part = self._sound[first : first + step]
            frame = av.AudioFrame.from_ndarray(np.pad(part, (0, step - len(part)))[None], "fltp", "mono")
            frame.sample_rate, frame.pts, frame.time_base = _SOUND_RATE, first, Fraction(1, _SOUND_RATE)
            self._container.mux(stream.encode(frame))
        self._container.mux(stream.encode(None))


def even_sided(pixels: Pixels) -> Pixels:
    """Return pixels (H, W, 3) with H and W even, as 4:2:0 wants them; the last row or column is left out."""
    height, width = (side // 2 * 2 for side in pixels.shape[:2])
    if not height or not width:
        raise MediaError("failed", f"its pictures are {pixels.shape[1]} x {pixels.shape[0]}, too small to be encoded")
    return np.ascontiguousarray(pixels[:height, :width])
