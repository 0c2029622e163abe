"""Intervals and tests from samples of a world without a preference: turned around, and counted."""

from __future__ import annotations

import numpy as np

from evenreel.audits.deltas import Figures
from evenreel.audits.result import AuditSettings
from evenreel.evaluation.results import Interval
from evenreel.evaluation.stats import percentile_ends

_ROUNDING = 1e-9


def inverted_interval(
    drawn: Figures, settings: AuditSettings, neutral: float = 0.0, ends: tuple[float, float] = (-np.inf, np.inf)
) -> Interval:
    """A measured figure with the interval of all true values that samples around them would be compatible with.

    Args:
        drawn: (1 + B,) the figure as measured, then of B samples in which it is `neutral` on average.
        settings: the confidence.
        neutral: the value without a preference.
        ends: between which values the figure lies whatever is measured.

    >>> inverted_interval(np.array([5.0, *range(-50, 51)]), AuditSettings(confidence=0.5), ends=(-15, 40))
    Interval(value=5.0, low=-15.0, high=30.0)
    """
    value = float(drawn[0])
    low, high = percentile_ends(drawn[1:] - neutral, settings.confidence)
    if low is None or high is None:
        return Interval(value)
    return Interval(value, float(max(value - high, ends[0])), float(min(value - low, ends[1])))


def exchange_test(drawn: Figures, neutral: float = 0.0) -> float | None:
    """Two-sided p of (1 + B,) figures: how many lie as far from neutral as the measured one; None without samples.

    >>> exchange_test(np.array([3.0, -3.0, 1.0, 0.5]))
    0.5
    """
    if len(drawn) < 2:
        return None
    apart = np.abs(drawn - neutral)
    return float((apart >= apart[0] * (1 - _ROUNDING)).mean())
