"""Encoding of frames as small JPEG pictures."""

from __future__ import annotations

import io

from evenreel.types import Pixels

QUALITY = 82


def to_jpeg(pixels: Pixels, width: int, height: int, quality: int = QUALITY) -> bytes:
    """Encode a picture as JPEG, scaled down where it is larger than a limit."""
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((width, height))
    made = io.BytesIO()
    image.save(made, "JPEG", quality=quality, optimize=True)
    return made.getvalue()
