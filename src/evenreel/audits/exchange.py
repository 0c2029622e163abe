"""Tests and intervals that audits share: means over captions, deltas, permuted clips, exchanged pairs, inversion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtri, stdtrit

from evenreel.arrays import Column, Indices
from evenreel.audits.inputs import PairedScores
from evenreel.audits.settings import AuditSettings
from evenreel.errors import UsageError
from evenreel.evaluation.intervals import (
    GroupedColumns,
    GroupedMean,
    Interval,
    around,
    numbered,
    percentile_ends,
    t_interval,
    wilson,
)
from evenreel.evaluation.intervals import hits_interval as interval_of_hits
from evenreel.evaluation.intervals import mean_interval as interval_of_mean
from evenreel.evaluation.intervals import share_interval as interval_of_share
from evenreel.evaluation.metrics import Metric, PerQuery, parse_metrics

# Deltas ---------------------------------------------------------------------------------------------------------------
#
# Generative Ghost, section 2.4: between a figure of real clips and of generated ones, and the part that their order
# explains. A positive delta favours real clips, a negative one generated ones. Figures are floats or arrays of them,
# such as one a sample.

Figures = NDArray[np.float64]
Value = TypeVar("Value", float, Figures)

DELTA_METRICS = parse_metrics(["R@1", "R@5", "R@10", "MedR", "MeanR"])  # what the paper's tables have a delta of

LOCATION_METRICS = parse_metrics(["R@1", "R@2", "R@3", "R@5", "R@10", "MedR", "MeanR"])
"""What the Location deltas of `DELTA_METRICS` are calculated from, and those metrics themselves."""

MIXED_METRICS = ("R@1", "MedR", "MeanR")
MIX_R = "MixR"


def relative_delta(metric: Metric, real: Value, generated: Value) -> Value:
    """Compute the Relative delta of a metric between real and generated clips, -200 to 200 %; above 0, real is better.

    It is 200 (real - generated) / (real + generated) for shares, with the opposite sign for ranks; 0 where both are 0.

    >>> from evenreel.evaluation import parse_metric
    >>> round(float(relative_delta(parse_metric("R@1"), 10.1, 22.6)), 2)
    -76.45
    """
    first, second = np.asarray(real, np.float64), np.asarray(generated, np.float64)
    total, sign = first + second, 1 if metric.higher_is_better else -1
    share = np.divide(first - second, total, out=np.zeros_like(total), where=total != 0)
    delta: Figures = 200 * sign * share + 0.0  # no minus zero
    return cast("Value", delta if delta.ndim else float(delta))


def location_figure(metric: Metric, figures: Mapping[str, Value]) -> Value:
    """Compute a metric in an ideal mixed gallery in which each clip is next to its mirror, either first as often.

    A clip of rank r in a gallery of its own kind then has the rank 2r or 2r - 1: R@k becomes the mean of R@floor(k/2)
    and R@floor((k+1)/2), a rank m becomes 2m - 1/2. The tables of the paper are reproduced by this mean of both orders.
    It is exact for ties as well, where R@k is the chance of a hit.

    Args:
        metric: R@k, MedR or MeanR.
        figures: figures in the gallery of one kind, by the metric's name; for R@5 those of R@2 and R@3.

    Raises:
        UsageError: the metric has no such form, or a figure that it needs is missing.

    >>> from evenreel.evaluation import parse_metric
    >>> location_figure(parse_metric("R@5"), {"R@2": 40.0, "R@3": 50.0})
    45.0
    """
    if metric.name in ("MedR", "MeanR"):
        return 2 * _figure(str(metric), figures) - 0.5
    if metric.name != "R" or not isinstance(metric.cutoff, int):
        raise UsageError(f"{metric} has no Location form; R@k, MedR and MeanR have one.")
    lower, upper = metric.cutoff // 2, (metric.cutoff + 1) // 2
    before = _figure(f"R@{lower}", figures) if lower else 0.0
    return (before + _figure(f"R@{upper}", figures)) / 2


def mix_r(deltas: Mapping[str, Value]) -> Value:
    """Compute MixR, the mean of the deltas of R@1, MedR and MeanR.

    Raises:
        UsageError: one of them is missing.

    >>> round(mix_r({"R@1": -53.01, "MedR": 14.67, "MeanR": 41.02}), 2)
    0.89
    """
    first, second, third = (_figure(word, deltas) for word in MIXED_METRICS)
    return (first + second + third) / 3


def _figure(word: str, figures: Mapping[str, Value]) -> Value:
    if word not in figures:
        raise UsageError(f"{word} is missing; there are: {', '.join(figures) or 'none'}.")
    return figures[word]


# Means over captions --------------------------------------------------------------------------------------------------
#
# Intervals are those of `evenreel.evaluation.intervals`, over groups of captions that are resampled together.


def share_interval(values: Column, groups: Indices, settings: AuditSettings) -> Interval:
    """Compute the mean of percentages (Q,), leaving out NaN, with its interval within 0 to 100; NaN where none."""
    return _interval(interval_of_share, values, groups, settings)


def mean_interval(values: Column, groups: Indices, settings: AuditSettings) -> Interval:
    """Compute the mean of values (Q,), leaving out NaN, with Student's interval; NaN where none is known."""
    return _interval(interval_of_mean, values, groups, settings)


