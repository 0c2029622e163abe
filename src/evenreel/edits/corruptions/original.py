"""A clip that is to be corrupted, and what corruptions have in common."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.edits.corruptions.settings import STRENGTHS
from evenreel.types import Pixels


class Original(NamedTuple):
    """Frames of a clip, and what a corruption may know beside them.

    Attributes:
        frames: (T, H, W, 3) uint8.
        subject: (T, 3) x, y and radius in pixels of what the clip is about.
        similar: (S, H, W, 3) uint8, frames of another clip, best one like this.
        elsewhere: (S, H, W, 3) uint8, frames of another clip, best one from elsewhere.
        fps: frames per second.
    """

    frames: Pixels
    subject: NDArray[np.float64]
    similar: Pixels
    elsewhere: Pixels
    fps: int | Fraction


Corrupt = Callable[[Original, int, np.random.Generator], Pixels]
"""A clip, a strength of 1 to 5 and chance -> (T', H, W, 3) uint8; the generator's draws are those of every strength."""


def amount(strength: int, amounts: tuple[float, float, float, float, float]) -> float:
    """Choose the amount of a strength."""
    return amounts[STRENGTHS.index(strength)]


def as_pixels(values: NDArray[np.floating]) -> Pixels:
    """Round to 0 to 255."""
    return np.asarray(np.clip(np.rint(values), 0, 255), np.uint8)


def each_frame(frames: Pixels, change: Callable[[Pixels], NDArray[np.floating]]) -> Pixels:
    """Change (T, H, W, 3) frames one by one, so that numbers of one frame alone are in memory, and round."""
    result = np.empty_like(frames)
    for number, frame in enumerate(frames):
        result[number] = as_pixels(change(frame))
    return result


def smooth_field(rng: np.random.Generator, size: tuple[int, int], octaves: int = 5) -> NDArray[np.float32]:
    """Draw (H, W) numbers of 0 to 1: noise of each octave has half the weight of the one before."""
    import cv2

    field = np.zeros(size, np.float32)
    for octave in range(octaves):
        coarse = rng.random((2 ** (octave + 1) + 1,) * 2, dtype=np.float32)
        field += cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_CUBIC) / 2**octave
    return np.asarray((field - field.min()) / np.ptp(field))
