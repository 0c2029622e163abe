"""Encoding of pictures as mp4 files; equal pictures give equal bytes in every run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING

from evenreel.types import Pixels

if TYPE_CHECKING:
    from av.video.stream import VideoStream

BT709 = 1
LIMITED_RANGE = 1
REPEATABLE = MappingProxyType({"preset": "veryfast", "threads": "1", "x264-params": "mbtree=0"})
"""x264's output depends on the number of threads, and its macroblock tree was seen to write other bytes for the same
pictures from one run to the next."""
FIXED_QUANTISER = MappingProxyType({**REPEATABLE, "qp": "22"})


def constant_quality(crf: int) -> Mapping[str, str]:
    """Return the x264 options for a constant rate factor, from 0 (lossless) to 51."""
    return {**REPEATABLE, "crf": str(crf)}


def clip_bytes(frames: Iterable[Pixels], fps: int | Fraction, options: Mapping[str, str] = FIXED_QUANTISER) -> bytes:
    """Encode frames as an mp4 file (H.264, 4:2:0, BT.709, no sound) and return its bytes.

    Args:
        frames: (H, W, 3) uint8 RGB each, all of one size, H and W even.
        fps: frames per second.
        options: options of x264; others than `REPEATABLE` and a quality may give other bytes in each run.
    """
    encoder = ClipEncoder(fps, options)
    for pixels in frames:
        encoder.add(pixels)
    return encoder.finish()


class ClipEncoder:
    """Encoder of an mp4 file that takes one frame at a time, for callers that report progress; see `clip_bytes`.

    Args:
        fps: frames per second.
        options: options of x264.
    """

    def __init__(self, fps: int | Fraction, options: Mapping[str, str] = FIXED_QUANTISER) -> None:
        import av

        self._held = BytesIO()
        self._container = av.open(self._held, "w", format="mp4", options={"fflags": "+bitexact"})
        self._fps, self._options = Fraction(fps), dict(options)
        self._stream: VideoStream | None = None
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
        """Return the bytes of the whole mp4 file; no frame can be added after that."""
        if self._stream is not None:
            self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._held.getvalue()

    def _add_stream(self, pixels: Pixels) -> VideoStream:
        stream = self._container.add_stream("libx264", rate=self._fps, options=self._options)
        stream.height, stream.width = pixels.shape[:2]
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        context.time_base = 1 / self._fps
        context.flags |= 1 << 23  # AV_CODEC_FLAG_BITEXACT: no version string in the file
        context.colorspace = context.color_primaries = context.color_trc = BT709
        context.color_range = LIMITED_RANGE
        return stream
