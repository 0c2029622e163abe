"""Corruptions of what a clip shows and when: another style, another event, another order."""

from __future__ import annotations

import numpy as np

from evenreel.edits.corruptions.original import Original, amount, as_pixels
from evenreel.types import Pixels


def style(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Give the colours the means and deviations of a clip from elsewhere, mixed in by 0.2, 0.4, 0.6, 0.8 or 1.

    A stand-in: the paper transfers style by AdaIN, which matches these moments of a network's features, not of pixels.
    """
    share, result = amount(strength, (0.2, 0.4, 0.6, 0.8, 1.0)), np.empty_like(original.frames)
    levels = np.arange(256.0)
    for channel in range(3):
        own, other = (frames[..., channel] for frames in (original.frames, original.elsewhere))
        (own_mean, own_std), (other_mean, other_std) = moments(own), moments(other)
        matched = (levels - own_mean) * (other_std / max(own_std, 1.0)) + other_mean
        result[..., channel] = as_pixels((1 - share) * levels + share * matched)[own]
    return result


def moments(values: Pixels) -> tuple[float, float]:
    """Compute mean and standard deviation of uint8 values, without a float for each."""
    counts = sum(np.bincount(frame.ravel(), minlength=256) for frame in values) / values.size
    levels = np.arange(256.0)
    mean = float(counts @ levels)
    return mean, float(counts @ (levels - mean) ** 2) ** 0.5


def inserted(count: int, strength: int) -> int:
    """Return how many frames `insertion` adds to a clip of `count`, where the other clip has as many."""
    share = amount(strength, (0.1, 0.2, 0.3, 0.4, 0.5))
    return max(1, round(count * share / (1 - share)))


def insertion(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Splice in a piece of a similar clip, until it is 10, 20, 30, 40 or 50 % of all frames."""
    frames, (cut, start) = original.frames, rng.random(2)
    count = min(inserted(len(frames), strength), len(original.similar))
    at, begin = round(cut * len(frames)), round(start * (len(original.similar) - count))
    return np.concatenate([frames[:at], original.similar[begin : begin + count], frames[at:]])


def scrambling(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Cut the clip into 2, 3, 4, 6 or 8 blocks of frames and put them in another order."""
    blocks = np.array_split(original.frames, min(len(original.frames), int(amount(strength, (2, 3, 4, 6, 8)))))
    if len(blocks) < 2:  # a single frame has no order
        return original.frames.copy()
    order = rng.permutation(len(blocks))
    while (order == np.arange(len(blocks))).all():
        order = rng.permutation(len(blocks))
    return np.concatenate([blocks[place] for place in order])
