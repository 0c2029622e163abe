"""Writing of mp4 files: pictures with sound beside them, and clips in one common form.

Equal pictures give equal bytes in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media.sampling import EverySeconds, Part
from evenreel.media.workers import Message
from evenreel.types import FloatArray, Frame, Pixels

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import OutputContainer
    from av.packet import Packet
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


def add_h264(
    container: OutputContainer, size: tuple[int, int], fps: Fraction, clock: Fraction, options: Mapping[str, str]
) -> VideoStream:
    """Add a stream of pictures of a width and height, 4:2:0 in BT.709, whose clock has so many ticks a second."""
    stream = container.add_stream("libx264", rate=fps, options=dict(options))
    (stream.width, stream.height), stream.pix_fmt = size, "yuv420p"
    context = stream.codec_context
    context.time_base = 1 / clock
    context.colorspace = context.color_primaries = context.color_trc = BT709
    context.color_range = LIMITED_RANGE
    return stream


def encoded(stream: VideoStream, pixels: Pixels, tick: int, clock: Fraction) -> list[Packet[Any]]:
    """Encode a picture, scaled to the size of its stream."""
    import av

    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(
        stream.width, stream.height, "yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG"
    )
    frame.pts, frame.time_base = tick, 1 / clock
    return stream.encode(frame)


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
        if self._stream is None:
            self._stream = self._add_stream(pixels)
        self._container.mux(encoded(self._stream, pixels, self._count, self._fps))
        self._count += 1

    def finish(self) -> bytes:
        if self._stream is not None:
            self._container.mux(self._stream.encode(None))
        if self._sound_stream is not None:
            self._mux_sound(self._sound_stream)
        self._container.close()
        return self._held.getvalue()

    def _add_stream(self, pixels: Pixels) -> VideoStream:
        size = pixels.shape[1], pixels.shape[0]
        stream = add_h264(self._container, size, self._fps, self._fps, self._options)
        stream.codec_context.flags |= _BITEXACT
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


Fit = Literal["pad", "crop"]
"""How a picture of another shape comes into the frame: whole, with black beside it, or filling it, its edges lost."""

_SAME_TIME_S = 1e-6  # times of frames are floats


@dataclass(frozen=True)
class Form:
    fps: Fraction  # frames per second, as a ratio
    width: int  # size of the picture in pixels, even
    height: int
    fit: Fit = "pad"
    crf: int = 23  # x264's constant rate factor


class FormWriter:
    """Worker that answers a task `{"path", "start_s", "frames"}` with a clip converted to a common format.

    It sends a `tick` for each frame, then `clip` with the bytes of the mp4 file.
    """

    def __init__(self, form: dict[str, Any], limits: dict[str, Any]) -> None:
        self._form = Form(**{**form, "fps": Fraction(form["fps"])})
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        from evenreel.media.video import open_video

        form, count, start_s = self._form, task["frames"], task["start_s"]
        limits = replace(self._limits, max_frames=max(self._limits.max_frames, 2 * count))
        rule = Part(start_s, start_s + float(count / form.fps)).rule(EverySeconds(float(1 / form.fps)))
        encoder, fitted = ClipEncoder(form.fps, constant_quality(form.crf)), _fitting(form)
        with open_video(task["path"], limits) as video:
            known = video.info.notes  # also of a header that says too much: nobody counts on that
            for pixels in steady(video.frames(rule), form.fps, start_s, count):
                encoder.add(fitted(pixels))
                yield {"kind": "tick"}, None
            if short := [note for note in video.notes if note.startswith("short: ") and note not in known]:
                raise MediaError("failed", f"it is {short[0]}; the rest cannot be made up")
        yield {"kind": "clip"}, np.frombuffer(encoder.finish(), np.uint8)


def steady(frames: Iterable[Frame], fps: Fraction, start_s: float, count: int) -> Iterator[Pixels]:
    """Yield the pictures on screen at `count` evenly spaced times; a picture that stays on screen is repeated."""
    given, shown = 0, None
    for frame in frames:
        while shown is not None and given < count and start_s + float(given / fps) < frame.time_s - _SAME_TIME_S:
            yield shown
            given += 1
        shown = frame.pixels
    while shown is not None and given < count:
        yield shown
        given += 1


def _fitting(form: Form) -> Callable[[Pixels], Pixels]:
    from av.video.frame import VideoFrame
    from av.video.reformatter import Interpolation, VideoReformatter

    reformatter = VideoReformatter()

    def fitted(pixels: Pixels) -> Pixels:
        height, width = inner_size(pixels.shape[1], pixels.shape[0], form)
        if (height, width) != pixels.shape[:2]:
            frame = VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            scaled = reformatter.reformat(frame, width, height, interpolation=Interpolation.BICUBIC, threads=1)
            pixels = np.asarray(scaled.to_ndarray(), np.uint8)
        return framed(pixels, form.width, form.height)

    return fitted


def inner_size(width: int, height: int, form: Form) -> tuple[int, int]:
    """Return the height and width that a picture is scaled to before it is padded or cropped to a format.

    With `pad` it fits inside the format's size, with `crop` it covers it.

    >>> inner_size(640, 360, Form(Fraction(8), 320, 240)), inner_size(640, 360, Form(Fraction(8), 320, 240, "crop"))
    ((180, 320), (240, 427))
    """
    choose = min if form.fit == "pad" else max
    scale = choose(Fraction(form.width, width), Fraction(form.height, height))
    return max(1, round(height * scale)), max(1, round(width * scale))


def framed(pixels: Pixels, width: int, height: int) -> Pixels:
    """Centre pixels (H, W, 3) in a black picture of a given size; what exceeds it is cropped on both sides alike."""
    top, left = (max(0, here - there) // 2 for here, there in zip(pixels.shape[:2], (height, width), strict=True))
    cut = pixels[top : top + height, left : left + width]
    if cut.shape[:2] == (height, width):
        return np.ascontiguousarray(cut)
    picture = np.zeros((height, width, 3), np.uint8)
    top, left = (height - cut.shape[0]) // 2, (width - cut.shape[1]) // 2
    picture[top : top + cut.shape[0], left : left + cut.shape[1]] = cut
    return picture
