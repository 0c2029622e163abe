"""Confidence intervals of figures and of differences, and tests, over groups of queries that are resampled together.

Captions of one clip are no independent evidence, nor are clips of one video, which share its place, light and people:
with a correlation of only 0.02 within a video, an interval over single clips holds the truth in 70 % of cases instead
of 95 % for the 9,668 clips of the 138 test videos of EPIC-KITCHENS-100 (`benchmarks/coverage.py`). So groups are drawn,
swapped and ranked, never single captions.

A figure is a mean over queries, or made of such means, so its variance follows from what each group of queries adds to
it (linearisation), and the ends from a form that fits what the queries' values are:

- hits: the score interval of Wilson 1927, of as many queries as would have the same variance, were they independent; of
  several queries a group the wider of this and Hall's, at either end;
- graded values (MRR, nDCG, mAP): the transformation of Hall 1992, which allows for skewness, cut to the range; where
  all values are equal, Wilson's with as many queries as there are groups;
- the mean rank: Hall's, its upper end from the groups and one more that is half as bad again as the worst;
- the median: percentiles of bootstrap samples (Efron 1979);
- a geometric mean of recalls: geometric means of their ends;
- differences of two systems: Student's t over groups, those of hits with one more group for and one against (for single
  queries that is Bonett and Price 2012), so that systems which never differ still have an interval.

A group draws the mean to itself, the more the larger it is, so what it adds is divided by the share that it does not
make (the jackknife of Tukey 1958, cluster by cluster). Groups of unequal size count as fewer: the degrees of freedom
are one less than the effective number of groups, (sum of sizes)^2 / sum of squared sizes. What all of this covers,
`benchmarks/coverage.py` prints.

Tests: Fisher 1935 and Smucker, Allan and Carterette 2007 (paired randomisation in retrieval); Phipson and Smyth 2010
(why p counts the observed arrangement too); Wilcoxon 1945; Holm 1979.

Everywhere `per_query`, `first` and `second` are columns (n,) of queries by name, shares in percent, `groups` (n,) whole
numbers that are equal for queries resampled together, `confidence` that of the interval; there are G groups, and an
interval of fewer than two has no ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import stdtrit

from evenreel.arrays import Column, slices
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.metrics import FIRST_RANK, EvaluationSettings, Metric, PerQuery
from evenreel.types import Corpus

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True)
class Interval:
    """A figure with the ends of its confidence interval; the ends are None where there is no interval."""

    value: float
    low: float | None = None
    high: float | None = None


def shown_figure(figure: Interval) -> tuple[str, str]:
    """Format a figure and the ends of its interval for the `repr` of a result."""
    ends = "" if figure.low is None or figure.high is None else f"{figure.low:.2f} to {figure.high:.2f}"
    return f"{figure.value:.2f}", ends


AUTO, CLIP, VIDEO = "auto", "clip", "video"
"""Names of rules: videos where the corpus shows that clips share them, each clip by itself, videos."""

VIDEO_COLUMNS = ("video_id", "path")
"""Columns that may say which video a clip is cut from; the first that the clips have counts."""

_PLURALS = {CLIP: "clips", VIDEO: "videos"}


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of clips that intervals and tests resample together, such as the clips of one video."""

    number: dict[str, int]  # number of the cluster by clip id
    word: str  # name for clusters in the plural: `clips`, `videos`, or `values of participant`
    clips: int  # number of clips
    column: str = ""  # column that the clusters are made of; empty for clips by themselves
    alone: int = 0  # number of clips without a value in the column; each is a cluster by itself
    chosen: bool = False  # whether the rule was chosen by looking at the corpus

    @cached_property
    def count(self) -> int:
        """Number of clusters."""
        return len(set(self.number.values()))

    @property
    def by_clip(self) -> bool:
        """Whether each clip is a cluster by itself."""
        return self.word == _PLURALS[CLIP]

    @property
    def notice(self) -> str:
        """Sentence that says what intervals and tests resample, where it is not single clips; else empty."""
        if self.by_clip:
            return ""
        of = f"The {self.clips - self.alone:,} clips{' that say so' if self.alone else ''} are of "
        rest = f"; {self.alone:,} say nothing there, and each stands for itself" if self.alone else ""
        drawn = f"{of}{self.count - self.alone:,} {self.word} (column {self.column!r}){rest}. Intervals and tests draw "
        otherwise = f" To draw clips, say so (--cluster {CLIP})." if self.chosen else ""
        return f"{drawn}these, not clips.{otherwise}"

    def of(self, clips: Sequence[str]) -> NDArray[np.int64]:
        """Return the cluster number (n,) of each clip; a clip that is not in the corpus is a cluster by itself.

        >>> Clusters({"a": 0, "b": 0, "c": 1}, "videos", 3).of(["c", "b", "a", "elsewhere"]).tolist()
        [1, 0, 0, 2]
        """
        strangers = dict.fromkeys(clip for clip in clips if clip not in self.number)
        known = self.number | {clip: place for place, clip in enumerate(strangers, self.count)}
        return np.array([known[clip] for clip in clips], dtype=np.int64)


