"""The part of giving clips one common form that runs in a killable worker: decode, resample in time, scale, encode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media import open_video
from evenreel.media.encode import ClipEncoder, constant_quality
from evenreel.media.parts import Part
from evenreel.media.sampling import EverySeconds
from evenreel.media.workers import Message
from evenreel.types import Frame, Pixels

if TYPE_CHECKING:
    from collections.abc import Callable

Fit = Literal["pad", "crop"]
"""How a picture of another shape comes into the frame: whole, with black beside it, or filling it, its edges lost."""

_SAME_TIME_S = 1e-6  # times of frames are floats
_SHORT = "short: "


@dataclass(frozen=True)
class Form:
    """Format that all clips are converted to: H.264, 4:2:0, without sound.

    Attributes:
        fps: frames per second, as a ratio.
        width, height: size of the picture in pixels, even.
        fit: how a picture of another shape is fitted: `pad` or `crop`.
        crf: x264's constant rate factor.
    """

    fps: Fraction
    width: int
    height: int
    fit: Fit = "pad"
    crf: int = 23


class FormWriter:
    """Worker that answers a task `{"path", "start_s", "frames"}` with a clip converted to a common format.

    It sends a `tick` for each frame, then `clip` with the bytes of the mp4 file.
    """

    def __init__(self, form: dict[str, Any], limits: dict[str, Any]) -> None:
        self._form = Form(**{**form, "fps": Fraction(form["fps"])})
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Encode the first frames of one clip anew."""
        form, count = self._form, task["frames"]
        start_s = task["start_s"]
        limits = replace(self._limits, max_frames=max(self._limits.max_frames, 2 * count))
        rule = Part(start_s, start_s + float(count / form.fps)).rule(EverySeconds(float(1 / form.fps)))
        encoder, fitted = ClipEncoder(form.fps, constant_quality(form.crf)), _fitting(form)
        with open_video(task["path"], limits) as video:
            known = video.info.notes  # also of a header that says too much: nobody counts on that
            for pixels in steady(video.frames(rule), form.fps, start_s, count):
                encoder.add(fitted(pixels))
                yield {"kind": "tick"}, None
            if short := [note for note in video.notes if note.startswith(_SHORT) and note not in known]:
                raise MediaError("failed", f"it is {short[0]}; the rest cannot be made up")
        yield {"kind": "clip"}, np.frombuffer(encoder.finish(), np.uint8)


def steady(frames: Iterable[Frame], fps: Fraction, start_s: float, count: int) -> Iterator[Pixels]:
    """Yield the pictures on screen at `count` evenly spaced times; a picture that stays on screen is repeated."""
    given, shown = 0, None
    for frame in frames:
        while shown is not None and given < count and _time(given, fps, start_s) < frame.time_s - _SAME_TIME_S:
            yield shown
            given += 1
        shown = frame.pixels
    while shown is not None and given < count:
        yield shown
        given += 1


def _time(number: int, fps: Fraction, start_s: float) -> float:
    return start_s + float(number / fps)


def _fitting(form: Form) -> Callable[[Pixels], Pixels]:
    """A function that brings (H, W, 3) pictures to the form's size."""
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
