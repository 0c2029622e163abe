"""Corruptions of single pixels and of the file: noise, weather, warping, compression.

What is drawn is drawn once a clip and is the same in all its frames, so that frames stay consistent in time.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np

from evenreel.edits.corruptions.original import Original, amount, each_frame, smooth_field
from evenreel.media.encode import clip_bytes, constant_quality
from evenreel.types import Pixels

HAZE = 235.0
"""Brightness of fog."""


def gaussian_noise(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Add noise with a standard deviation of 0.08, 0.12, 0.18, 0.26 or 0.38 of the range (that of ImageNet-C)."""
    noise = rng.standard_normal(original.frames.shape[1:], np.float32)
    added = 255 * amount(strength, (0.08, 0.12, 0.18, 0.26, 0.38)) * noise
    return each_frame(original.frames, lambda frame: frame + added)


def impulse_noise(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Set 3, 6, 9, 17 or 27 % of all values to 0 or 255 (the shares of ImageNet-C)."""
    struck = rng.random(original.frames.shape[1:]) < amount(strength, (0.03, 0.06, 0.09, 0.17, 0.27))
    salt = np.where(rng.random(original.frames.shape[1:]) < 0.5, 0, 255).astype(np.uint8)
    return np.where(struck, salt, original.frames)


def fog(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Mix in haze of uneven density, at its thickest 0.3, 0.45, 0.6, 0.75 or 0.9, at its thinnest half of that."""
    field = smooth_field(rng, original.frames.shape[1:3])
    density = amount(strength, (0.3, 0.45, 0.6, 0.75, 0.9)) * (1 + field[..., None]) / 2
    return each_frame(original.frames, lambda frame: (1 - density) * frame + density * HAZE)


def snow(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Let flakes begin in 0.5, 1, 2, 4 or 6 % of the pixels; a flake is a streak of a twentieth of the height."""
    import cv2

    height, width = original.frames.shape[1:3]
    flakes = (rng.random((height, width)) < amount(strength, (0.005, 0.01, 0.02, 0.04, 0.06))).astype(np.float32)
    length, slant = max(3, height // 20), rng.uniform(-0.5, 0.5)
    streak = np.zeros((length, length), np.float32)
    rows = np.arange(length)
    streak[rows, np.clip(np.rint(length / 2 + slant * (rows - length / 2)).astype(int), 0, length - 1)] = 1.0
    cover = cv2.GaussianBlur(np.minimum(cv2.filter2D(flakes, -1, streak), 1.0), (0, 0), 0.7)[..., None]
    return each_frame(original.frames, lambda frame: (1 - cover) * frame + cover * 255.0)


def elastic(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Move pixels by up to 0.04, 0.06, 0.09, 0.12 or 0.16 of the height, each by a smooth field."""
    height, width = original.frames.shape[1:3]
    reach = amount(strength, (0.04, 0.06, 0.09, 0.12, 0.16)) * height
    down, right = (reach * (2 * smooth_field(rng, (height, width)) - 1) for _ in range(2))
    rows = np.clip(np.rint(np.arange(height)[:, None] + down), 0, height - 1).astype(int)
    columns = np.clip(np.rint(np.arange(width) + right), 0, width - 1).astype(int)
    return np.asarray(original.frames[:, rows, columns])


def compression(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Encode by H.264 with a constant rate factor of 30, 36, 42, 47 or 51 and decode again."""
    import av

    crf = int(amount(strength, (30, 36, 42, 47, 51)))
    with av.open(BytesIO(clip_bytes(original.frames, original.fps, constant_quality(crf))), "r") as container:
        return np.stack([np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for frame in container.decode(video=0)])