def hits_interval(values: Column, groups: Indices, settings: AuditSettings) -> Interval:
    """Compute the mean of differences of hits (Q,), in percentage points, leaving out NaN, with its interval."""
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
    member, count = numbered(groups)
    found = []
    for columns in zip(above, below, strict=True):
        over, under = (np.bincount(member, column, count) for column in columns)
        ratio = float(over.sum() / under.sum()) if under.sum() else float("nan")
        if not settings.resamples or np.isnan(ratio):
            found.append(Interval(ratio))
            continue
        found.append(t_interval(ratio, (over - ratio * under) / under.sum(), np.ones(count), settings.confidence))
    return found


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


# Inversion ------------------------------------------------------------------------------------------------------------
#
# Intervals and tests of a figure from samples of rankings without a preference.

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


# Permuted clips -------------------------------------------------------------------------------------------------------
#
# The share of first places that long clips, or generated ones, take is a sum over clips of how often each is shown
# times its property. A few hubs have some length and some source by accident, and every query repeats that accident:
# samples of queries would call it a preference. Permuting the property over clips, with how often each is shown held
# fixed (Pitman 1937), is another accident of the same kind, whatever the hubs.
#
# Queries may also differ in what they favour, one long clips and another short ones. Permuted properties have none of
# that, so the variance of the queries' figures beyond that with permuted properties is added, and intervals from such
# samples are over queries and clips.

BOTH = "captions and clips"  # what such intervals are over
PROBES = 20  # permutations of which the figure of each single query is looked at
_CHUNK_BYTES = 32 * 2**20


