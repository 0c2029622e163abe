"""Pictures as a person would see them: upright, square pixels, RGB, standard dynamic range.

Of decoded frames, which `PictureMaker` converts, and of picture files, which `ImageReader` reads in a killable worker.

High dynamic range and wide gamut become sRGB by the published curves; swscale would take 10 s to prepare for it. Light
is counted in units of diffuse white, 203 cd/m2 (ITU-R BT.2408). Brighter light, up to 1000 cd/m2, is compressed below
white by the curve of ITU-R BT.2390-10, 5.4.1, on the largest of R, G, B, so hues stay.
"""

from __future__ import annotations

import io
import re
import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media.workers import Message
from evenreel.types import FloatArray, Pixels

if TYPE_CHECKING:
    from av.video.frame import VideoFrame
    from PIL.Image import Image

_BACKGROUND = 255  # behind transparent pixels: white, as on a web page
BT709, BT601 = 1, 5
# ITU-T H.273 matrix coefficients -> swscale's SWS_CS_*: as numbers, since PyAV 17 has no name for BT.2020.
_MATRICES = {1: BT709, 4: 4, 5: BT601, 6: BT601, 7: 7, 9: 9, 10: 9}
_WITH_ALPHA = ("yuva", "gbrap", "rgba", "bgra", "argb", "abgr", "ya")
_TURNS = {(True, True, False): 90, (False, True, True): 180, (True, False, True): 270}


