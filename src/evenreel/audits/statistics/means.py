"""Means over captions with confidence intervals, and sign tests of pairs.

The intervals are those of `evenreel.evaluation.intervals`, over groups of captions that are resampled together.
Source of the test: Dixon and Mood 1946 (sign test).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import bdtr

from evenreel.arrays import Column, Indices
from evenreel.audits.settings import AuditSettings
from evenreel.evaluation.intervals import GroupedMean, Interval, numbered, t_interval
from evenreel.evaluation.intervals import hits_interval as interval_of_hits
from evenreel.evaluation.intervals import mean_interval as interval_of_mean
from evenreel.evaluation.intervals import share_interval as interval_of_share


def share_interval(values: Column, groups: Indices, settings: AuditSettings) -> Interval:
    """Compute the mean of percentages (Q,), leaving out NaN, with its interval within 0 to 100.

    At least one percentage must be known.
    """
    return _interval(interval_of_share, values, groups, settings)


def mean_interval(values: Column, groups: Indices, settings: AuditSettings) -> Interval:
    """Compute the mean of values (Q,), leaving out NaN, with Student's interval; NaN where none is known."""
    return _interval(interval_of_mean, values, groups, settings)


def hits_interval(values: Column, groups: Indices, settings: AuditSettings) -> Interval:
    """Compute the mean of differences of hits (Q,), in percentage points, leaving out NaN, with its interval.

    The mean is NaN where no difference is known. The interval is `evenreel.evaluation.intervals.hits_interval`.
    """
    return _interval(interval_of_hits, values, groups, settings)


def _interval(
    interval_of: Callable[[GroupedMean, float], Interval], values: Column, groups: Indices, settings: AuditSettings
) -> Interval:
    if np.isnan(values).all():
        return Interval(float("nan"))
    mean = GroupedMean.of(values, groups)
    return interval_of(mean, settings.confidence) if settings.resamples else Interval(mean.value)


def ratio_intervals(above: Column, below: Column, groups: Indices, settings: AuditSettings) -> list[Interval]:
    """Compute C ratios, each of the sum of a column (Q,) to that of another, with intervals; NaN for a divisor of 0.

    Their variance is that of the linear form (above - ratio x below) / sum below, summed over groups.
    """
    return [_ratio_interval(*columns, groups, settings) for columns in zip(above, below, strict=True)]


def _ratio_interval(above: Column, below: Column, groups: Indices, settings: AuditSettings) -> Interval:
    member, count = numbered(groups)
    over, under = (np.bincount(member, column, count) for column in (above, below))
    if not under.sum():
        return Interval(float("nan"))
    ratio = float(over.sum() / under.sum())
    if not settings.resamples:
        return Interval(ratio)
    return t_interval(ratio, (over - ratio * under) / under.sum(), np.ones(count), settings.confidence)


def groups_won(wins: Column, groups: Indices) -> tuple[int, int]:
    """Count the groups of captions whose mean win (0 to 1) is above 1/2, and those below; the others are ties."""
    lead = np.bincount(groups, np.sign(wins - 0.5))
    return int((lead > 0).sum()), int((lead < 0).sum())


def sign_test(won: int, lost: int) -> float:
    """Compute the exact two-sided p value of the sign test, from numbers won and lost; 1 where both are 0.

    >>> sign_test(5, 0)
    0.0625
    """
    return float(min(1.0, 2 * bdtr(min(won, lost), won + lost, 0.5)))
