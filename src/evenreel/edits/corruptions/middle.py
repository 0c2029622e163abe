"""Corruptions that follow what moves: blur by motion, defocus, and something before the subject."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenreel.edits.corruptions.original import Original, amount
from evenreel.types import Pixels

GREY = 128


def motion_blur(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Smear along a line of 0.01, 0.02, 0.035, 0.055 or 0.085 of the height, by `guidance`; its angle is the clip's."""
    import cv2

    angle, longest = rng.uniform(0, np.pi), amount(strength, (0.01, 0.02, 0.035, 0.055, 0.085))
    lengths, done = longest * guidance(original.frames) * original.frames.shape[1], []
    for frame, length in zip(original.frames, lengths, strict=True):
        half = max(1, int(np.ceil(length / 2)))
        line = np.zeros((2 * half + 1, 2 * half + 1), np.float32)
        steps = np.linspace(-length / 2, length / 2, 4 * half + 1)
        rows, columns = (np.rint(half + steps * turn).astype(int) for turn in (np.sin(angle), np.cos(angle)))
        np.add.at(line, (rows, columns), 1 / len(steps))
        done.append(cv2.filter2D(frame, -1, line))
    return np.stack(done)


def defocus(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Blur by a disc with a radius of 0.006, 0.01, 0.016, 0.024 or 0.036 of the height, by `guidance`."""
    import cv2

    radii = amount(strength, (0.006, 0.01, 0.016, 0.024, 0.036)) * guidance(original.frames) * original.frames.shape[1]
    done = []
    for frame, radius in zip(original.frames, radii, strict=True):
        half = int(np.ceil(radius))
        across = np.arange(-half, half + 1)
        disc = np.clip(radius + 0.5 - np.hypot(across[:, None], across), 0, 1)
        done.append(cv2.filter2D(frame, -1, (disc / disc.sum()).astype(np.float32)))
    return np.stack(done)


def occlusion(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Cover the subject by a grey square with 0.3, 0.45, 0.6, 0.75 or 0.9 of its diameter for a side.

    The paper looks for the main object with a detector; here whoever gives the clip says where it is
    (`evenreel.edits.corruptions.subject`).
    """
    share, result = amount(strength, (0.3, 0.45, 0.6, 0.75, 0.9)), original.frames.copy()
    aside = rng.uniform(-0.2, 0.2, 2)
    for frame, (x, y, radius) in zip(result, original.subject, strict=True):
        half = share * radius
        left, top = x + aside[0] * radius - half, y + aside[1] * radius - half
        rows, columns = (slice(max(0, round(at)), max(0, round(at + 2 * half))) for at in (top, left))
        frame[rows, columns] = GREY
    return result


def guidance(frames: Pixels) -> NDArray[np.float64]:
    """(T,) 0.5 to 1.5: the more a frame differs from the one before, the more it is blurred; 1 where nothing moves."""
    steps = np.array([np.abs(now.astype(np.float32) - before).mean() for before, now in pairwise(frames)])
    if len(steps) == 0 or steps.max() == 0:
        return np.ones(len(frames))
    return np.asarray(0.5 + np.concatenate([steps[:1], steps]) / steps.max())