@dataclass(frozen=True)
class Orientation:
    """Orientation of stored pictures: for display they are transposed first, then mirrored."""

    transpose: bool = False  # whether rows become columns
    flip_x: bool = False  # whether left and right are mirrored, after the transpose
    flip_y: bool = False  # whether top and bottom are mirrored, after the transpose

    @property
    def degrees(self) -> int:
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

    Interlaced frames are left woven, as stored. Transparent pixels are laid over white.
    """

    def __init__(self, aspect: Fraction | None, orientation: Orientation, *, is_ipt: bool = False) -> None:
        from av.video.reformatter import VideoReformatter

        self._aspect, self._orientation, self._is_ipt = aspect, orientation, is_ipt
        self._reformatter = VideoReformatter()

    def pixels(self, frame: VideoFrame) -> Pixels:
        """Convert a decoded frame to pixels as a person sees them, (H, W, 3) uint8 RGB."""
        if self._is_ipt:
            rgb = ipt_to_srgb(np.asarray(self._converted(frame, "yuv444p16le"), np.uint16))
        elif needs_mapping(frame.color_trc, frame.color_primaries):
            signal = np.asarray(self._converted(frame, "rgb48le"), np.uint16)
            rgb = to_srgb(signal, frame.color_trc, frame.color_primaries)
        elif (name := frame.format.name) == "pal8" or name.startswith(_WITH_ALPHA):
            rgb = over_background(np.asarray(self._converted(frame, "rgba"), np.uint8))
        else:
            rgb = np.asarray(self._converted(frame, "rgb24"), np.uint8)
        return self._orientation.apply(rgb)

    def _converted(self, frame: VideoFrame, layout: str) -> NDArray[Any]:
        from av.video.reformatter import ColorRange

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


def over_background(rgba: Pixels) -> Pixels:
    alpha = rgba[..., 3:].astype(np.uint16)
    if alpha.min(initial=255) == 255:
        return rgba[..., :3]
    blended = rgba[..., :3] * alpha + _BACKGROUND * (255 - alpha)
    return ((blended + 127) // 255).astype(np.uint8)


DIFFUSE_WHITE = 203.0  # cd/m2
PEAK = 1000.0  # cd/m2; what lies above is white
PQ, HLG = 16, 18  # transfer numbers of ITU-T H.273
WIDE_PRIMARIES = {9: "BT.2020", 11: "P3", 12: "P3"}  # primaries numbers of ITU-T H.273
_SDR_GAMMA = 2.4  # ITU-R BT.1886
_SRGB_STEPS = 4096
_BT2020_LUMA = np.array([0.2627, 0.6780, 0.0593], np.float32)
_IPT_TO_LMS = np.array([[1, 0.0976, 0.2052], [1, -0.1139, 0.1332], [1, 0.0326, -0.6769]], np.float32)
_LMS_TO_BT2020 = np.array(  # with the crosstalk of 2 % taken out
    [[3.2385, -2.3253, 0.0867], [-0.7192, 1.8782, -0.1590], [-0.0028, -0.0716, 1.0743]], np.float32
)
# Linear light with a D65 white to BT.709 (ITU-R BT.2087 for BT.2020, SMPTE EG 432-1 for Display P3).
_TO_BT709 = {
    "BT.2020": [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]],
    "P3": [[1.2249, -0.2247, 0.0], [-0.0420, 1.0419, 0.0], [-0.0197, -0.0786, 1.0979]],
}


def needs_mapping(transfer: int, primaries: int) -> bool:
    return transfer in (PQ, HLG) or primaries in WIDE_PRIMARIES


def to_srgb(signal: NDArray[np.uint16], transfer: int, primaries: int) -> Pixels:
    return _shown(_light(transfer)[signal], transfer, primaries)


def ipt_to_srgb(signal: NDArray[np.uint16]) -> Pixels:
    """Convert (H, W, 3) full-range IPT-PQ-c2 of 16 bits (ETSI TS 103 572) to (H, W, 3) sRGB of 8 bits."""
    lms = (signal - np.array([0, 2**15, 2**15], np.float32)) @ _IPT_TO_LMS.T
    light = _light(PQ)[lms.clip(0, 2**16 - 1).astype(np.uint16)] @ _LMS_TO_BT2020.T
    return _shown(light.clip(0), PQ, 9)


def _shown(light: FloatArray, transfer: int, primaries: int) -> Pixels:
    if transfer == HLG:  # its system gamma of 1.2 works on luminance (ITU-R BT.2100, table 5)
        light *= (PEAK / DIFFUSE_WHITE) * np.maximum(light @ _BT2020_LUMA, 1e-6)[..., None] ** np.float32(0.2)
    if transfer in (PQ, HLG):
        points, factors = _compression_curve()
        light *= np.interp(light.max(axis=2), points, factors).astype(np.float32)[..., None]
    matrix = np.array(_TO_BT709[WIDE_PRIMARIES.get(primaries, "BT.2020")], np.float32)
    light = light @ matrix.T
    np.clip(light, 0.0, 1.0, out=light)
    light *= _SRGB_STEPS - 1
    return _srgb_codes(transfer)[(light + 0.5).astype(np.uint16)]


@lru_cache(maxsize=4)
def _light(transfer: int) -> FloatArray:
    """16-bit signal -> light: of diffuse white for PQ and SDR, of the scene's peak for HLG."""
    signal = np.linspace(0.0, 1.0, 2**16)
    if transfer == PQ:
        light = pq_to_nits(signal) / DIFFUSE_WHITE
    elif transfer == HLG:
        a, b, c = 0.17883277, 0.28466892, 0.55991073  # ITU-R BT.2100, table 5
        light = np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - c) / a) + b) / 12)
    else:
        light = signal**_SDR_GAMMA
    return light.astype(np.float32)


@lru_cache(maxsize=2)
def _compression_curve() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Light -> the factor that BT.2390 takes it down by, at points even in PQ."""
    source = np.linspace(nits_to_pq(1e-4), 1.0, 1024)
    peak, white = nits_to_pq(PEAK), nits_to_pq(DIFFUSE_WHITE) / nits_to_pq(PEAK)
    knee = 1.5 * white - 0.5
    level = np.minimum(source / peak, 1.0)
    t = np.maximum(level - knee, 0.0) / (1.0 - knee)
    spline = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (3 * t**2 - 2 * t**3) * white
    mapped = np.where(level < knee, level, spline)
    light = pq_to_nits(source)
    return light / DIFFUSE_WHITE, pq_to_nits(mapped * peak) / light


@lru_cache(maxsize=2)
def _srgb_codes(transfer: int) -> Pixels:
    """Linear light in steps -> 8-bit codes: sRGB's curve, or for SDR video the one it came with."""
    light = np.linspace(0.0, 1.0, _SRGB_STEPS)
    if transfer in (PQ, HLG):
        coded = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    else:
        coded = light ** (1 / _SDR_GAMMA)
    return (coded * 255).round().astype(np.uint8)


