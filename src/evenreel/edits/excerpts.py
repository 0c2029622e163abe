"""Workers that read clips that nobody trusts: what takes an excerpt of one, and what converts one to a common form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media import Video, open_video
from evenreel.media.encode import ClipEncoder, constant_quality, even_sided
from evenreel.media.sampling import EverySeconds, Part
from evenreel.media.workers import Message
from evenreel.types import Frame, Pixels

Excerpt = Literal["keyframe", "first_half", "nothing"]
"""What is taken of a clip; `nothing` finds out whether it can be read."""

KEYFRAME_AT = Fraction(1, 5)  # where in a clip its keyframe is (Generative Ghost, section 2.2)
_USUAL_FPS = Fraction(25)


@dataclass(frozen=True)
class FrameAt:
    """Sampling rule for one frame of a clip, at a share of its length: number floor(share x n) of n frames.

    >>> FrameAt(KEYFRAME_AT).indices(14, 25.0)
    [2]
    """

    share: Fraction

    def indices(self, frame_count: int, fps: float) -> list[int]:
        return [int(self.share * frame_count)]

    def capped(self, duration_s: float, max_frames: int) -> FrameAt:
        return self


@dataclass(frozen=True)
class FirstHalf:
    """Sampling rule for all frames of the first half of a clip, rounded down; of a single frame, that frame.

    >>> FirstHalf().indices(7, 25.0)
    [0, 1, 2]
    """

    def indices(self, frame_count: int, fps: float) -> list[int]:
        return list(range(max(1, frame_count // 2)))

    def capped(self, duration_s: float, max_frames: int) -> FirstHalf:
        return self  # they are encoded one by one and not kept


class ExcerptReader:
    """Worker that answers a task `{"path", "part", "excerpt"}` with a keyframe or with the first half of a clip.

    A keyframe is sent as pixels (H, W, 3), a first half as the bytes of an mp4 file at the mean rate of the video,
    after messages `tick` that report progress. In the mp4 file the last row or column is left out where it would be
    odd.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        excerpt: Excerpt = task["excerpt"]
        part = Part(*task["part"])
        with open_video(task["path"], self._limits) as video:
            if excerpt == "keyframe":
                frame = next(video.frames(part.rule(FrameAt(KEYFRAME_AT))), None)
                if frame is None:
                    raise MediaError("no_frames", "its keyframe, a fifth into the clip, could not be decoded")
                yield {"kind": excerpt}, frame.pixels
            elif excerpt == "first_half":
                yield from _first_half(video, part)


def _first_half(video: Video, part: Part) -> Iterator[Message]:
    encoder = ClipEncoder(Fraction(video.info.fps or _USUAL_FPS).limit_denominator(1001) or _USUAL_FPS)
    size: tuple[int, ...] | None = None
    for frame in video.frames(part.rule(FirstHalf())):
        if size not in (None, frame.pixels.shape):
            raise MediaError("failed", "the size of its pictures changes on the way; give it one size")
        size = frame.pixels.shape
        encoder.add(even_sided(frame.pixels))
        yield {"kind": "tick"}, None
    if size is None:
        raise MediaError("no_frames", "no frame of its first half could be decoded")
    yield {"kind": "first_half"}, np.frombuffer(encoder.finish(), np.uint8)


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
