"""Conversion of a decoded frame to what a person would see: upright, square pixels, RGB, standard dynamic range."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from av.video.reformatter import ColorRange, VideoReformatter
from numpy.typing import NDArray

from evenreel.media.dynamic_range import ipt_to_srgb, needs_mapping, to_srgb
from evenreel.types import Pixels

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

_BACKGROUND = 255  # behind transparent pixels: white, as on a web page

BT709, BT601 = 1, 5
# ITU-T H.273 matrix coefficients -> swscale's SWS_CS_*: as numbers, since PyAV 17 has no name for BT.2020.
_MATRICES = {1: BT709, 4: 4, 5: BT601, 6: BT601, 7: 7, 9: 9, 10: 9}
_TURNS = {(True, True, False): 90, (False, True, True): 180, (True, False, True): 270}


@dataclass(frozen=True)
class Orientation:
    """Orientation of stored pictures: for display they are transposed first, then mirrored.

    Attributes:
        transpose: whether rows become columns.
        flip_x: whether left and right are mirrored, after the transpose.
        flip_y: whether top and bottom are mirrored, after the transpose.
    """

    transpose: bool = False
    flip_x: bool = False
    flip_y: bool = False

    @property
    def degrees(self) -> int:
        """Clockwise rotation, 0, 90, 180 or 270 degrees; 0 for a mirrored picture."""
        return _TURNS.get((self.transpose, self.flip_x, self.flip_y), 0)

    def apply(self, pixels: Pixels) -> Pixels:
        """Turn stored pixels (H, W, 3) upright; the result is (W, H, 3) where rows and columns are transposed."""
        if self.transpose:
            pixels = pixels.swapaxes(0, 1)
        if self.flip_x:
            pixels = pixels[:, ::-1]
        if self.flip_y:
            pixels = pixels[::-1]
        return np.ascontiguousarray(pixels)


UPRIGHT = Orientation()


def orientation_of(frame: VideoFrame) -> Orientation:
    """Read the orientation from the display matrix of a frame (ISO/IEC 14496-12, 6.2.2); upright without one.

    The matrix maps a stored point (x, y) to (a x + c y, b x + d y) with y downwards. A turn that is not a
    multiple of 90 degrees is rounded to the nearest one.
    """
    side_data: Any = frame.side_data  # PyAV's own annotation of it is wrong
    matrix = side_data.get("DISPLAYMATRIX")
    if matrix is None or matrix.buffer_size != 36:
        return UPRIGHT
    a, b, _, c, d = (int(value) for value in np.frombuffer(memoryview(matrix), np.int32)[:5])
    return orientation_from(a, b, c, d)


def orientation_from(a: int, b: int, c: int, d: int) -> Orientation:
    """Return the orientation of a display matrix given by its four leading numbers, at any scale."""
    transpose = abs(b) + abs(c) > abs(a) + abs(d)
    right, down = (c, b) if transpose else (a, d)  # where the shown x and y axes come from
    return Orientation(transpose, flip_x=right < 0, flip_y=down < 0)


def shown_size(width: int, height: int, aspect: Fraction | None, turned: Orientation) -> tuple[int, int]:
    """Return the width and height at which a stored picture is shown upright with square pixels."""
    width = square_width(width, aspect)
    return (height, width) if turned.transpose else (width, height)


def square_width(width: int, aspect: Fraction | None) -> int:
    """Return the width in pixels that makes the pixels of a picture square.

    An aspect (width over height of a pixel) past 1:8 or 8:1 is taken for an error in the file and ignored.
    """
    if aspect is None or not Fraction(1, 8) <= aspect <= 8:
        return width
    return max(1, round(width * aspect))


class PictureMaker:
    """Converter of one video's decoded frames to pixels; it keeps swscale's set-up between frames.

    Interlaced frames are left woven, as stored. Transparent pixels are laid over white. PQ, HLG and wide gamut
    are mapped to sRGB (`evenreel.media.dynamic_range`).
    """

    def __init__(self, aspect: Fraction | None, orientation: Orientation, *, is_ipt: bool = False) -> None:
        self._aspect = aspect
        self._orientation = orientation
        self._is_ipt = is_ipt
        self._reformatter = VideoReformatter()

    def pixels(self, frame: VideoFrame) -> Pixels:
        """Convert a decoded frame to pixels as a person sees them, (H, W, 3) uint8 RGB."""
        if self._is_ipt:
            rgb = ipt_to_srgb(np.asarray(self._converted(frame, "yuv444p16le"), np.uint16))
        elif needs_mapping(frame.color_trc, frame.color_primaries):
            signal = np.asarray(self._converted(frame, "rgb48le"), np.uint16)
            rgb = to_srgb(signal, frame.color_trc, frame.color_primaries)
        elif _has_alpha(frame):
            rgb = over_background(np.asarray(self._converted(frame, "rgba"), np.uint8))
        else:
            rgb = np.asarray(self._converted(frame, "rgb24"), np.uint8)
        return self._orientation.apply(rgb)

    def _converted(self, frame: VideoFrame, layout: str) -> NDArray[Any]:
        return self._reformatter.reformat(
            frame,
            width=square_width(frame.width, self._aspect),
            format=layout,
            src_colorspace=matrix_of(frame),
            src_color_range=ColorRange.JPEG if self._is_ipt else None,
            dst_color_range=ColorRange.JPEG,
            threads=1,
        ).to_ndarray()


def matrix_of(frame: VideoFrame) -> int | None:
    """Return the YUV matrix of a frame: the tagged one, else BT.709 for HD and BT.601 below, as players guess.

    A picture counts as HD, as in mpv, from a width of 1280 or with a height over 576.
    """
    if frame.format.is_rgb:
        return None
    if frame.colorspace in _MATRICES:
        return _MATRICES[frame.colorspace]
    return BT709 if frame.width >= 1280 or frame.height > 576 else BT601


def _has_alpha(frame: VideoFrame) -> bool:
    name = frame.format.name
    return name == "pal8" or name.startswith(("yuva", "gbrap", "rgba", "bgra", "argb", "abgr", "ya"))


def over_background(rgba: Pixels) -> Pixels:
    """Blend pixels (H, W, 4) with straight alpha over white, to (H, W, 3)."""
    alpha = rgba[..., 3:].astype(np.uint16)
    if alpha.min(initial=255) == 255:
        return rgba[..., :3]
    blended = rgba[..., :3] * alpha + _BACKGROUND * (255 - alpha)
    return ((blended + 127) // 255).astype(np.uint8)
