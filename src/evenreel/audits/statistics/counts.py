"""Figures of counts: shares, and the difference of two shares with its interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from evenreel.arrays import Column

Counts = NDArray[Any]

FIRST = 10
"""How many of the largest counts are looked at together."""


def share(part: Counts, whole: Counts) -> Column:
    """Compute shares, part / whole, of counts; NaN where the whole is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(whole > 0, part / whole, np.nan), np.float64)


def difference_ends(
    hits: Counts, of: Counts, other_hits: Counts, others: Counts, confidence: float
) -> tuple[Column, Column]:
    """Compute the interval of a difference of shares, hits / of - other_hits / others (Newcombe 1998, method 10).

    >>> low, high = difference_ends(np.array([56]), np.array([70]), np.array([48]), np.array([80]), 0.95)
    >>> low.round(4).tolist(), high.round(4).tolist()  # his example (a), method 10
    ([0.0524], [0.3339])
    """
    first, second = share(hits, of), share(other_hits, others)
    low, high = _wilson(first, of, confidence)
    other_low, other_high = _wilson(second, others, confidence)
    difference = first - second
    return (
        difference - np.hypot(first - low, other_high - second),
        difference + np.hypot(high - first, second - other_low),
    )


def _wilson(of_them: Column, of: Counts, confidence: float) -> tuple[Column, Column]:
    """Ends of the score interval of a share (Wilson 1927)."""
    z = float(special.ndtri((1 + confidence) / 2))
    number = np.maximum(np.asarray(of, np.float64), 1.0)  # a share of nothing is NaN already
    middle = of_them + z**2 / (2 * number)
    half = z * np.sqrt(of_them * (1 - of_them) / number + z**2 / (4 * number**2))
    return (middle - half) / (1 + z**2 / number), (middle + half) / (1 + z**2 / number)


def first_share(counts: NDArray[Any]) -> float:
    """Compute the percentage of all counts that the `FIRST` largest ones make up."""
    return float(100 * np.sort(counts)[::-1][:FIRST].sum() / counts.sum()) if counts.sum() else float("nan")