@dataclass(frozen=True, eq=False)
class ClipProperty:
    """A property of V clips, such as length, with the strata and clusters within which it may be permuted.

    Values are permuted within strata. Where clusters have several clips, the deviations from the mean of the stratum
    are permuted by cluster: their cluster means are permuted among clusters, and deviations from those means change
    sign, for a whole cluster at once, since clips of one video may be ranked alike (Cameron, Gelbach and Miller 2008).
    """

    values: Column  # (V,) value of each clip
    strata: Indices  # (V,) stratum of each clip, within which values are permuted
    cluster: Indices  # (V,) cluster of each clip, such as its video
    # (V,) indices of the clips in a fixed order, so that the same clips are permuted in the same way whatever their
    # order in the scores
    order: Indices

    def permuted(self, samples: int, seed: int) -> Iterator[Column]:
        """Yield permutations of the clips' values, (b, V) at a time, `samples` in all."""
        generator = np.random.default_rng(seed)
        step = max(1, _CHUNK_BYTES // (8 * max(len(self.values), 1)))
        for start in range(0, samples, step):
            yield self._draw(min(step, samples - start), generator)

    def probes(self, seed: int) -> Column:
        """Draw `PROBES` permutations of the clips' values, (P, V), for the figures of every query by chance."""
        return np.concatenate([*self.permuted(PROBES, seed)])

    def sums(self, weights: Column, settings: AuditSettings) -> Column:
        """Compute the sum over clips of weights (V,) times values (1 + B,): as measured, then for B permutations.

        With one cluster B is 0.
        """
        # Clusters differ in size, so what is permuted is how far a weight is from the mean weight.
        base, apart = weights.mean() * self.values.sum(), weights - weights.mean()
        samples = settings.resamples if len(np.unique(self.cluster)) > 1 else 0
        drawn = [base + values @ apart for values in self.permuted(samples, settings.seed)]
        return np.concatenate([[weights @ self.values], *drawn])

    def _draw(self, samples: int, generator: np.random.Generator) -> Column:
        values, cluster = self.values[self.order], self.cluster[self.order]
        member = np.unique(cluster, return_inverse=True)[1]
        sizes: Column = np.bincount(member).astype(np.float64)
        found = np.empty((samples, len(values)))
        if sizes.max(initial=1) == 1:
            found[:, self.order] = _within(values, self.strata[self.order], samples, generator)
            return found
        kind = np.unique(self.strata[self.order], return_inverse=True)[1]
        expected = (np.bincount(kind, values) / np.bincount(kind))[kind]
        means: Column = np.bincount(member, values - expected) / sizes
        among = _within(means, np.zeros(len(means), np.int64), samples, generator)
        signs = generator.choice([-1.0, 1.0], (samples, len(means)))
        beyond = values - expected - means[member]
        found[:, self.order] = expected + among[:, member] + signs[:, member] * beyond
        return found


def queries_part(own: Column, probes: Column, groups: Indices) -> float:
    """Estimate the part of the variance of a mean over queries that is due to differences between queries.

    Args:
        own: (Q,) figure of each query, NaN where it has none.
        probes: (Q, P) figure of each query with permuted properties.
        groups: (Q,) group of each query; queries of one are resampled together.

    Returns:
        Variance over groups, less that with permuted properties; at least 0.
    """
    known = ~np.isnan(own)
    if len(np.unique(groups[known])) < 2:
        return 0.0
    variances = [GroupedMean.of(column[known], groups[known]).variance for column in (own, *probes.T)]
    return max(0.0, variances[0] - float(np.mean(variances[1:])))


def widened(drawn: Column, neutral: float, part: float) -> Column:
    """Scale the samples of a figure away from its neutral value, so that their variance grows by `part`.

    Args:
        drawn: (1 + B,) the figure as measured, which stays, then in B samples.
        neutral: value without a preference.
        part: variance to add.

    >>> widened(np.array([7.0, -1.0, 1.0, -1.0, 1.0]), 0.0, 3.0).tolist()
    [7.0, -2.0, 2.0, -2.0, 2.0]
    """
    apart = drawn[1:] - neutral
    variance = float((apart**2).mean()) if len(apart) else 0.0
    scale = (1 + part / variance) ** 0.5 if variance else 1.0
    return np.concatenate([drawn[:1], neutral + scale * apart])


def _within(values: Column, strata: Indices, samples: int, generator: np.random.Generator) -> Column:
    """(b, V) values permuted within strata."""
    found = np.tile(values, (samples, 1))
    order = np.argsort(strata, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(strata[order])) + 1):
        if len(own) > 1:
            found[:, own] = generator.permuted(found[:, own], axis=1)
    return found


# Exchanged pairs ------------------------------------------------------------------------------------------------------
#
# Without a preference for a source it does not matter which clip of a pair is called the real one, so exchanging the
# two, for all captions at once, makes another sample of the same kind (Fisher 1935). That accounts for hubs: a
# generated clip that happens to be a hub is a real one in half of the samples. Samples of captions all contain the hub;
# where there are hubs they report a preference in galleries that have none.
#
# The samples are symmetric around the neutral value, so an interval that is made by inversion leaves that out as often
# as the test by the same samples rejects.

Drawn = dict[str, Figures]  # (1 + B,) figures by their words: as measured first, then of each of B samples

Flips = NDArray[np.bool_]
Block = NDArray[Any]

_RANKS_BYTES = 32 * 2**20
"""Of the ranks that are kept for medians; with more captions fewer samples are taken at a time."""

