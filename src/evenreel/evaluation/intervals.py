"""Intervals of figures and of differences, over groups of queries that are drawn together.

A figure is a mean over queries, or made of such means, so its variance follows from what each group of queries adds to
it (linearisation), and the ends from a form that fits what the queries' values are:

- counts of hits: the score interval of Wilson 1927, with the degrees of freedom that the groups have;
- graded values (MRR, nDCG, mAP, R@k of several captions a group): the transformation of Hall 1992, which allows for
  skewness, cut to the range; where all values are equal, Wilson's with as many queries as there are groups;
- the mean rank: Hall's, its upper end from the queries and one more that is half as bad again as the worst group;
- the median: percentiles of bootstrap samples (Efron 1979);
- a geometric mean of recalls: geometric means of their ends;
- differences of two systems: Student's t over groups, those of hits with one more query for and one against
  (Bonett and Price 2012), so that systems which never differ still have an interval.

Groups of unequal size count as fewer: the degrees of freedom are one less than the effective number of groups,
(sum of sizes)^2 / sum of squared sizes. What all of this covers, `benchmarks/coverage.py` prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from evenreel.evaluation.metrics import FIRST_RANK, Metric, PerQuery
from evenreel.evaluation.results import EvaluationSettings, Interval
from evenreel.evaluation.stats import Columns, numbered, percentile_ends, sampled_figures

Vector = NDArray[np.float64]

_WORSE = 1.5
"""How many times as bad as the worst group seen one more may be, for the upper end of a mean rank."""

_FLAT = 1e-12
"""Values whose standard error is below this share of their range are all equal but for rounding."""


@dataclass(frozen=True, eq=False)
class GroupedMean:
    """A mean over n queries in G groups, with what each group adds to it.

    Attributes:
        value: the mean.
        sums: (G,) sums of the values of each group's queries.
        sizes: (G,) how many queries each group has.
        counts: whether each group is one query and each value 0 or the largest there can be.
    """

    value: float
    sums: Vector
    sizes: Vector
    counts: bool = False

    @classmethod
    def of(cls, values: Vector, groups: NDArray[np.int64], most: float = 100.0) -> GroupedMean:
        """The mean of (n,) values, of those that are known (not NaN).

        Args:
            values: of the queries; at least one is known.
            groups: (n,) whole numbers, equal for queries that are drawn together.
            most: the largest value there can be, of hits.
        """
        known = ~np.isnan(values)
        values = values[known]
        member, count = numbered(groups[known])
        sums = np.bincount(member, values, count).astype(np.float64)
        whole = bool(((values == 0) | (values == most)).all()) and count == len(values)
        return cls(float(values.mean()), sums, np.bincount(member, minlength=count).astype(np.float64), whole)

    @property
    def parts(self) -> Vector:
        """(G,) what each group adds to the mean less its expectation; they sum to 0."""
        return np.asarray((self.sums - self.value * self.sizes) / self.sizes.sum())

    @property
    def variance(self) -> float:
        """Of the mean, from what the groups add; there are at least two."""
        return _error(self.parts) ** 2

    def with_one_more(self, value: float, times: int = 1) -> GroupedMean:
        """The same with another group of average size, `times` of them, whose queries have that value."""
        size = self.sizes.mean()
        sums = np.append(self.sums, [value * size] * times)
        sizes = np.append(self.sizes, [size] * times)
        return GroupedMean(float(sums.sum() / sizes.sum()), sums, sizes)


def figure_intervals(
    per_query: PerQuery, groups: NDArray[np.int64], settings: EvaluationSettings, gallery_size: int
) -> dict[str, Interval]:
    """Each metric's figure with its interval, by its word.

    Args:
        per_query: (n,) columns that the metrics read, shares in percent.
        groups: (n,) whole numbers, equal for queries that are drawn together.
        settings: `metrics` and `confidence`; `resamples` and `seed` of the samples for medians, 0 for no interval.
        gallery_size: the largest rank there is.
    """
    if not settings.resamples:
        return {str(metric): Interval(float(metric.summary(per_query)[0])) for metric in settings.metrics}
    return {
        str(metric): figure_interval(metric, per_query, groups, settings.confidence, gallery_size)
        if metric.is_of_means
        else _sampled(metric, per_query, groups, settings)
        for metric in settings.metrics
    }


def _sampled(metric: Metric, per_query: PerQuery, groups: NDArray[np.int64], settings: EvaluationSettings) -> Interval:
    """Percentiles of the figure over samples of groups."""
    (drawn,) = sampled_figures([metric], [Columns(per_query, groups)], settings)[str(metric)]
    return Interval(float(metric.summary(per_query)[0]), *percentile_ends(drawn, settings.confidence))


def figure_interval(
    metric: Metric, per_query: PerQuery, groups: NDArray[np.int64], confidence: float, gallery_size: int
) -> Interval:
    """The figure of any metric but the median, which has no variance of this kind, with its interval.

    Args:
        metric: whose figure is meant.
        per_query: (n,) columns that it reads, shares in percent.
        groups: (n,) whole numbers, equal for queries that are drawn together.
        confidence: of the interval.
        gallery_size: the largest rank there is.

    Returns:
        Without ends where there are fewer than two groups.
    """
    means = [GroupedMean.of(per_query[column], groups) for column in metric.columns]
    value = float(metric.summary(per_query)[0])
    (first, *others) = means
    if len(first.sizes) < 2:
        return Interval(value)
    if metric.name == "R" and isinstance(metric.cutoff, int) and metric.cutoff >= gallery_size and value == 100:
        return Interval(value, value, value)  # whatever is asked, the answer is among all there are
    if metric.columns == (FIRST_RANK,):
        return _rank_interval(first, confidence, float(gallery_size))
    if not others:
        return share_interval(first, confidence)
    if metric.name == "GeoR":
        return _geometric(value, [share_interval(mean, confidence) for mean in means])
    parts = np.sum([mean.parts for mean in means], axis=0)
    return _graded(value, parts, first.sizes, confidence, 100.0 * len(means))


def _geometric(value: float, recalls: Sequence[Interval]) -> Interval:
    """Geometric means of the ends: the recalls of one ranking rise and fall together, so their ends do."""
    low, high = (float(np.cbrt(np.prod([getattr(one, end) for one in recalls]))) for end in ("low", "high"))
    return Interval(value, min(low, value), max(high, value))


def share_interval(mean: GroupedMean, confidence: float, most: float = 100.0) -> Interval:
    """The mean of values from 0 to `most` with its interval, which stays within that range; no ends for one group."""
    if len(mean.sizes) < 2:
        return Interval(mean.value)
    if mean.counts:
        return _wilson(mean.value, mean.parts, mean.sizes, confidence, most)
    return _graded(mean.value, mean.parts, mean.sizes, confidence, most)


def mean_interval(mean: GroupedMean, confidence: float) -> Interval:
    """The mean of values without a range, with Student's interval over groups; without ends for fewer than two."""
    return t_interval(mean.value, mean.parts, mean.sizes, confidence)


