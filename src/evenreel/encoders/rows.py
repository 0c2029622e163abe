"""What any encoder takes and gives: checked frames, captions that can be tokenised, rows of unit length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenreel.errors import EncoderError, UsageError
from evenreel.types import FloatArray, Pixels

_SHORTEST = 1e-12  # a feature shorter than this has no direction


def check_pixels(pixels: Pixels, shape: str) -> None:
    """Refuse an array that holds no frames."""
    dimensions = shape.count(",") + 1
    if pixels.dtype != np.uint8 or pixels.ndim != dimensions or pixels.shape[-3] != 3 or 0 in pixels.shape[1:]:
        raise UsageError(f"Frames are {shape} uint8, not {pixels.shape} {pixels.dtype}.")


def clean_captions(captions: Sequence[str]) -> list[str]:
    """Return captions without lone surrogates, which come out of a command line that is not UTF-8."""
    if isinstance(captions, str):
        raise UsageError("Captions are a sequence of strings, not a single string.")
    return [caption.encode("utf-8", "replace").decode() for caption in captions]


def unit_rows(rows: FloatArray, what: str) -> FloatArray:
    """Scale features (N, D) to unit length."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > _SHORTEST).all()):
        raise EncoderError(
            f"The model gives a feature that is not a number, or zero, for a {what}; its weights are "
            "damaged, or the precision is too low for it (use float32)."
        )
    return np.asarray(rows / lengths, np.float32)