_DEPTHS = {str(one): one.cutoff for one in LOCATION_METRICS if isinstance(one.cutoff, int)}


def drawn_flips(clusters: int, settings: AuditSettings) -> Flips:
    """Draw which of G clusters of pairs are exchanged in each sample, (1 + B, G): none in the first row.

    In the other rows each is with probability 1/2. With one cluster B is 0.
    """
    samples = settings.resamples if clusters > 1 else 0
    flips = np.random.default_rng(settings.seed).random((1 + samples, clusters)) < 0.5
    flips[0] = False
    return flips


def swapped_figures(first: PerQuery, second: PerQuery, cluster: NDArray[np.int64], flips: Flips) -> tuple[Drawn, Drawn]:
    """Compute figures of real clips and mirrors in each sample of exchanged pairs, from columns that stay the same.

    Args:
        first: (Q,) columns of real clips, see `evenreel.evaluation.ranking.hit_columns`.
        second: (Q,) columns of mirrors.
        cluster: (Q,) cluster of each caption, a column of `flips`.
        flips: (1 + B, G) whether a sample exchanges the clips of a cluster.
    """
    every = flips.shape[1]
    both = GroupedColumns(
        {name: np.concatenate([first[name], second[name]]) for name in first},
        np.concatenate([cluster, cluster + every]),
    )
    there = np.unique(cluster)  # only clusters with a query make a column
    kept, left = 1.0 - flips[:, there], flips[:, there] * 1.0
    times = np.hstack([kept, left]), np.hstack([left, kept])
    one, other = ({str(metric): both.figure(metric, side) for metric in LOCATION_METRICS} for side in times)
    return one, other


