"""Where a moment starts and ends in the scores of a clip's frames: a rule for calm and one for noisy scores.

Chosen on half of the queries of QVHighlights, with a published model's scores and with planted ones, and measured on
the other half (`benchmarks/moments.py`, docs/library.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Curve = NDArray[np.float64]

EVEN = 1e-3
"""Scores that differ by less are equal: float16 vectors do not tell them apart."""
CALM = 0.34
"""Scores are calm where they change from frame to frame by less than this share of what they vary by."""
SHARE = 0.45
"""Of calm scores, how far between the mean and the best of the smoothed ones a moment begins."""
BEYOND = 0.3
"""Of other scores, by how many of their deviations the threshold is above Otsu's."""

FEW = 8
"""Frames below which nothing is smoothed."""


class Stretch(NamedTuple):
    """Frames `start` to `stop` - 1, of which `best` is the one to land on."""

    start: int
    stop: int
    best: int
    value: float


def stretches_of(scores: Curve) -> list[Stretch]:
    """Find the stretches of frames that stand out, the likeliest first; one of all frames where none does.

    - calm scores (those of models that look at time): smoothed, and all frames above a share of the way from their mean
      to their best;
    - other scores (those of single frames): the stretches whose sum above a threshold is largest, which a single frame
      can neither begin nor break; the threshold is somewhat above the one that parts them in two (Otsu 1979).

    Args:
        scores: (T,) of frames in order of time, about equally far apart; T is at least 1.
    """
    smoothed = _smoothed(scores)
    if scores.max() - scores.min() < 2 * EVEN:
        return [Stretch(0, len(scores), int(smoothed.argmax()), float(scores.max()))]
    noise = float(np.median(np.abs(np.diff(scores)))) / 0.6745 / float(scores.std())
    if noise < CALM:
        middle = float(smoothed.mean())
        found = list(_runs(smoothed, middle + SHARE * (float(smoothed.max()) - middle)))
    else:
        found = list(_largest_sums(scores - _otsu(scores) - BEYOND * scores.std()))
    chosen = [Stretch(start, stop, start + int(smoothed[start:stop].argmax()), value) for start, stop, value in found]
    return sorted(chosen, key=lambda one: (-one.value, one.start))


def _smoothed(scores: Curve) -> Curve:
    """A running mean of three frames, taken twice, with the first and last repeated; few frames stay as they are."""
    if len(scores) < FEW:
        return scores
    return np.convolve(np.pad(scores, 2, mode="edge"), np.array([1.0, 2, 3, 2, 1]) / 9, mode="valid")


def _otsu(scores: Curve) -> float:
    """Find the threshold that parts scores into two groups of the least variance."""
    ordered = np.sort(scores)
    below = np.arange(1, len(ordered))
    sums = np.cumsum(ordered)[:-1]
    low, high = sums / below, (ordered.sum() - sums) / (len(ordered) - below)
    place = int((below * (len(ordered) - below) * (high - low) ** 2).argmax())
    return float(ordered[place] + ordered[place + 1]) / 2


def _runs(scores: Curve, least: float) -> Iterator[tuple[int, int, float]]:
    """Stretches of scores that are at least some number, each with its best."""
    high = np.concatenate(([False], scores >= least, [False])).astype(np.int8)
    for start, stop in np.flatnonzero(np.diff(high)).reshape(-1, 2):
        yield int(start), int(stop), float(scores[start:stop].max())


def _largest_sums(gains: Curve) -> Iterator[tuple[int, int, float]]:
    """Disjoint stretches with their sums, each the largest of what those before it left, as long as it is positive."""
    open_parts = [(0, len(gains))]
    while open_parts:
        first, last = open_parts.pop()
        part = np.concatenate(([0.0], np.cumsum(gains[first:last])))
        rises = part - np.minimum.accumulate(part)
        stop = int(rises.argmax())
        if rises[stop] <= 0:
            continue
        start = int(part[: stop + 1].argmin())
        yield first + start, first + stop, float(rises[stop])
        open_parts += [(first, first + start), (first + stop, last)]
