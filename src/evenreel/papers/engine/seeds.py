"""One figure over several seeds: its mean, and an interval by Student's t."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from evenreel.evaluation import Interval

Figure = TypeVar("Figure", bound=Hashable)
PERCENT = (0.0, 100.0)
"""The ends of a share."""


def over_seeds(values: Sequence[float], confidence: float, ends: tuple[float, float] = (-np.inf, np.inf)) -> Interval:
    """Mean of independent runs; one run has no interval, and no interval goes past the ends of what is measured.

    >>> over_seeds([2.5], 0.95)
    Interval(value=2.5, low=None, high=None)
    """
    from scipy.stats import t as student

    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean)
    half = float(student.ppf(0.5 + confidence / 2, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return Interval(mean, max(mean - half, ends[0]), min(mean + half, ends[1]))


def means_over_seeds(
    runs: Sequence[Mapping[Figure, float]], confidence: float, ends: Mapping[Figure, tuple[float, float]]
) -> dict[Figure, Interval]:
    """Each figure of a row with its interval.

    Args:
        runs: the figures of each seed.
        confidence: of the intervals.
        ends: between which values a figure lies whatever is measured, where that is not 0 to 100.
    """
    return {
        figure: over_seeds([run[figure] for run in runs], confidence, ends.get(figure, PERCENT)) for figure in runs[0]
    }


def changes_over_seeds(
    before: Sequence[Mapping[Figure, float]], after: Sequence[Mapping[Figure, float]], confidence: float
) -> dict[Figure, Interval]:
    """How each figure changes from one row to another with the same seed.

    >>> changes_over_seeds([{"R@1": 20.0}, {"R@1": 22.0}], [{"R@1": 21.0}, {"R@1": 23.0}], 0.95)["R@1"]
    Interval(value=1.0, low=1.0, high=1.0)
    """
    pairs = list(zip(before, after, strict=True))
    return {figure: over_seeds([new[figure] - old[figure] for old, new in pairs], confidence) for figure in before[0]}