def swapped_alone(
    paired: PairedScores, flips: Flips, band_bytes: int, ahead: NDArray[np.int64] | None = None
) -> tuple[Drawn, Drawn]:
    """Compute figures in galleries of one kind of clip (real, or mirrors) in each sample of exchanged pairs.

    Args:
        paired: scores of Q captions and n pairs.
        flips: (1 + B, G) whether a sample exchanges the clips of a cluster of pairs.
        band_bytes: about how many bytes of scores are read at once.
        ahead: (Q,) whether each caption's real clip (1) or its mirror (0) is put first in the mixed gallery; the
            figures are then those of the clips' places there, 2r - 1 for the one put first and 2r for the other.
    """
    captions = len(paired.pair)
    step = max(1, _RANKS_BYTES // (2 * 4 * captions))
    parts = [_alone(paired, flips[at : at + step], band_bytes, ahead) for at in range(0, len(flips), step)]
    real, generated = (
        {word: np.concatenate([part[side][word] for part in parts]) for word in parts[0][side]} for side in (0, 1)
    )
    return real, generated


class _SwapTally:
    """Figures of one kind of clip in B samples: sums of hits, and the ranks that medians need."""

    def __init__(self, captions: int, samples: int) -> None:
        self._ranks = np.empty((captions, samples), dtype=np.float32)
        self._sums = {word: np.zeros(samples) for word in _DEPTHS}

    def add(self, held: slice, above: Block, others: Block, found: Flips, ahead: NDArray[np.int64] | None) -> None:
        """(b, B) clips above and equals of some captions, (b, B) whether the clip is retrieved at all."""
        above, others = above.astype(np.float64), others.astype(np.float64)
        rank = above + 1 + others / 2
        self._ranks[held] = rank if ahead is None else 2 * rank - ahead[:, None]
        for word, cutoff in _DEPTHS.items():
            depth = cutoff if ahead is None else (cutoff + ahead[:, None]) // 2
            self._sums[word] += (found * np.clip((depth - above) / (others + 1.0), 0, 1)).sum(axis=0)

    def result(self) -> Drawn:
        """(B,) figures by their words; shares in percent."""
        means = {word: 100 * sums / len(self._ranks) for word, sums in self._sums.items()}
        return means | {
            "MedR": np.median(self._ranks, axis=0).astype(np.float64),
            "MeanR": self._ranks.mean(axis=0, dtype=np.float64),
        }


def _alone(paired: PairedScores, flips: Flips, band_bytes: int, ahead: NDArray[np.int64] | None) -> tuple[Drawn, Drawn]:
    tallies = [_SwapTally(len(paired.pair), len(flips)) for _ in range(2)]
    swapped = np.ascontiguousarray(flips[:, paired.cluster].T, dtype=np.float32)  # (n, B)
    for held, real, generated in paired.bands(band_bytes):
        pair = paired.pair[held]
        own = [side[np.arange(len(pair)), pair] for side in (real, generated)]
        # (2, b, B): above and equal to the real clip, then to its mirror, among clips called real and called mirrors.
        standing = [counted(real, generated, score, swapped) for score in own]
        flipped = swapped[pair] > 0
        first = [None, None] if ahead is None else [ahead[held], 1 - ahead[held]]
        for number, (tally, put) in enumerate(zip(tallies, first, strict=True)):
            above, equal = (
                np.where(flipped, standing[1 - number][number][kind], standing[number][number][kind]) for kind in (0, 1)
            )
            found = np.where(flipped, (own[1 - number] > -np.inf)[:, None], (own[number] > -np.inf)[:, None])
            tally.add(held, above, equal - 1, found, put)
    return tallies[0].result(), tallies[1].result()


def counted(first: Block, second: Block, own: Block, swapped: Block) -> list[tuple[Block, Block]]:
    """Count the clips that score above, and equal to, one score of each caption, in samples of exchanged clips.

    Args:
        first: (b, n) scores of clips.
        second: (b, n) scores of the clips that they are exchanged with.
        own: (b,) scores to compare with.
        swapped: (n, B), 1 where a sample exchanges a clip.

    Returns:
        Counts above (b, B) and equal (b, B), of the clips that are then in place of the first ones, and of the second.
    """
    column = own[:, None]
    counts: list[list[Block]] = [[], []]
    for test in (np.greater, np.equal):
        kept, other = test(first, column), test(second, column)
        change = (other.astype(np.float32) - kept) @ swapped
        for side, start, sign in zip(counts, (kept, other), (1, -1), strict=True):
            side.append(start.sum(axis=1, dtype=np.float32)[:, None] + sign * change)
    return [(above, equal) for above, equal in counts]


# Counts ---------------------------------------------------------------------------------------------------------------

FIRST = 10  # how many of the largest counts are looked at together


def share(part: NDArray[Any], whole: NDArray[Any]) -> Column:
    """Compute shares, part / whole, of counts; NaN where the whole is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(whole > 0, part / whole, np.nan), np.float64)


def difference_ends(
    hits: NDArray[Any], of: NDArray[Any], other_hits: NDArray[Any], others: NDArray[Any], confidence: float
) -> tuple[Column, Column]:
    """Compute the interval of a difference of shares, hits / of - other_hits / others (Newcombe 1998, method 10).

    >>> low, high = difference_ends(np.array([56]), np.array([70]), np.array([48]), np.array([80]), 0.95)
    >>> low.round(4).tolist(), high.round(4).tolist()  # his example (a), method 10
    ([0.0524], [0.3339])
    """
    first, second = share(hits, of), share(other_hits, others)
    low, high = _wilson(first, of, confidence)
    other_low, other_high = _wilson(second, others, confidence)
    difference = first - second
    return (
        difference - np.hypot(first - low, other_high - second),
        difference + np.hypot(high - first, second - other_low),
    )


def _wilson(of_them: Column, of: NDArray[Any], confidence: float) -> tuple[Column, Column]:
    """Ends of the score interval of a share (Wilson 1927)."""
    z = float(ndtri((1 + confidence) / 2))
    number = np.maximum(np.asarray(of, np.float64), 1.0)  # a share of nothing is NaN already
    middle = of_them + z**2 / (2 * number)
    half = z * np.sqrt(of_them * (1 - of_them) / number + z**2 / (4 * number**2))
    return (middle - half) / (1 + z**2 / number), (middle + half) / (1 + z**2 / number)


def first_share(counts: NDArray[Any]) -> float:
    """Compute the percentage of all counts that the `FIRST` largest ones make up."""
    return float(100 * np.sort(counts)[::-1][:FIRST].sum() / counts.sum()) if counts.sum() else float("nan")