def clusters_of(corpus: Corpus, cluster: str = AUTO) -> Clusters:
    """Assign the clips of a corpus to clusters that intervals and tests resample together.

    Returns:
        Clusters numbered in the order of their values, whatever the order of the corpus.
    """
    clips = corpus.clips["clip_id"].to_list()
    video = next((name for name in VIDEO_COLUMNS if name in corpus.clips.columns and any(_values(corpus, name))), None)
    if cluster == CLIP or (cluster == AUTO and video is None):
        return Clusters({clip: place for place, clip in enumerate(sorted(clips))}, _PLURALS[CLIP], len(clips))
    if cluster == VIDEO and video is None:
        raise CorpusError(
            f"No clip says which video it is cut from (columns {' and '.join(VIDEO_COLUMNS)}); name another column of "
            f"the clips, or draw clips (--cluster {CLIP})."
        )
    column = video if video is not None and cluster in (AUTO, VIDEO) else cluster
    values = _values(corpus, column)
    named = {clip: (not value, value or clip) for clip, value in zip(clips, values, strict=True)}
    number = {one: place for place, one in enumerate(sorted(set(named.values())))}
    word = _PLURALS[VIDEO] if cluster in (AUTO, VIDEO) else f"values of {column}"
    if cluster == AUTO and len(number) == len(clips):
        word = _PLURALS[CLIP]
    found = {clip: number[one] for clip, one in named.items()}
    return Clusters(found, word, len(clips), column, values.count(""), cluster == AUTO)


def _values(corpus: Corpus, column: str) -> list[str]:
    """A value for each clip, empty where there is none."""
    if column in corpus.clips.columns:
        values = corpus.clips[column]
    elif column in corpus.captions.columns:
        only, mixed = one_a_clip(corpus.captions.select("clip_id", value=column))
        if mixed:
            raise CorpusError(
                f"Captions of clip {mixed[0]!r} differ in {column!r} ({len(mixed):,} such clips), so clips cannot be "
                "drawn by it; put the column into the table of clips."
            )
        values = corpus.clips.select("clip_id").join(only, on="clip_id", how="left", maintain_order="left")["value"]
    else:
        raise CorpusError(
            f"Neither clips nor captions have a column {column!r} to draw by; clips have: "
            f"{', '.join(corpus.clips.columns)}."
        )
    known = values.fill_nan(None) if values.dtype.is_float() else values
    return ["" if value is None else str(value) for value in known.to_list()]


