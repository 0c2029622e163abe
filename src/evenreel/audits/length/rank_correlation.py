"""Partial rank correlation of two columns given others, with an interval by resampling groups.

Spearman 1904 (correlation of ranks), Kendall 1942 (partial rank correlation), Efron 1979 (bootstrap; the ranks are made
anew in every sample).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from evenreel.arrays import Column
from evenreel.audits.settings import AuditSettings
from evenreel.evaluation.intervals import percentile_ends, resampled_weights
from evenreel.report.result import Effect

_ROUNDING = 1e-9
"""Less than this share of a column's variance is rounding."""


def rank_correlation(
    columns: Sequence[Column], groups: NDArray[np.int64], settings: AuditSettings, name: str
) -> Effect:
    """Compute the partial rank correlation of the first two columns (n,) given the others, with interval and p value.

    The interval is of percentiles of samples; p is twice the smaller share of samples on either side of 0, the measured
    value included.

    Args:
        columns: at least two, without NaN; those from the third on are held constant.
        groups: (n,) group of each row; rows of one are resampled together.
        settings: `resamples` (0 for no interval), `seed` and `confidence`.
        name: name of the effect.

    Returns:
        The correlation as an effect; NaN where a column is constant given the others.
    """
    known = [np.unique(column, return_inverse=True) for column in columns]
    places = [_value_matrix(member, len(values)) for values, member in known]
    value = float(_partial(places, np.ones((1, len(groups))))[0]) if len(groups) else float("nan")
    if not settings.resamples or np.isnan(value):
        return Effect(name, value)
    drawn = np.concatenate(
        [_partial(places, times) for times in resampled_weights(groups, settings.resamples, settings.seed)]
    )
    drawn = drawn[~np.isnan(drawn)]
    p = min(1.0, 2 * (1 + min((drawn <= 0).sum(), (drawn >= 0).sum())) / (1 + len(drawn)))
    low, high = percentile_ends(drawn, settings.confidence)
    return Effect(name, value, low, high, p_value=float(p))


def _value_matrix(member: NDArray[np.intp], count: int) -> sparse.csr_array:
    """(n, U), 1 where a row has the value; values ascend."""
    return sparse.csr_array((np.ones(len(member)), (np.arange(len(member)), member)), shape=(len(member), count))


def _partial(places: Sequence[sparse.csr_array], times: Column) -> Column:
    """(B, n) times that each row counts -> (B,) correlations of the first two columns given the others."""
    ranks = np.stack([_ranks(place, times) for place in places], axis=1)
    total = times.sum(axis=1)
    ranks -= ((ranks * times[:, None]).sum(axis=2) / total[:, None])[:, :, None]
    products = np.matmul(ranks * times[:, None], ranks.transpose(0, 2, 1)) / total[:, None, None] ** 3
    both, given = products[:, :2, :2], products[:, 2:, 2:]
    shared = products[:, :2, 2:]
    left = both - shared @ np.linalg.pinv(given, rcond=_ROUNDING, hermitian=True) @ shared.transpose(0, 2, 1)
    variances = np.diagonal(left, axis1=1, axis2=2)
    told = np.asarray((variances > _ROUNDING).all(axis=1))
    return np.where(told, left[:, 0, 1] / np.sqrt(np.where(told[:, None], variances, 1.0).prod(axis=1)), np.nan)


def _ranks(place: sparse.csr_array, times: Column) -> Column:
    """(B, n) mean ranks among equals, from the (n, U) places of the values."""
    held = times @ place
    upto = np.cumsum(held, axis=1)
    return np.asarray((upto - held / 2).take(place.indices, axis=1))
