"""A clip that is to be perturbed, and the strengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.types import Pixels

STRENGTHS = (1, 2, 3, 4, 5)


class Shown(NamedTuple):
    """The frames of a clip, and what a perturbation may know beside them.

    Attributes:
        frames: (T, H, W, 3) uint8.
        subject: (T, 3) x, y and radius in pixels of the entity that captions name.
        similar: (S, H, W, 3) uint8, frames of another clip before the same background.
        elsewhere: (S, H, W, 3) uint8, frames of a clip before another background.
        fps: frames per second.
    """

    frames: Pixels
    subject: NDArray[np.float64]
    similar: Pixels
    elsewhere: Pixels
    fps: int


Perturb = Callable[[Shown, int, np.random.Generator], Pixels]
"""A clip, a strength of 1 to 5 and chance -> (T', H, W, 3) uint8; the generator's draws are those of every strength."""


def amount(strength: int, amounts: tuple[float, float, float, float, float]) -> float:
    """Choose the amount of a strength."""
    return amounts[STRENGTHS.index(strength)]


def as_pixels(values: NDArray[np.floating]) -> Pixels:
    """Round to 0 to 255."""
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def smooth_field(rng: np.random.Generator, size: tuple[int, int], octaves: int = 5) -> NDArray[np.float32]:
    """Draw (H, W) numbers of 0 to 1: noise of each octave has half the weight of the one before."""
    import cv2

    field = np.zeros(size, np.float32)
    for octave in range(octaves):
        coarse = rng.random((2 ** (octave + 1) + 1,) * 2, dtype=np.float32)
        field += cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_CUBIC) / 2**octave
    return np.asarray((field - field.min()) / np.ptp(field))