def one_a_clip(of_captions: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Return each clip's `value` of a table of its captions, and the clips whose captions differ in it."""
    found = of_captions.group_by("clip_id", maintain_order=True).agg(pl.col("value").drop_nulls().unique())
    mixed = found.filter(pl.col("value").list.len() > 1)["clip_id"].to_list()
    return found.with_columns(pl.col("value").list.first()), mixed


_CHUNK = 4 * 2**20  # numbers of an array of which a few fit the memory set aside
_ROUNDING, _DECIMALS = 1e-9, 9
"""Two statistics nearer than this share of their size are equal: they differ by the order of a sum."""

_EXACT = 100  # groups up to which signed ranks are tested exactly, in at most as many steps of 10,101 additions


class GroupedColumns:
    """Per-query values of one system, grouped for resampling: a sample says how often each of G groups counts."""

    def __init__(self, per_query: PerQuery, groups: NDArray[np.int64]) -> None:
        self.member, self.count = numbered(groups)
        self._per_query = per_query
        self._sums: dict[str, tuple[Column, Column]] = {}
        self._values: dict[str, tuple[Column, sparse.csr_array]] = {}

    def figure(self, metric: Metric, times: Column) -> Column:
        """Compute the figures (B,) of a metric on B samples, of how often each group counts: `times` (B, G)."""
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
    for band in slices(resamples, _CHUNK // max(queries, count)):
        rows = band.stop - band.start
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
    for band in slices(2**count if exact else settings.resamples, _CHUNK // (4 * queries)):
        if exact:
            yield (np.arange(band.start, band.stop)[:, None] >> np.arange(count)) % 2 == 1
        else:
            yield generator.integers(0, 2, size=(band.stop - band.start, count), dtype=np.int8) == 1


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


_WORSE = 1.5  # how many times as bad as the worst group seen one more may be, for the upper end of a mean rank

_FLAT = 1e-12  # values whose standard error is below this share of their range are all equal but for rounding


@dataclass(frozen=True, eq=False)
class GroupedMean:
    """Mean over n queries in G groups that are resampled together, with what each group adds to it."""

    value: float  # mean over all queries
    sums: Column  # (G,) sum of the values of each group's queries
    sizes: Column  # (G,) number of queries of each group

    @classmethod
    def of(cls, values: Column, groups: NDArray[np.int64]) -> GroupedMean:
        """Compute the mean of values (n,) of queries, leaving out NaN; at least one is none."""
        known = ~np.isnan(values)
        values = values[known]
        member, count = numbered(groups[known])
        sums = np.bincount(member, values, count).astype(np.float64)
        return cls(float(values.mean()), sums, np.bincount(member, minlength=count).astype(np.float64))

    @property
    def parts(self) -> Column:
        """Contribution (G,) of each group to the deviation of the mean from its expectation; they sum to 0."""
        return np.asarray((self.sums - self.value * self.sizes) / self.sizes.sum())

    @property
    def variance(self) -> float:
        """Variance of the mean, estimated from the contributions of its groups, of which there must be two."""
        return _error(self.parts, self.sizes) ** 2

    @property
    def effective(self) -> float:
        """Number of groups of equal size with which the mean would have the same precision."""
        return effective(self.sizes)

    def with_more(self, *values: float, size: float | None = None) -> GroupedMean:
        """Return the mean with one further group for each value, of average size or of a given number of queries."""
        size = float(self.sizes.mean()) if size is None else size
        sums = np.append(self.sums, np.array(values) * size)
        sizes = np.append(self.sizes, [size] * len(values))
        return GroupedMean(float(sums.sum() / sizes.sum()), sums, sizes)


def figure_intervals(
    per_query: PerQuery, groups: NDArray[np.int64], settings: EvaluationSettings, gallery_size: int
) -> dict[str, Interval]:
    """Compute the figure of each metric with its confidence interval, by the metric's name.

    Of `settings` metrics, confidence and, for medians, `resamples` and `seed` count; 0 resamples are no interval. The
    largest rank there is is `gallery_size`.
    """
    if not settings.resamples:
        return {str(metric): Interval(float(metric.summary(per_query)[0])) for metric in settings.metrics}
    found = {}
    for metric in settings.metrics:
        if metric.is_of_means:
            found[str(metric)] = figure_interval(metric, per_query, groups, settings.confidence, gallery_size)
            continue
        value, columns = float(metric.summary(per_query)[0]), GroupedColumns(per_query, groups)
        found[str(metric)] = Interval(value)
        if columns.count > 1:  # percentiles of the figure over samples of groups
            (drawn,) = sampled_figures([metric], [columns], settings)[str(metric)]
            found[str(metric)] = around(value, *percentile_ends(drawn, settings.confidence))
    return found


def figure_interval(
    metric: Metric, per_query: PerQuery, groups: NDArray[np.int64], confidence: float, gallery_size: int
) -> Interval:
    """Compute a metric's figure with its confidence interval, for any metric but the median rank.

    Returns:
        The figure without ends where there are fewer than two groups.
    """
    means = [GroupedMean.of(per_query[column], groups) for column in metric.columns]
    value = float(metric.summary(per_query)[0])
    first, *others = means
    if len(first.sizes) < 2:
        return Interval(value)
    if metric.name == "R" and isinstance(metric.cutoff, int) and metric.cutoff >= gallery_size and value == 100:
        return Interval(value, value, value)  # whatever is asked, the answer is among all there are
    if metric.columns == (FIRST_RANK,):
        return _rank_interval(first, confidence, float(gallery_size))
    if not others:
        return share_interval(first, confidence) if metric.name == "R" else degree_interval(first, confidence, 100.0)
    if metric.name == "GeoR":  # the recalls of one ranking rise and fall together, so the ends of their intervals do
        sides = zip(*(_ends(share_interval(mean, confidence)) for mean in means), strict=True)
        low, high = (float(np.cbrt(np.prod(ends))) for ends in sides)
        return around(value, low, high)
    together = GroupedMean(value, np.sum([mean.sums for mean in means], axis=0), first.sizes)
    return degree_interval(together, confidence, 100.0 * len(means))


def share_interval(mean: GroupedMean, confidence: float) -> Interval:
    """Compute the confidence interval of a mean of percentages that are hits or chances of a hit.

    An interval of one group has no ends.
    """
    if len(mean.sizes) < 2:
        return Interval(mean.value)
    found = _wilson(mean, confidence, 100.0)
    if mean.sizes.max() == 1:
        return found
    (low, high), (other_low, other_high) = _ends(found), _ends(degree_interval(mean, confidence, 100.0))
    return around(mean.value, min(low, other_low), max(high, other_high))


def degree_interval(mean: GroupedMean, confidence: float, most: float = 100.0) -> Interval:
    """Compute the confidence interval of a mean of graded values, 0 to `most`, such as nDCG; no ends for one group."""
    if len(mean.sizes) < 2:
        return Interval(mean.value)
    if _error(mean.parts, mean.sizes) <= _FLAT * most:
        return _wilson(mean, confidence, most)
    return around(mean.value, *_hall(mean, confidence), (0.0, most))


def mean_interval(mean: GroupedMean, confidence: float) -> Interval:
    """Compute Student's confidence interval, over groups, of a mean of values without limits; no ends for one group."""
    return t_interval(mean.value, mean.parts, mean.sizes, confidence)


def t_interval(value: float, parts: Column, sizes: Column, confidence: float) -> Interval:
    """Compute Student's confidence interval of a figure from the contributions of groups.

    `parts` (G,) are what each group adds to the deviation of the figure from its expectation, `sizes` (G,) its weight.

    The mean of 4, 5 and 6 has the standard error 1 / sqrt(3) and two degrees of freedom, so 4.3027 of them either way:

    >>> found = t_interval(5.0, np.array([-1.0, 0.0, 1.0]) / 3, np.ones(3), 0.95)
    >>> round(found.low, 3), round(found.high, 3)
    (2.516, 7.484)
    """
    if len(parts) < 2:
        return Interval(value)
    reach = _quantile(sizes, confidence) * _error(parts, sizes)
    return Interval(value, value - reach, value + reach)


def over_seeds(values: Sequence[float], confidence: float, ends: tuple[float, float] = (-np.inf, np.inf)) -> Interval:
    """Compute the mean of a figure over independent runs, with Student's interval; one run has none.

    `ends` are the least and the greatest value that the figure can have, which the interval is cut to.

    >>> over_seeds([2.5], 0.95)
    Interval(value=2.5, low=None, high=None)
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean)
    spread = float(np.std(values, ddof=1))
    half = float(stdtrit(len(values) - 1, 0.5 + confidence / 2)) * spread / float(np.sqrt(len(values)))
    return Interval(mean, max(mean - half, ends[0]), min(mean + half, ends[1]))


def ratio_over_seeds(over: Column, under: Column, confidence: float) -> Interval:
    """Compute the ratio of two means of pairs, with the interval of Fieller (1954).

    The interval is without bounds where the lower mean may be 0.

    `over` (n,) are figures of two runs or more, `under` (n,) those of the same runs that they are divided by.
    """
    count = len(over)
    above, below = float(over.mean()), float(under.mean())
    factor = float(stdtrit(count - 1, 0.5 + confidence / 2)) ** 2 / count
    (var_above, covariance), (_, var_below) = factor * np.cov(over, under)
    a, b, c = below**2 - var_below, above * below - covariance, above**2 - var_above
    if a <= 0:
        return Interval(above / below, -np.inf, np.inf)
    root = float(np.sqrt(max(0.0, b**2 - a * c)))  # below 0 by rounding alone, as the lower mean is not 0
    return Interval(above / below, (b - root) / a, (b + root) / a)


def difference_interval(
    metric: Metric, first: PerQuery, second: PerQuery, groups: NDArray[np.int64], confidence: float
) -> Interval:
    """Compute the figure of the second system less that of the first, with its confidence interval.

    It serves any metric but the median rank.
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
            return hits_interval(mean, confidence, 100.0 * len(metric.columns))
        found = mean_interval(mean, confidence)
    most = np.inf if metric.is_rank else 100.0
    return around(difference, found.low, found.high, (-most, most))


def hits_interval(mean: GroupedMean, confidence: float, most: float = 100.0) -> Interval:
    """Compute the confidence interval of a mean difference of hits, in percentage points; no ends for one group.

    Two groups are added, one in favour of either system, with the root mean square of the differences that there are
    (or the largest possible one where there are none), so that few differing groups give a wide interval.

    `most` is the largest possible difference.
    """
    if len(mean.sizes) < 2:
        return Interval(mean.value)
    apart = mean.sums / mean.sizes
    apart = apart[apart != 0]
    far = float(np.sqrt((apart**2).mean())) if len(apart) else 100.0
    found = mean_interval(mean.with_more(far, -far), confidence)
    return around(mean.value, found.low, found.high, (-most, most))


def _geometric_difference(sides: Sequence[Sequence[GroupedMean]], confidence: float) -> Interval:
    """Compare geometric means by what each group adds to their logarithms, with one more hit and one more miss.

    A recall of 0 has no logarithm, and with very few hits what one of them adds is beyond any approximation.
    """
    values, parts = [], []
    for means in sides:
        more = [mean.with_more(100.0, 0.0, size=1.0) for mean in means]
        values.append(float(np.cbrt(np.prod([mean.value for mean in more]))))
        parts.append(values[-1] / len(more) * np.sum([mean.parts / mean.value for mean in more], axis=0))
    return t_interval(values[1] - values[0], parts[1] - parts[0], more[0].sizes, confidence)


def around(
    value: float, low: float | None, high: float | None, ends: tuple[float, float] = (-np.inf, np.inf)
) -> Interval:
    """Make an interval whose ends are cut to a range and moved, if need be, to include the value.

    >>> around(99.0, 102.0, 104.0, (0.0, 100.0))
    Interval(value=99.0, low=99.0, high=100.0)
    """
    if low is None or high is None:
        return Interval(value)
    return Interval(value, float(min(max(low, ends[0]), value)), float(max(min(high, ends[1]), value)))


def effective(sizes: Column) -> float:
    """Compute the effective number of groups: of how many equal ones the mean is as precise (Kish 1965).

    >>> effective(np.array([1.0, 1.0, 2.0]))
    2.6666666666666665
    """
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def wilson(value: float, queries: float, reach: float, most: float = 100.0) -> Interval:
    """Compute the score interval (Wilson 1927) of a share.

    `value` is from 0 to `most`, 100 for percent, `queries` the number of independent queries and `reach` the half width
    in standard errors.

    >>> found = wilson(0.0, 100, 1.96)
    >>> round(found.low, 2), round(found.high, 2)
    (0.0, 3.7)
    """
    share, spread = value / most, reach**2 / queries
    centre = (share + spread / 2) / (1 + spread)
    half = float(np.sqrt(spread * share * (1 - share) + spread**2 / 4)) / (1 + spread)
    return around(value, most * (centre - half), most * (centre + half), (0.0, most))


def _rank_interval(mean: GroupedMean, confidence: float, worst: float) -> Interval:
    """A mean rank: a few queries that fail badly make most of it, and those drawn may lack them."""
    low, _ = _hall(mean, confidence)
    next_one = mean.with_more(min(_WORSE * float((mean.sums / mean.sizes).max()), worst))
    highs = [_hall(one, confidence)[1] for one in (mean, next_one)]
    return around(mean.value, low, max(highs), (1.0, worst))


def _ends(found: Interval) -> tuple[float, float]:
    assert found.low is not None and found.high is not None
    return found.low, found.high


def _wilson(mean: GroupedMean, confidence: float, most: float) -> Interval:
    """Wilson's interval of a share of as many queries as would have the same variance, were they independent.

    Of queries that hit by halves, as where scores tie, the variance says too little: there are no more than are
    known, and no more than groups where there is not one hit in all, or but one miss.
    """
    share, error = mean.value / most, _error(mean.parts, mean.sizes) / most
    reach, queries = _quantile(mean.sizes, confidence), float(mean.sizes.sum())
    if error <= _FLAT or min(share, 1 - share) * queries < 1:
        queries = mean.effective
    if error > _FLAT:
        queries = min(queries, share * (1 - share) / error**2)
    return wilson(mean.value, queries, reach, most)


def _hall(mean: GroupedMean, confidence: float) -> tuple[float, float]:
    """Ends by Hall's cubic transformation of the studentised mean, which takes its skewness out."""
    parts, groups, error = _leave_one_out_parts(mean.parts, mean.sizes), len(mean.sizes), _error(mean.parts, mean.sizes)
    value, reach = mean.value, _quantile(mean.sizes, confidence) / groups**0.5
    if error == 0:
        return value, value
    skewness = float((parts**3).mean() / (parts**2).mean() ** 1.5)
    if abs(skewness) < 1e-6:  # the transformation's limit is Student's interval
        return value - reach * groups**0.5 * error, value + reach * groups**0.5 * error
    steps = [3 / skewness * (np.cbrt(1 + skewness * (end - skewness / (6 * groups))) - 1) for end in (reach, -reach)]
    low, high = (value - groups**0.5 * error * float(step) for step in steps)
    return low, high


def _leave_one_out_parts(parts: Column, sizes: Column) -> Column:
    """(G,) parts as far as each would be from the mean of the others; parts of groups of equal size stay."""
    return np.asarray(parts * (1 - 1 / len(sizes)) / (1 - sizes / sizes.sum()))


def _error(parts: Column, sizes: Column) -> float:
    """Standard error from what each group adds."""
    return float(np.sqrt((_leave_one_out_parts(parts, sizes) ** 2).sum() * len(parts) / (len(parts) - 1)))


def _quantile(sizes: Column, confidence: float) -> float:
    return float(stdtrit(max(effective(sizes) - 1, 1.0), (1 + confidence) / 2))
