"""A picture as a query: untrusted too, so formats, bytes and pixels are limited before anything is decoded."""

from __future__ import annotations

import re
import struct
import warnings
from io import BytesIO
from pathlib import Path
from typing import IO

import numpy as np

from evenreel.config import MediaLimits
from evenreel.errors import UsageError
from evenreel.types import Pixels

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MAX_BYTES = 50 * 2**20


def read_image(picture: Path | bytes, limits: MediaLimits) -> Pixels:
    """A picture, a file or the bytes of one, as upright RGB (H, W, 3); transparent parts become white.

    Raises:
        UsageError: it is not a picture of an allowed format, or too large.
    """
    if isinstance(picture, bytes):
        _check_size("The picture", len(picture))
        return _decoded("The picture", BytesIO(picture), limits)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(picture)):
        raise UsageError(f"{picture} is an address; nothing is fetched: save the picture and give its file name.")
    told = f"The picture {picture}"
    try:
        if not picture.is_file():
            raise UsageError(f"{told} does not exist or is not a file.")
        _check_size(told, picture.stat().st_size)
        with picture.open("rb") as file:
            return _decoded(told, file, limits)
    except (OSError, ValueError) as error:
        raise UsageError(f"{told} cannot be read: {error}.") from error


def _check_size(told: str, size_bytes: int) -> None:
    if size_bytes > MAX_BYTES:
        raise UsageError(f"{told} has {size_bytes / 2**20:,.0f} MiB, the limit is {MAX_BYTES >> 20} MiB.")


def _decoded(told: str, file: IO[bytes], limits: MediaLimits) -> Pixels:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of many pixels, where the limit below is stricter, and of damaged tags
            with Image.open(file, formats=FORMATS) as image:
                width, height = image.size
                if width * height > limits.max_pixels:
                    raise UsageError(f"{told} has {width} x {height} pixels, the limit is {limits.max_pixels:,}.")
                upright = ImageOps.exif_transpose(image)
                if not upright.has_transparency_data:
                    return np.asarray(upright.convert("RGB"))
                upright = upright.convert("RGBA")
    except UnidentifiedImageError as error:
        raise UsageError(f"{told} is in no format that can be read; these can be: {', '.join(FORMATS)}.") from error
    except Image.DecompressionBombError as error:
        raise UsageError(f"{told} has too many pixels, the limit is {limits.max_pixels:,}.") from error
    except (OSError, ValueError, SyntaxError, struct.error) as error:  # all of them are what Pillow raises for damage
        raise UsageError(f"{told} cannot be read: {error}.") from error
    white = Image.new("RGBA", upright.size, "white")
    return np.asarray(Image.alpha_composite(white, upright).convert("RGB"))
