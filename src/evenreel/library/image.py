"""A picture as a query: untrusted too, so formats, bytes and pixels are limited before anything is decoded."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np

from evenreel.config import MediaLimits
from evenreel.errors import UsageError
from evenreel.types import Pixels

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MAX_BYTES = 50 * 2**20


def read_image(path: Path, limits: MediaLimits) -> Pixels:
    """A picture file as upright RGB (H, W, 3); transparent parts become white.

    Raises:
        UsageError: it is not a picture of an allowed format, or too large.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)):
        raise UsageError(f"{path} is an address; nothing is fetched: save the picture and give its file name.")
    try:
        if not path.is_file():
            raise UsageError(f"The picture {path} does not exist or is not a file.")
        if (size := path.stat().st_size) > MAX_BYTES:
            raise UsageError(f"The picture {path} has {size / 2**20:,.0f} MiB, the limit is {MAX_BYTES >> 20} MiB.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below is stricter
            with Image.open(path, formats=FORMATS) as image:
                width, height = image.size
                if width * height > limits.max_pixels:
                    raise UsageError(
                        f"The picture {path} has {width} x {height} pixels, the limit is {limits.max_pixels:,}."
                    )
                upright = ImageOps.exif_transpose(image).convert("RGBA")
    except UnidentifiedImageError as error:
        raise UsageError(f"{path} is not a picture that can be read; these can: {', '.join(FORMATS)}.") from error
    except Image.DecompressionBombError as error:
        raise UsageError(f"The picture {path} has too many pixels, the limit is {limits.max_pixels:,}.") from error
    except (OSError, ValueError, SyntaxError) as error:
        raise UsageError(f"The picture {path} cannot be read: {error}.") from error
    white = Image.new("RGBA", upright.size, "white")
    return np.asarray(Image.alpha_composite(white, upright).convert("RGB"))
