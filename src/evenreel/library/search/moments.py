"""Moments of a clip that answer a query: stretches of frames with high scores.

Where a moment starts and ends in the scores of a clip's frames is a rule for calm and one for noisy scores, chosen on
half of the queries of QVHighlights, with a published model's scores and with planted ones, and measured on the other
half (`benchmarks/moments.py`, docs/library.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.features.clip_reader import within_shots
from evenreel.library.search.hits import MomentHit, TextHit
from evenreel.types import FloatArray

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


MAX_MOMENTS = 3


Shots = Sequence[tuple[float, float]]
"""Start and end of each shot of a clip in seconds, in order; empty where they are not known."""


def high_stretches(scores: FloatArray, spans_s: NDArray[np.float64], shots: Shots = ()) -> list[MomentHit]:
    """Find the stretches of a clip whose frames answer best, the likeliest first (`stretches_of`).

    A stretch that goes on over a cut is one for each shot, that of its best frame first. Windows of frames may overlap:
    a stretch goes from the start of its first to the end of its last.

    Example:
        >>> spans = np.array([[0.5, 0, 1], [1.5, 1, 2], [2.5, 2, 3], [3.5, 3, 4]])
        >>> [(m.start_s, m.end_s, m.time_s) for m in high_stretches(np.array([0.1, 0.4, 0.5, 0.1]), spans)]
        [(1.0, 3.0, 2.5)]
    """
    if len(shots) < 2:
        edges_s, shot_of = spans_s[:, 1:], None
    else:
        edges_s, shot_of = within_shots(spans_s[:, 0], spans_s[:, 1:], [start_s for start_s, _ in shots[1:]])
    return [
        MomentHit(
            float(spans_s[one.best, 0]),
            float(edges_s[one.start, 0]),
            float(edges_s[one.stop - 1, 1]),
            float(scores[one.start : one.stop].max()),
            _seconds(edges_s[:, 0], one.starts),
            _seconds(edges_s[:, 1], (one.stops[0] - 1, one.stops[1] - 1)),
        )
        for stretch in stretches_of(scores.astype(np.float64))
        for one in ([stretch] if shot_of is None else _by_shot(stretch, scores, shot_of))
    ]


def _by_shot(stretch: Stretch, scores: FloatArray, shot_of: NDArray[np.intp]) -> list[Stretch]:
    """The parts of a stretch in each shot, the one with its best frame first, then by their best."""
    cuts = stretch.start + 1 + np.flatnonzero(np.diff(shot_of[stretch.start : stretch.stop]))
    parts = []
    for start, stop in pairwise([stretch.start, *cuts.tolist(), stretch.stop]):
        within = start <= stretch.best < stop
        best = stretch.best if within else start + int(scores[start:stop].argmax())
        first, last = np.flatnonzero(shot_of == shot_of[start])[[0, -1]].tolist()
        starts, stops = _clipped(stretch.starts, first, best), _clipped(stretch.stops, best + 1, last + 1)
        parts.append((within, Stretch(start, stop, best, float(scores[best]), starts, stops)))
    return [part for _, part in sorted(parts, key=lambda one: (not one[0], -one[1].value, one[1].start))]


def _clipped(places: Range, least: int, most: int) -> Range:
    low, high = (min(max(place, least), most) for place in places)
    return low, high


def _seconds(edges_s: NDArray[np.float64], places: Range) -> tuple[float, float]:
    """The times of two places."""
    return float(edges_s[places[0]]), float(edges_s[places[1]])


def best_moments(found: Sequence[MomentHit], others: Sequence[MomentHit] = ()) -> tuple[MomentHit, ...]:
    """Choose at most three moments, no two of which overlap, first of the channel that found the clip."""
    chosen: list[MomentHit] = []
    for moment in (*found, *others):
        if not any(_overlap(moment, other) for other in chosen):
            chosen.append(moment)
    return tuple(chosen[:MAX_MOMENTS])


def _overlap(one: MomentHit, other: MomentHit) -> bool:
    """Whether two stretches share a time; one that is read in a single frame may have no length."""
    begins, ends = max(one.start_s, other.start_s), min(one.end_s, other.end_s)
    has_point = one.start_s == one.end_s or other.start_s == other.end_s
    return begins < ends or (begins == ends and has_point)


def shown(sign: TextHit) -> MomentHit:
    """Return the stretch in which a sign's words are on screen as a moment, at its middle."""
    return MomentHit((sign.start_s + sign.end_s) / 2, sign.start_s, sign.end_s, sign.similarity)


def spoken(utterance: TextHit) -> MomentHit:
    """Return the stretch in which words are said as a moment, at its beginning."""
    return MomentHit(utterance.start_s, utterance.start_s, utterance.end_s, utterance.similarity)


def whole(seen: Sequence[MomentHit], duration_s: float | None, score: float) -> list[MomentHit]:
    """Return a whole clip, found by its name or caption, as one moment at the frame that best matches the query."""
    end_s = max((moment.end_s for moment in seen), default=0.0) if duration_s is None else duration_s
    return [MomentHit(moment.time_s, 0.0, max(end_s, moment.end_s), score) for moment in seen[:1]]
