"""The part of reading a picture file that runs in a killable worker: open, decode, turn upright."""

from __future__ import annotations

import re
import struct
import warnings
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media.workers import Message
from evenreel.types import Pixels

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MAX_SCANS = 100
"""Passes over its pixels that a JPEG may have; encoders write about ten, and each of them costs time."""

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
        """Decode one picture."""
        yield {}, self._decoded(task["array"].tobytes())

    def _decoded(self, content: bytes) -> Pixels:
        from PIL import Image, UnidentifiedImageError

        try:
            with warnings.catch_warnings():
                # Warnings of many pixels, where our limit is stricter, and of damaged tags.
                warnings.simplefilter("ignore")
                with Image.open(BytesIO(content), formats=FORMATS) as image:
                    self._check_size(*image.size)
                    _check_scans(content)
                    return upright(image)
        except UnidentifiedImageError as error:
            known = ", ".join(FORMATS)
            raise MediaError("not_media", f"it is in no format that can be read; these can be: {known}") from error
        except Image.DecompressionBombError as error:
            raise self._too_large("too many") from error
        except (OSError, ValueError, SyntaxError, struct.error) as error:  # what Pillow raises for damage
            raise MediaError("damaged", f"it is damaged ({error})") from error

    def _check_size(self, width: int, height: int) -> None:
        if max(width, height) > self._limits.max_side_px or width * height > self._limits.max_pixels:
            raise self._too_large(f"{width} x {height}")

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


def _check_scans(content: bytes) -> None:
    """Refuse a JPEG that goes over its pixels again and again, before any of them is decoded."""
    if (scans := jpeg_scans(content)) > MAX_SCANS:
        raise MediaError("too_large", f"it has {scans:,} scans, at most {MAX_SCANS} are decoded; save it anew")


def jpeg_scans(content: bytes) -> int:
    """Count the scans of a JPEG (ITU-T T.81, B.1.1) without decoding any; 0 for what is no JPEG.

    Example:
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
