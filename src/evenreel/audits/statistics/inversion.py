"""Intervals and tests of a figure from samples of rankings without a preference, by inversion."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from evenreel.audits.settings import AuditSettings
from evenreel.audits.statistics.deltas import Figures
from evenreel.evaluation.intervals import Interval, around, percentile_ends, wilson

_ROUNDING = 1e-9


def inverted_interval(
    drawn: Figures, settings: AuditSettings, neutral: float = 0.0, ends: tuple[float, float] = (-np.inf, np.inf)
) -> Interval:
    """Compute the interval of a measured figure by inverting a test: the true values compatible with neutral samples.

    Args:
        drawn: (1 + B,) the figure as measured, then in B samples without a preference, in which it is `neutral` on
            average.
        settings: settings with the confidence.
        neutral: value without a preference.
        ends: least and greatest value that the figure can have.

    >>> inverted_interval(np.array([5.0, *range(-50, 51)]), AuditSettings(confidence=0.5), ends=(-15, 40))
    Interval(value=5.0, low=-15.0, high=30.0)
    """
    value = float(drawn[0])
    low, high = percentile_ends(drawn[1:] - neutral, settings.confidence)
    if low is None or high is None:
        return Interval(value)
    return around(value, value - high, value - low, ends)


def inverted_share(drawn: Figures, settings: AuditSettings, neutral: float) -> Interval:
    """Compute the interval of a measured share of first places, from samples without a preference.

    The samples' variance gives the number of independent places, each taken with the probability `neutral`. The
    interval is Wilson's (1927) for that number, so that a single clip which takes all places counts as one place.

    Args:
        drawn: (1 + B,) the share in percent as measured, then in B samples without a preference.
        settings: settings with the confidence.
        neutral: share without a preference, in percent.

    Of 400 places each is taken by chance in 20 of 100, so a share of them has a standard error of 2:

    >>> found = inverted_share(np.array([50.0, 18.0, 22.0]), AuditSettings(), 20.0)
    >>> round(found.low, 1), round(found.high, 1)
    (45.1, 54.9)
    """
    value, share = float(drawn[0]), neutral / 100
    spread = float(((drawn[1:] - neutral) ** 2).mean()) / 100**2 if len(drawn) > 1 else 0.0
    if not spread:
        return Interval(value)
    places = share * (1 - share) / spread
    return wilson(value, places, float(stdtrit(max(places - 1, 1.0), (1 + settings.confidence) / 2)))


def exchange_test(drawn: Figures, neutral: float = 0.0) -> float | None:
    """Compute the two-sided p value of a measured figure from samples without a preference; None without samples.

    It is twice the share of samples at or beyond the measured figure on its side, so that test and interval agree where
    samples are skewed.

    Args:
        drawn: (1 + B,) the figure as measured, then in B samples.
        neutral: value without a preference.

    >>> exchange_test(np.array([3.0, -3.0, 1.0, 0.5]))
    0.5
    """
    if len(drawn) < 2:
        return None
    apart = drawn - neutral
    rounding = _ROUNDING * abs(apart[0])
    beyond = min((apart >= apart[0] - rounding).mean(), (apart <= apart[0] + rounding).mean())
    return float(min(1.0, 2 * beyond))
