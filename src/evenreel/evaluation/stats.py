"""Significance tests and bootstrap samples where the captions of one clip are not independent.

Clips are drawn, swapped and ranked, never single captions: twenty captions of one clip are one piece of evidence.

Sources: Efron 1979 (bootstrap, percentile interval); Fisher 1935 and Smucker, Allan and Carterette 2007 (paired
randomisation in retrieval); Phipson and Smyth 2010 (why p counts the observed arrangement too); Wilcoxon 1945; Holm
1979.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column
from evenreel.errors import UsageError
from evenreel.evaluation.metrics import Metric, PerQuery
from evenreel.evaluation.settings import EvaluationSettings

if TYPE_CHECKING:
    from scipy import sparse

_CHUNK_BYTES = 32 * 2**20
_ROUNDING, _DECIMALS = 1e-9, 9
"""Two statistics nearer than this share of their size are equal: they differ by the order of a sum."""

_EXACT = 100
"""Groups up to which signed ranks are tested exactly, in at most as many steps of 10,101 additions."""


class GroupedColumns:
    """Per-query values of one system, grouped for resampling: a sample says how often each of G groups counts."""

    def __init__(self, per_query: PerQuery, groups: NDArray[np.int64]) -> None:
        self.member, self.count = numbered(groups)
        self._per_query = per_query
        self._sums: dict[str, tuple[Column, Column]] = {}
        self._values: dict[str, tuple[Column, sparse.csr_array]] = {}

    def figure(self, metric: Metric, times: Column) -> Column:
        """Compute the figures (B,) of a metric on B samples.

        Args:
            metric: metric to compute.
            times: (B, G) how often each group counts in each sample.
        """
        if metric.is_of_means:
            return metric.of_means([self._mean(column, times) for column in metric.columns])
        (column,) = metric.columns
        values, held = self._distinct(column)
        return metric.summary({column: values}, times @ held)

    def _mean(self, name: str, times: Column) -> Column:
        """A group's sum and number of known queries are all that a mean needs of it."""
        if name not in self._sums:
            member, values = self._known(name)
            known = np.bincount(member, minlength=self.count).astype(np.float64)
            self._sums[name] = np.bincount(member, values, self.count).astype(np.float64), known
        total, known = self._sums[name]
        with np.errstate(invalid="ignore"):  # a sample without any known query has no mean
            return np.asarray(times @ total / (times @ known), dtype=np.float64)

    def _distinct(self, name: str) -> tuple[Column, sparse.csr_array]:
        """(U,) distinct values, and how many times each group has each: (G, U)."""
        from scipy import sparse

        if name not in self._values:
            member, every = self._known(name)
            values, which = np.unique(every, return_inverse=True)
            held = sparse.csr_array((np.ones(len(member)), (member, which)), shape=(self.count, len(values)))
            self._values[name] = values, held
        return self._values[name]

    def _known(self, name: str) -> tuple[NDArray[np.intp], Column]:
        values = self._per_query[name]
        known = ~np.isnan(values)
        return self.member[known], values[known]


def sampled_figures(
    metrics: Sequence[Metric], systems: Sequence[GroupedColumns], settings: EvaluationSettings
) -> dict[str, NDArray[np.float64]]:
    """Compute the figures (S, B) of S systems on the same B bootstrap samples, by the metric's name."""
    drawn: dict[str, list[NDArray[np.float64]]] = {str(metric): [] for metric in metrics}
    first = systems[0]
    for times in _resampled_groups(first.count, len(first.member), settings.resamples, settings.seed):
        for metric in metrics:
            drawn[str(metric)].append(np.stack([system.figure(metric, times) for system in systems]))
    return {word: np.concatenate(parts, axis=1) for word, parts in drawn.items()}


def percentile_ends(drawn: Column, confidence: float) -> tuple[float, float] | tuple[None, None]:
    """Return the ends of the middle share (`confidence`) of sampled figures, leaving out NaN; None if all are NaN.

    >>> percentile_ends(np.arange(101.0), 0.5)
    (25.0, 75.0)
    """
    known = drawn[~np.isnan(drawn)]
    if len(known) == 0:
        return None, None
    outside = (1 - confidence) / 2
    low, high = np.quantile(known, [outside, 1 - outside])
    return float(low), float(high)


def resampled_weights(groups: NDArray[np.int64], resamples: int, seed: int) -> Iterator[Column]:
    """Yield bootstrap weights (b, n), a batch at a time: how often each of n queries is drawn, with its whole group.

    There are `resamples` rows in all. Each sample draws as many groups as there are, so samples of unequal groups
    differ in their number of queries.
    """
    member, count = numbered(groups)
    for times in _resampled_groups(count, len(member), resamples, seed):
        yield times[:, member]


def _resampled_groups(count: int, queries: int, resamples: int, seed: int) -> Iterator[Column]:
    """How many times each of `count` groups is drawn, (b, count) at a time, so few that (b, queries) fits too."""
    generator = np.random.default_rng(seed)
    for rows in _chunks(resamples, max(queries, count)):
        picks = generator.integers(0, count, size=(rows, count))
        picks += np.arange(rows)[:, None] * count
        yield np.bincount(picks.ravel(), minlength=rows * count).reshape(rows, count).astype(np.float64)


