"""Perturbations of what a clip shows and when: another style, another event, another order."""

from __future__ import annotations

import numpy as np

from benchmarks.shifts.shown import Shown, amount, as_pixels
from evenreel.types import Pixels


def style(shown: Shown, strength: int, rng: np.random.Generator) -> Pixels:
    """Give the colours the means and deviations of a clip from elsewhere, mixed in by 0.2, 0.4, 0.6, 0.8 or 1.

    A stand-in: the paper transfers style by AdaIN, which matches these moments of a network's features, not of pixels.
    """
    share, result = amount(strength, (0.2, 0.4, 0.6, 0.8, 1.0)), np.empty_like(shown.frames)
    levels = np.arange(256.0)
    for channel in range(3):
        own, other = (frames[..., channel] for frames in (shown.frames, shown.elsewhere))
        matched = (levels - own.mean()) * (other.std() / max(own.std(), 1.0)) + other.mean()
        result[..., channel] = as_pixels((1 - share) * levels + share * matched)[own]
    return result


def insertion(shown: Shown, strength: int, rng: np.random.Generator) -> Pixels:
    """Splice in a piece of a similar clip, until it is 10, 20, 30, 40 or 50 % of all frames."""
    share, frames = amount(strength, (0.1, 0.2, 0.3, 0.4, 0.5)), shown.frames
    cut, start = rng.random(2)
    count = min(max(1, round(len(frames) * share / (1 - share))), len(shown.similar))
    at, begin = round(cut * len(frames)), round(start * (len(shown.similar) - count))
    return np.concatenate([frames[:at], shown.similar[begin : begin + count], frames[at:]])


def scrambling(shown: Shown, strength: int, rng: np.random.Generator) -> Pixels:
    """Cut the clip into 2, 3, 4, 6 or 8 blocks of frames and put them in another order."""
    blocks = np.array_split(shown.frames, int(amount(strength, (2, 3, 4, 6, 8))))
    order = rng.permutation(len(blocks))
    while (order == np.arange(len(blocks))).all():
        order = rng.permutation(len(blocks))
    return np.concatenate([blocks[place] for place in order])
