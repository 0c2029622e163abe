"""Guess of where the subject of a clip is, from its pixels alone: what moves, or else what stands out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenreel.types import Pixels

_ROWS = 72
"""Height of the small pictures that are looked at."""

_MOST_MOMENTS = 60
"""Frames of a clip, evenly spaced, of which its background is the median."""

_MOVES = 24.0
"""Levels by which a place differs from the background where something moves, and not noise or a shaking camera."""

_LEAST, _MOST = 0.06, 0.4
"""Radius of a subject as a share of the height."""


def subject_of(frames: Pixels) -> NDArray[np.float64]:
    """Guess the place of the subject in each frame: x, y and radius in pixels, (T, 3).

    What differs most from the clip's median picture; where nothing moves, what differs most in colour from the mean of
    the picture (frequency-tuned saliency, Achanta et al. 2009). No network is asked, so it may be the wrong thing.

    Args:
        frames: (T, H, W, 3) uint8.
    """
    import cv2

    height, width = frames.shape[1:3]
    scale = _ROWS / height
    size = max(1, round(width * scale)), _ROWS
    small = np.stack([cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in frames])
    some = np.unique(np.linspace(0, len(small) - 1, _MOST_MOMENTS).round().astype(int))
    background = np.median(small[some], axis=0)
    found = np.empty((len(frames), 3))
    for number, frame in enumerate(small):
        found[number] = _standing_out(cv2.GaussianBlur(frame, (0, 0), 1.5).astype(np.float32), background)
    return np.asarray(found / [size[0] / width, scale, scale])


def _standing_out(frame: NDArray[np.float32], background: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the middle and the radius of the place (h, w, 3) that differs most."""
    import cv2

    apart = np.abs(frame - background).max(axis=2)
    if apart.max() < _MOVES:
        apart = np.abs(frame - frame.mean(axis=(0, 1))).max(axis=2)
    _, places = cv2.connectedComponents((apart >= apart.max() / 4).astype(np.uint8))
    rows, columns = np.nonzero(places == places[np.unravel_index(apart.argmax(), apart.shape)])
    radius = np.clip(np.sqrt(len(rows) / np.pi), _LEAST * len(frame), _MOST * len(frame))
    return float(columns.mean()) + 0.5, float(rows.mean()) + 0.5, float(radius)