def randomisation_test(
    metric: Metric, first: PerQuery, second: PerQuery, groups: NDArray[np.int64], settings: EvaluationSettings
) -> float:
    """Compute the two-sided p value of the paired randomisation test of two systems on the same queries.

    If the systems were alike, exchanging their answers to all queries of a group would change nothing. p is the share
    of arrangements whose difference is at least the observed one: of all, where there are at most `settings.resamples`
    of them, else (1 + hits) / (1 + B) of B drawn at random. It needs no more than the metric's figure, so it serves
    medians as much as means.

    Args:
        metric: metric to compare.
        first: (n,) columns of one system.
        second: (n,) columns of the other, in the same order of queries.
        groups: (n,) whole numbers, equal for queries that are swapped together.
        settings: settings with `resamples` and `seed`.
    """
    differs = np.any([~same(first[name], second[name]) for name in metric.columns], axis=0)
    if not differs.any():
        return 1.0
    member, every = numbered(groups)
    both = GroupedColumns(
        {name: np.concatenate([first[name], second[name]]) for name in metric.columns},
        np.concatenate([member, member + every]),
    )
    # Swapping a group that both systems answer alike changes nothing: only the others make arrangements.
    swappable = np.unique(member[differs])
    observed = abs(_difference(metric, both, np.zeros((1, every))))[0]
    hits = total = 0
    for flips in _arrangements(len(swappable), len(groups), settings):
        swapped = np.zeros((len(flips), every))
        swapped[:, swappable] = flips
        found = abs(_difference(metric, both, swapped))
        hits += int((found >= observed * (1 - _ROUNDING)).sum())
        total += len(flips)
    exact = 2 ** len(swappable) <= settings.resamples
    return hits / total if exact else (1 + hits) / (1 + total)


def same(first: Column, second: Column) -> NDArray[np.bool_]:
    """Mark where the values (n,) of two systems are equal but for rounding, or both NaN."""
    return np.isclose(first, second, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)


def _difference(metric: Metric, both: GroupedColumns, swapped: Column) -> Column:
    """(2n,) columns of two systems, one after the other, and (b, G) swaps, 0 or 1 -> (b,) differences."""
    kept = 1 - swapped
    ones, others = np.hstack([kept, swapped]), np.hstack([swapped, kept])
    return np.asarray(both.figure(metric, others) - both.figure(metric, ones))


def _arrangements(count: int, queries: int, settings: EvaluationSettings) -> Iterator[NDArray[np.bool_]]:
    """(b, count) swaps: every one if they are few, else drawn ones."""
    generator = np.random.default_rng(settings.seed)
    exact = 2**count <= settings.resamples
    done = 0
    for rows in _chunks(2**count if exact else settings.resamples, 4 * queries):
        if exact:
            yield (np.arange(done, done + rows)[:, None] >> np.arange(count)) % 2 == 1
        else:
            yield generator.integers(0, 2, size=(rows, count), dtype=np.int8) == 1
        done += rows


def wilcoxon_test(differences: Column, groups: NDArray[np.int64]) -> float:
    """Compute the two-sided p value of Wilcoxon's signed-rank test over the mean differences of groups.

    It is 1 where no group differs. Differences that are NaN do not count, nor do groups that do not differ. Equal sizes
    share their mean rank. Up to `_EXACT` groups p is exact, beyond that by the normal approximation.

    >>> wilcoxon_test(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.arange(5))
    0.0625
    """
    known = ~np.isnan(differences)
    if not known.any():
        return 1.0
    member, count = numbered(groups[known])
    means = np.bincount(member, differences[known], count) / np.bincount(member, minlength=count)
    means = np.round(means, _DECIMALS)  # what is equal but for rounding is equal
    means = means[means != 0]
    if not len(means):
        return 1.0
    if len(means) <= _EXACT:
        return _signed_ranks(means)
    from scipy.stats import wilcoxon

    return float(wilcoxon(means, method="asymptotic").pvalue)


def _signed_ranks(differences: Column) -> float:
    """Exact two-sided p: the chances of all rank sums are the coefficients of the product of (1 + x^rank) / 2."""
    _, place, times = np.unique(np.abs(differences), return_inverse=True, return_counts=True)
    doubled = (2 * np.cumsum(times) - times + 1)[place]  # twice the mean rank of equals, which may be a half
    chances = np.zeros(int(doubled.sum()) + 1)
    chances[0] = 1.0
    for rank in doubled:
        chances[rank:] = (chances[rank:] + chances[:-rank]) / 2
        chances[:rank] /= 2
    found = int(doubled[differences > 0].sum())
    return float(min(1.0, 2 * min(chances[: found + 1].sum(), chances[found:].sum())))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values for multiple tests by Holm's method (1979), in the order given.

    The smallest is multiplied by their number, the next by one less, and so on; none becomes smaller than one before
    it.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def numbered(groups: NDArray[np.int64]) -> tuple[NDArray[np.intp], int]:
    """Renumber the groups (n,) of queries from 0; return their numbers and how many groups there are.

    Raises:
        UsageError: there are no queries.
    """
    if len(groups) == 0:
        raise UsageError("There is no query to draw from; statistics need at least one.")
    names, member = np.unique(groups, return_inverse=True)
    return member.astype(np.intp), len(names)


def _chunks(total: int, width: int) -> Iterator[int]:
    """Numbers of rows that sum to `total`, each so small that a few arrays of it fit the memory set aside."""
    most = max(1, _CHUNK_BYTES // (8 * width))
    for start in range(0, total, most):
        yield min(most, total - start)
