"""Figures of pairs on the same bootstrap samples, and how often one of a pair stands above the other.

Sources: Efron 1979 (bootstrap, percentile interval); Hanley and McNeil 1982 (AUC as the chance of a larger score);
Dixon and Mood 1946 (sign test).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from evenreel.audits.deltas import LOCATION_METRICS, Figures
from evenreel.audits.result import AuditSettings
from evenreel.evaluation.metrics import PerQuery
from evenreel.evaluation.results import EvaluationSettings, Interval
from evenreel.evaluation.stats import Columns, percentile_ends, resampled_weights, sampled_figures

Groups = NDArray[np.int64]
Drawn = dict[str, Figures]
"""(1 + B,) figures by their words: as measured first, then of each of B samples."""


def drawn_figures(rows: Mapping[str, PerQuery], groups: Groups, settings: AuditSettings) -> dict[str, Drawn]:
    """`LOCATION_METRICS` of each row, all on the same samples of groups.

    Args:
        rows: (Q,) columns of each, see `evenreel.evaluation.first_hit.hit_columns`.
        groups: (Q,) numbers, equal for queries that are drawn together.
        settings: `resamples` (0 for none) and `seed`.
    """
    measured = {
        row: {str(metric): metric.summary(columns) for metric in LOCATION_METRICS} for row, columns in rows.items()
    }
    if not settings.resamples:
        return measured
    systems = [Columns(columns, groups) for columns in rows.values()]
    wanted = EvaluationSettings(resamples=settings.resamples, seed=settings.seed)
    samples = sampled_figures(LOCATION_METRICS, systems, wanted)
    return {
        row: {word: np.concatenate([one, samples[word][place]]) for word, one in figures.items()}
        for place, (row, figures) in enumerate(measured.items())
    }


def interval_of(drawn: Figures, settings: AuditSettings) -> Interval:
    """(1 + B,) as measured and of each sample -> the figure with its percentile interval."""
    return Interval(float(drawn[0]), *percentile_ends(drawn[1:], settings.confidence))


def mean_interval(values: Figures, groups: Groups, settings: AuditSettings) -> Interval:
    """The mean of (Q,) values, of those that are known (not NaN); at least one is."""
    (found,) = mean_intervals(values[None], groups, settings)
    return found


def mean_intervals(values: Figures, groups: Groups, settings: AuditSettings) -> list[Interval]:
    """The means of (C, Q) columns, of what is known (not NaN) in each, on the same samples; NaN where nothing is."""
    known = ~np.isnan(values)
    return ratio_intervals(np.where(known, values, 0.0), known.astype(np.float64), groups, settings)


def ratio_intervals(above: Figures, below: Figures, groups: Groups, settings: AuditSettings) -> list[Interval]:
    """Ratios of the sums of (C, Q) columns, all on the same samples; NaN where the sum below is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):  # a sample without a known value has no ratio
        parts = [(above.sum(axis=1) / below.sum(axis=1))[None]]
        parts += [(times @ above.T) / (times @ below.T) for times in _samples(groups, settings)]
    return [interval_of(drawn, settings) for drawn in np.concatenate(parts).T]


def auc_interval(first: NDArray[Any], second: NDArray[Any], groups: Groups, settings: AuditSettings) -> Interval:
    """Chance in percent that one of (Q,) first scores is above one of (Q,) second scores, ties half."""
    order = np.argsort(second)
    below, upto = (np.searchsorted(second[order], first, side) for side in ("left", "right"))

    def chances(times: Figures) -> Figures:
        """(B, Q) times that each query counts -> (B,)."""
        before = np.cumsum(np.pad(times[:, order], ((0, 0), (1, 0))), axis=1)
        beaten = (before[:, below] + before[:, upto]) / 2
        return np.asarray(100 * (times * beaten).sum(axis=1) / times.sum(axis=1) ** 2)

    parts = [chances(np.ones((1, len(first)))), *map(chances, _samples(groups, settings))]
    return interval_of(np.concatenate(parts), settings)


def groups_won(wins: Figures, groups: Groups) -> tuple[int, int]:
    """In how many groups most of the (Q,) wins, 0 to 1, are above 1/2, and in how many below; the others are tied."""
    lead = np.bincount(groups, np.sign(wins - 0.5))
    return int((lead > 0).sum()), int((lead < 0).sum())


def sign_test(won: int, lost: int) -> float:
    """Two-sided exact p that winning and losing are as likely; 1 where there was neither.

    >>> sign_test(5, 0)
    0.0625
    """
    return float(min(1.0, 2 * bdtr(min(won, lost), won + lost, 0.5)))


def _samples(groups: Groups, settings: AuditSettings) -> Iterable[Figures]:
    """(b, Q) times that each query counts, some samples at a time."""
    return resampled_weights(groups, settings.resamples, settings.seed) if settings.resamples else ()
