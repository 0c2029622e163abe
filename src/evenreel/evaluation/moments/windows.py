"""Overlap of windows in time, and average precision over ranked windows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Windows = NDArray[np.float64]
"""(N, 2) start and end of windows, in seconds."""
THRESHOLDS = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
"""Overlaps over which a mean average precision is taken, as by QVHighlights and ActivityNet: 0.5, 0.55 to 0.95."""


def overlaps(first: Windows, second: Windows) -> NDArray[np.float64]:
    """Compute the intersection over union (IoU) of windows in time, each of the first with each of the second.

    Args:
        first: (M, 2) start and end.
        second: (N, 2) start and end.

    Returns:
        (M, N) from 0 to 1; 0 where both are empty.

    >>> overlaps(np.array([[0.0, 4.0]]), np.array([[2.0, 4.0], [4.0, 8.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0, 1.0]]
    """
    start = np.maximum(first[:, None, 0], second[None, :, 0])
    end = np.minimum(first[:, None, 1], second[None, :, 1])
    shared = np.clip(end - start, 0, None)
    lengths = (first[:, 1] - first[:, 0])[:, None] + (second[:, 1] - second[:, 0])[None, :]
    union = lengths - shared
    shares: NDArray[np.float64] = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return shares


def found_windows(shared: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Mark the ranked windows that match a true window which no window before them has matched.

    Each takes the true window that it overlaps most, among those that are left (the rule of ActivityNet's and
    QVHighlights' evaluations).

    Args:
        shared: (M, N) overlaps (IoU) of ranked windows with true ones.
        threshold: least overlap.

    Returns:
        (M,) whether each ranked window matches one.
    """
    found = np.zeros(len(shared), np.bool_)
    left = np.ones(shared.shape[1], np.bool_)
    for place, row in enumerate(shared):
        candidates = np.where(left & (row >= threshold), row, -1.0)
        best = int(candidates.argmax()) if len(candidates) else 0
        if len(candidates) and candidates[best] >= 0:
            found[place], left[best] = True, False
    return found


def average_precision(hits: NDArray[np.bool_], relevant: int) -> float:
    """Compute average precision: the area under the interpolated curve of precision over recall.

    Args:
        hits: (M,) whether each ranked item is right.
        relevant: number of right items, ranked or not.

    >>> average_precision(np.array([True, False, True]), 2)  # 1 of 1, then 2 of 3
    0.8333333333333333
    """
    places = np.flatnonzero(hits)
    if not len(places) or not relevant:
        return 0.0
    precision = np.arange(1, len(places) + 1) / (places + 1)
    best_after = np.maximum.accumulate(precision[::-1])[::-1]
    return float(best_after.sum() / relevant)


def rated_precision(right: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Compute the average precision of scored items, as QVHighlights does for highlights.

    It is the mean interpolated precision at the scores where recall rises. Items of equal score are found together;
    without ties it is `average_precision` of their ranking.

    Args:
        right: (S,) whether each item is right.
        scores: (S,) scores; items are ranked from the highest.

    >>> rated_precision(np.array([True, False, True]), np.array([3.0, 2.0, 1.0]))
    0.8333333333333333
    >>> rated_precision(np.array([True, False, True]), np.array([3.0, 1.0, 1.0]))  # 1, then 2 of 3
    0.8333333333333333
    """
    if not right.any():
        return 0.0
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    found = np.cumsum(right[order])[last]
    rises = np.diff(found, prepend=0) > 0
    best_after = np.maximum.accumulate((found / (last + 1))[::-1])[::-1]
    return float(best_after[rises].mean())