def t_interval(value: float, parts: Vector, sizes: Vector, confidence: float) -> Interval:
    """A figure with Student's interval.

    Args:
        value: the figure.
        parts: (G,) what each group adds to it less its expectation.
        sizes: (G,) how much each group counts.
        confidence: of the interval.

    The mean of 4, 5 and 6 has the standard error 1 / sqrt(3) and two degrees of freedom, so 4.3027 of them either way:

    >>> found = t_interval(5.0, np.array([-1.0, 0.0, 1.0]) / 3, np.ones(3), 0.95)
    >>> round(found.low, 3), round(found.high, 3)
    (2.516, 7.484)
    """
    if len(parts) < 2:
        return Interval(value)
    reach = _quantile(sizes, confidence) * _error(parts)
    return Interval(value, value - reach, value + reach)


def difference_interval(
    metric: Metric, first: PerQuery, second: PerQuery, groups: NDArray[np.int64], confidence: float
) -> Interval:
    """The second system's figure less the first's, of any metric but the median, with its interval.

    Args:
        metric: whose figure is compared.
        first: (n,) columns of one system.
        second: (n,) columns of the other, in the same order of queries.
        groups: (n,) whole numbers, equal for queries that are drawn together.
        confidence: of the interval.
    """
    sides = [[GroupedMean.of(one[column], groups) for column in metric.columns] for one in (first, second)]
    values = [float(metric.summary(one)[0]) for one in (first, second)]
    difference = values[1] - values[0]
    sizes = sides[0][0].sizes
    if len(sizes) < 2:
        return Interval(difference)
    if metric.name == "GeoR":
        found = _geometric_difference(sides, confidence)
    else:
        sums = np.sum([mean.sums for mean in sides[1]], axis=0) - np.sum([mean.sums for mean in sides[0]], axis=0)
        mean = GroupedMean(float(sums.sum() / sizes.sum()), sums, sizes)
        if metric.name in ("R", "Rsum"):
            mean = _with_one_each_way(mean)
        found = mean_interval(mean, confidence)
    low, high = found.low, found.high
    if metric.higher_is_better and low is not None and high is not None:
        most = 100.0 * len(metric.columns) if metric.name == "Rsum" else 100.0
        low, high = max(low, -most), min(high, most)
    return Interval(
        difference, low if low is None else min(low, difference), high if high is None else max(high, difference)
    )