def pq_to_nits(signal: NDArray[np.float64]) -> NDArray[np.float64]:
    root = np.power(signal, 32 / 2523)
    light = np.maximum(root - 3424 / 4096, 0.0) / (2413 / 128 - 2392 / 128 * root)
    return np.asarray(10_000 * np.power(light, 16384 / 2610))


def nits_to_pq(nits: float) -> float:
    """Convert cd/m2 to a SMPTE ST 2084 signal, 0..1.

    >>> round(nits_to_pq(100.0), 3), round(nits_to_pq(203.0), 3), round(nits_to_pq(10_000.0), 3)
    (0.508, 0.581, 1.0)
    """
    power = float(nits / 10_000) ** (2610 / 16384)
    return float(((3424 / 4096 + 2413 / 128 * power) / (1 + 2392 / 128 * power)) ** (2523 / 32))


FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MAX_SCANS = 100  # passes over its pixels that a JPEG may have; encoders write about ten, and each of them costs time
_MARKER = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])")  # neither a stuffed byte, nor filling, nor a restart
_END_OF_IMAGE, _START_OF_SCAN = b"\xd9", b"\xda"
_WITHOUT_LENGTH = (b"\x01", b"\xd8")


class ImageReader:
    """Worker that answers a task `{"array": bytes of a picture file}` with its pixels, upright RGB (H, W, 3).

    Transparent parts are laid over white.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        yield {}, self._decoded(task["array"].tobytes())

    def _decoded(self, content: bytes) -> Pixels:
        from PIL import Image, UnidentifiedImageError

        try:
            with warnings.catch_warnings():
                # Warnings of many pixels, where our limit is stricter, and of damaged tags.
                warnings.simplefilter("ignore")
                with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                    width, height = image.size
                    if max(width, height) > self._limits.max_side_px or width * height > self._limits.max_pixels:
                        raise self._too_large(f"{width} x {height}")
                    if (scans := jpeg_scans(content)) > MAX_SCANS:  # before any of them is decoded
                        raise MediaError(
                            "too_large", f"it has {scans:,} scans, at most {MAX_SCANS} are decoded; save it anew"
                        )
                    return upright(image)
        except UnidentifiedImageError as error:
            known = ", ".join(FORMATS)
            raise MediaError("not_media", f"it is in no format that can be read; these can be: {known}") from error
        except Image.DecompressionBombError as error:
            raise self._too_large("too many") from error
        except (OSError, ValueError, SyntaxError, struct.error) as error:  # what Pillow raises for damage
            raise MediaError("damaged", f"it is damaged ({error})") from error

    def _too_large(self, found: str) -> MediaError:
        side, area = self._limits.max_side_px, self._limits.max_pixels
        return MediaError(
            "too_large",
            f"it has {found} pixels, at most {side:,} a side and {area:,} in all are decoded; make it smaller",
        )


def upright(image: Image) -> Pixels:
    """Return an image of PIL as RGB (H, W, 3), turned as its EXIF says, with white behind what is transparent."""
    from PIL import Image, ImageOps

    ImageOps.exif_transpose(image, in_place=True)
    if not image.has_transparency_data:
        return np.asarray(image.convert("RGB"))
    layer = image.convert("RGBA")
    return np.asarray(Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB"))


def jpeg_scans(content: bytes) -> int:
    """Count the scans of a JPEG (ITU-T T.81, B.1.1) without decoding any; 0 for what is no JPEG.

    >>> jpeg_scans(bytes.fromhex("ffd8 ffe0 0004 ffda ffda 0002 12 ff00 ffda 0002 ffd9 ffda"))
    2
    """
    scans, position = 0, 0
    while content.startswith(b"\xff\xd8") and (found := _MARKER.search(content, position)):
        position = found.end()
        if found[1] == _END_OF_IMAGE:
            break
        scans += found[1] == _START_OF_SCAN
        if found[1] not in _WITHOUT_LENGTH:
            position += int.from_bytes(content[position : position + 2], "big")
    return scans


QUALITY = 82


def to_jpeg(pixels: Pixels, width: int, height: int, quality: int = QUALITY) -> bytes:
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((width, height))
    made = io.BytesIO()
    image.save(made, "JPEG", quality=quality, optimize=True)
    return made.getvalue()
