"""Means and medians of values of queries, of which some count several times and some are unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def mean_of(group: NDArray[np.int64], values: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """Compute the mean value of each group, leaving out NaN: (groups,); NaN for a group without values.

    Args:
        group: (m,) group of each value, from 0.
        values: (m,) values.
        groups: number of groups.
    """
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        sums = np.bincount(group[known], values[known], minlength=groups)
        return np.asarray(sums / np.bincount(group[known], minlength=groups), dtype=np.float64)


def weighted_mean(values: NDArray[np.float64], weights: NDArray[Any]) -> NDArray[np.float64]:
    """Compute the mean of values (n,), leaving out NaN, for each of B rows of counts (B, n); NaN without values."""
    values, weights = _known(values, weights)
    with np.errstate(invalid="ignore"):  # a sample without any known query has no mean
        return np.asarray(weights @ values / weights.sum(axis=1), dtype=np.float64)


def weighted_median(values: NDArray[np.float64], weights: NDArray[Any]) -> NDArray[np.float64]:
    """Compute the median of values (n,), leaving out NaN, for each of B rows of counts (B, n); NaN without values.

    It is the middle value, or the mean of the two in the middle.
    """
    values, weights = _known(values, weights)
    order = np.argsort(values)
    ordered = np.append(values[order], np.nan)  # what a sample without any known query gets
    reached = np.cumsum(weights[:, order], axis=1)
    half = reached[:, -1:] / 2
    upper = (reached <= half).sum(axis=1)
    lower = np.where(upper < len(values), (reached < half).sum(axis=1), upper)
    return np.asarray((ordered[lower] + ordered[upper]) / 2, dtype=np.float64)


def _known(values: NDArray[np.float64], weights: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Leave out queries whose value is NaN; a copy only where there is one, which is rare."""
    known = ~np.isnan(values)
    return (values, weights) if known.all() else (values[known], weights[:, known])
