"""Concentration of matches: whether queries are spread over videos, or a few hubs get most of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import UsageError

HUBS = 10  # videos that are listed, those with the most queries

_ROUNDING = 1e-9
"""Counts that differ by less than this share of the largest are equal: expected counts are sums of fractions."""


@dataclass(frozen=True)
class Balance:
    """Distribution of the queries of a matching over videos, and measures of how even it is."""

    queries: int  # number of queries
    videos: int  # number of videos
    matched: int  # number of queries that are matched with a video
    coverage: float  # share of the videos, 0 to 1, that a query is matched with
    # Gini coefficient of the number of queries a video: 0 where all have as many, near 1 where one has all; NaN without
    # a match
    gini: float
    # (video, number of its queries) of the at most `HUBS` videos with the most; of equal ones the earlier first
    hubs: tuple[tuple[int, int], ...]
    skewness: float  # skewness of the number of queries a video; NaN where all have as many


def balance(matches: NDArray[Any], videos: int) -> Balance:
    """Measure how evenly the queries of a matching are spread over videos.

    Args:
        matches: (Q,) index of the video of each query, -1 for none (`evenreel.adaptation.titan.rematch`).
        videos: number of videos.

    Raises:
        UsageError: there is no video, or a match is not one of them.

    >>> found = balance(np.array([2, 2, 0, 2, -1]), 4)
    >>> found.matched, found.coverage, found.hubs
    (4, 0.5, ((2, 3), (0, 1)))
    """
    places = np.asarray(matches)
    if videos < 1:
        raise UsageError(f"There are {videos} videos; matches are shared out among 1 or more.")
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise UsageError(
            f"Matches are an array of {places.dtype} with the shape {places.shape}; give a column a query."
        )
    wrong = places[(places < -1) | (places >= videos)]
    if len(wrong):
        raise UsageError(
            f"A query is matched to video {wrong[0]}; they are numbered from 0 to {videos - 1}, -1 is none."
        )
    counts = np.bincount(places[places >= 0], minlength=videos)
    order = np.argsort(-counts, kind="stable")[:HUBS].tolist()
    return Balance(
        queries=len(places),
        videos=videos,
        matched=int(counts.sum()),
        coverage=float((counts > 0).mean()),
        gini=gini(counts),
        hubs=tuple((place, int(counts[place])) for place in order if counts[place]),
        skewness=skewness(counts),
    )


def gini(counts: NDArray[Any]) -> float:
    """Compute the Gini coefficient (Gini 1912): 0 where all counts are equal, near 1 where one has all.

    Args:
        counts: (n,) counts, none below 0; NaN comes back where all are 0.

    >>> gini(np.array([3, 3, 3])), gini(np.array([0, 0, 0, 8]))
    (0.0, 0.75)
    """
    ordered, total = np.sort(counts), counts.sum()
    if not total:
        return float("nan")
    places = np.arange(1, len(counts) + 1)
    return float(2 * (places * ordered).sum() / (len(counts) * total) - (len(counts) + 1) / len(counts))


def skewness(counts: NDArray[Any]) -> float:
    """Compute the skewness (third standardised moment) of counts, a measure of hubness (Radovanović et al. 2010).

    NaN where all counts are equal.

    >>> skewness(np.array([1, 1, 1, 5])).__round__(4), skewness(np.array([2, 2]))
    (1.1547, nan)
    """
    values = np.asarray(counts, dtype=np.float64)
    if np.ptp(values) <= _ROUNDING * np.abs(values).max():
        return float("nan")
    apart = values - values.mean()
    return float((apart**3).mean() / (apart**2).mean() ** 1.5)
