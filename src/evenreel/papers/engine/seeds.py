"""One figure over several seeds: its mean, and an interval by Student's t."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenreel.evaluation import Interval

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