def _with_one_each_way(mean: GroupedMean) -> GroupedMean:
    return mean.with_one_more(100.0).with_one_more(-100.0)


def _geometric_difference(sides: Sequence[Sequence[GroupedMean]], confidence: float) -> Interval:
    """Of geometric means, by what each group adds to their logarithms, with one query more that hits and one without.

    A recall of 0 has no logarithm, and with very few hits what one of them adds is beyond any approximation.
    """
    values, parts = [], []
    for means in sides:
        more = [mean.with_one_more(100.0).with_one_more(0.0) for mean in means]
        values.append(float(np.cbrt(np.prod([mean.value for mean in more]))))
        parts.append(values[-1] / len(more) * np.sum([mean.parts / mean.value for mean in more], axis=0))
    return t_interval(values[1] - values[0], parts[1] - parts[0], more[0].sizes, confidence)


def _rank_interval(mean: GroupedMean, confidence: float, worst: float) -> Interval:
    """A mean rank: a few queries that fail badly make most of it, and those drawn may lack them."""
    low, _ = _hall(mean.value, mean.parts, mean.sizes, confidence)
    next_one = mean.with_one_more(min(_WORSE * float((mean.sums / mean.sizes).max()), worst))
    highs = [_hall(one.value, one.parts, one.sizes, confidence)[1] for one in (mean, next_one)]
    return Interval(mean.value, max(1.0, low), min(max(highs), worst))


def _graded(value: float, parts: Vector, sizes: Vector, confidence: float, most: float) -> Interval:
    if _error(parts) <= _FLAT * most:
        return _wilson(value, parts, sizes, confidence, most)
    low, high = _hall(value, parts, sizes, confidence)
    return Interval(value, max(0.0, low), min(high, most))


def _wilson(value: float, parts: Vector, sizes: Vector, confidence: float, most: float) -> Interval:
    """Wilson's interval of a share of as many queries as would have the same variance, were they independent."""
    share, error, reach = value / most, _error(parts) / most, _quantile(sizes, confidence)
    queries = share * (1 - share) / error**2 if error > _FLAT else _effective(sizes)
    spread = reach**2 / queries
    centre = (share + spread / 2) / (1 + spread)
    half = float(np.sqrt(spread * share * (1 - share) + spread**2 / 4)) / (1 + spread)
    return Interval(value, most * max(0.0, min(centre - half, share)), most * min(1.0, max(centre + half, share)))


def _hall(value: float, parts: Vector, sizes: Vector, confidence: float) -> tuple[float, float]:
    """Ends by Hall's cubic transformation of the studentised mean, which takes its skewness out."""
    groups, error = len(parts), _error(parts)
    reach = _quantile(sizes, confidence) / groups**0.5
    if error == 0:
        return value, value
    skewness = float((parts**3).mean() / (parts**2).mean() ** 1.5)
    if abs(skewness) < 1e-6:  # the transformation's limit is Student's interval
        return value - reach * groups**0.5 * error, value + reach * groups**0.5 * error
    steps = [3 / skewness * (np.cbrt(1 + skewness * (end - skewness / (6 * groups))) - 1) for end in (reach, -reach)]
    low, high = (value - groups**0.5 * error * float(step) for step in steps)
    return low, high


def _error(parts: Vector) -> float:
    """Standard error from what each group adds."""
    return float(np.sqrt((parts**2).sum() * len(parts) / (len(parts) - 1)))


def _quantile(sizes: Vector, confidence: float) -> float:
    return float(stdtrit(max(_effective(sizes) - 1, 1.0), (1 + confidence) / 2))


def _effective(sizes: Vector) -> float:
    """How many groups of equal size have a mean as sure as those of unequal size."""
    return float(sizes.sum() ** 2 / (sizes**2).sum())
