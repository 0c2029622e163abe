"""Where a moment starts and ends in the scores of a clip's frames: a rule for calm and one for noisy scores.

Chosen on half of the queries of QVHighlights, with a published model's scores and with planted ones, and measured on
the other half (`benchmarks/moments.py`, docs/library.md).
"""

from __future__ import annotations

import math
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
"""Level from which calm scores, smoothed, are a moment: this share of the way from their mean to their best."""
BEYOND = 0.3
"""Height of the threshold above Otsu's for other scores, in their standard deviations."""

FEW = 8
"""Number of frames below which scores are not smoothed."""
SMOOTHING = np.array([1.0, 2, 3, 2, 1]) / 9
"""Weights of five frames: those of a mean of three, taken twice."""

SURE = 0.8
"""Share of starts, and of ends, that are meant to lie in their ranges."""
DOUBT = 4.0
"""Sum of scores above the threshold, in their deviations, that makes one start e times as likely as another."""

MIDDLE = np.array([(1 - SURE) / 2, (1 + SURE) / 2])

Range = tuple[int, int]


class Stretch(NamedTuple):
    """Frames `start` to `stop` - 1, of which `best` is the one to land on.

    The true stretch around that frame is meant to start and to stop within `starts` and `stops`, both ends included, in
    a share `SURE` of cases each.
    """

    start: int
    stop: int
    best: int
    value: float
    starts: Range
    stops: Range


def stretches_of(scores: Curve) -> list[Stretch]:
    """Find the stretches of frames that stand out, the likeliest first; one of all frames where none does.

    - calm scores (those of models that look at time): smoothed, and all frames above a share of the way from their mean
      to their best;
    - other scores (those of single frames): the stretches whose sum above a threshold is largest, which a single frame
      can neither begin nor break; the threshold is somewhat above the one that parts them in two (Otsu 1979).
    """
    smoothed, most = _smoothed(scores), float(scores.max())
    if most - scores.min() < 2 * EVEN:
        best, stop = int(smoothed.argmax()), len(scores)
        return [Stretch(0, stop, best, most, (0, best), (best + 1, stop))]
    spread = _deviation(scores)
    noise = _median(np.abs(scores[1:] - scores[:-1])) / 0.6745 / spread
    if noise < CALM:
        middle = float(smoothed.mean())
        gains = smoothed - middle - SHARE * (float(smoothed.max()) - middle)
        found = list(_runs(gains))
    else:
        gains = scores - _otsu(scores) - BEYOND * spread
        found = list(_largest_sums(gains))
    doubted = gains / (DOUBT * spread)
    chosen = [
        Stretch(start, stop, best, value, *_ranges(doubted, start, stop, best))
        for start, stop, value in found
        for best in (start + int(smoothed[start:stop].argmax()),)
    ]
    return sorted(chosen, key=lambda one: (-one.value, one.start))


def _ranges(gains: Curve, start: int, stop: int, best: int) -> tuple[Range, Range]:
    """Where a stretch around a frame may start and stop: each is as likely as e to the sum from there to the frame."""
    near, far = _middle(gains[best::-1])
    low, high = _middle(gains[best:])
    starts = min(start, best - far), max(start, best - near)
    return starts, (min(stop, best + low + 1), max(stop, best + high + 1))


def _middle(gains: Curve) -> Range:
    """First and last of the places in the middle `SURE` of e to the sum up to them."""
    sums = gains.cumsum()
    shares = np.exp(sums - sums.max()).cumsum()
    low, high = (shares / shares[-1]).searchsorted(MIDDLE).tolist()
    return low, min(high, len(gains) - 1)


def _deviation(values: Curve) -> float:
    """As `values.std()`, which takes three times as long for a few values."""
    apart = values - np.add.reduce(values) / len(values)
    return math.sqrt(np.add.reduce(apart * apart) / len(values))


def _median(values: Curve) -> float:
    """As `np.median`, which takes ten times as long for a few values."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def _smoothed(scores: Curve) -> Curve:
    """A running mean of three frames, taken twice, with the first and last repeated; few frames stay as they are."""
    if len(scores) < FEW:
        return scores
    first, last = scores[:1], scores[-1:]
    return np.convolve(np.concatenate([first, first, scores, last, last]), SMOOTHING, mode="valid")


def _otsu(scores: Curve) -> float:
    """Find the threshold that parts scores into two groups of the least variance."""
    ordered = np.sort(scores)
    below = np.arange(1.0, len(ordered))
    above = below[::-1]
    sums = ordered.cumsum()[:-1]
    apart = (np.add.reduce(ordered) - sums) / above - sums / below
    place = int((below * above * (apart * apart)).argmax())
    return float(ordered[place] + ordered[place + 1]) / 2


def _runs(gains: Curve) -> Iterator[tuple[int, int, float]]:
    """Stretches of gains that are no losses, each with its best."""
    high = np.concatenate(([False], gains >= 0, [False])).astype(np.int8)
    for start, stop in np.flatnonzero(np.diff(high)).reshape(-1, 2):
        yield int(start), int(stop), float(gains[start:stop].max())


def _largest_sums(gains: Curve) -> Iterator[tuple[int, int, float]]:
    """Disjoint stretches with their sums, each the largest of what those before it left, as long as it is positive."""
    open_parts = [(0, len(gains))]
    while open_parts:
        first, last = open_parts.pop()
        part = np.zeros(last - first + 1)
        gains[first:last].cumsum(out=part[1:])
        rises = part - np.minimum.accumulate(part)
        stop = int(rises.argmax())
        if rises[stop] <= 0:
            continue
        start = int(part[: stop + 1].argmin())
        yield first + start, first + stop, float(rises[stop])
        open_parts += [(first, first + start), (first + stop, last)]
