"""Groups of queries by a column of clips or captions, and gaps between groups with what chance alone makes of them.

The largest of all differences between k groups is above 0 even where no group differs, and the more so the more groups
there are. So differences of all pairs are studentised, and the largest of them is held against the largest ones of
arrangements in which no group differs (the max-t of Westfall and Young 1993). What exceeds their 95 % point is
significant, and the differences with so many standard errors on both sides are bands that hold for all pairs at once.

Arrangements are of what is drawn together, clips or videos. Where each lies within one group, they exchange groups,
which a studentised statistic allows even where spreads differ (Chung and Romano 2013); else the deviations of each from
the common mean keep or change their sign together (the wild cluster bootstrap with the null imposed: Cameron, Gelbach
and Miller 2008). The variance of a group has two more members of average spread, so that none is 0 in a group of hits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arrays import Column, slices
from evenreel.corpus.summary import lengths_s
from evenreel.errors import CorpusError
from evenreel.evaluation.intervals import numbered, one_a_clip
from evenreel.types import Corpus

SECONDS, WORDS = "seconds", "words"  # of a clip, and of a caption: columns that every corpus has
BANDS = 4  # of about equal size, at the quartiles of the queries' numbers
MOST_VALUES = 8  # most different numbers that are groups by themselves; more are cut into bands
MOST_GROUPS = 50


@dataclass(frozen=True, eq=False)
class QueryGroups:
    """Groups of n queries by a column."""

    names: tuple[str, ...]  # name of each of k groups: sorted values, or bands in ascending order
    number: NDArray[np.int64]  # (n,) number of the group of each query, -1 where the column says nothing of it
    against: str = ""  # name of the group that others are compared with; empty for none


def column_values(corpus: Corpus, column: str) -> tuple[pl.DataFrame, bool]:
    """Return a table of `id` and `value` of COLUMN or COLUMN=GROUP, and whether it is of captions and not of clips."""
    clips, captions = corpus.clips, corpus.captions
    column = column if column in {*clips.columns, *captions.columns} else column.partition("=")[0]
    if column in clips.columns:
        found, key = clips, "clip_id"
    elif column in captions.columns:
        found, key = captions, "caption_id"
    elif column == SECONDS:
        found, key = clips.with_columns(lengths_s(clips).alias(SECONDS)), "clip_id"
    elif column == WORDS:
        found, key = captions.with_columns(pl.col("text").str.count_matches(r"\S+").alias(WORDS)), "caption_id"
    else:
        names = dict.fromkeys((*clips.columns, *captions.columns, SECONDS, WORDS))
        raise CorpusError(
            f"Neither clips nor captions have a column {column!r} to group by; there are: {', '.join(names)}."
        )
    if found[column].dtype.is_nested():
        raise CorpusError(
            f"The column {column!r} holds lists, which name no group; group by a column of single values."
        )
    return found.select(pl.col(key).alias("id"), pl.col(column).alias("value")), key == "caption_id"


def query_groups(corpus: Corpus, column: str, query_ids: Sequence[str], *, of_captions: bool) -> QueryGroups:
    """Group queries by COLUMN, or COLUMN=GROUP, of the corpus; many numbers are cut into bands."""
    table, by_caption = column_values(corpus, column)
    if by_caption and not of_captions:
        own = corpus.captions.select(pl.col("caption_id").alias("id"), "clip_id").join(table, on="id", how="left")
        only, mixed = one_a_clip(own)
        if mixed:
            raise CorpusError(
                f"Captions of a clip differ in {column!r} ({len(mixed):,} such clips), so clips are of no group; group "
                "captions by it (--direction t2v, with the protocol caption)."
            )
        table = only.select(pl.col("clip_id").alias("id"), "value")
    if of_captions and not by_caption:
        own = corpus.captions.select(pl.col("caption_id"), pl.col("clip_id").alias("id"))
        table = own.join(table, on="id", how="left").select(pl.col("caption_id").alias("id"), "value")
    asked = pl.DataFrame({"id": list(query_ids)}, schema={"id": pl.String})
    values = asked.join(table, on="id", how="left", maintain_order="left")["value"]
    if values.dtype.is_numeric():
        values = values.cast(pl.Float64).fill_nan(None) if values.dtype.is_float() else values
        if values.drop_nulls().n_unique() > MOST_VALUES:
            return _bands(values)
    return replace(_values(values, column), against=column.partition("=")[2])


def _values(values: pl.Series, column: str) -> QueryGroups:
    """Each value is a group; empty text is none."""
    known = values.drop_nulls().unique().sort().to_list()
    words = {value: str(value) for value in known if str(value).strip()}
    if len(words) > MOST_GROUPS:
        raise CorpusError(
            f"The column {column!r} has {len(words):,} values among these queries; group by one with at most "
            f"{MOST_GROUPS}."
        )
    place = {value: number for number, value in enumerate(words)}
    number = np.array([place.get(value, -1) for value in values.to_list()], dtype=np.int64)
    return QueryGroups(tuple(words.values()), number)


def _bands(values: pl.Series) -> QueryGroups:
    """Bands of about equal size; equal numbers are in one band, so fewer are possible."""
    numbers = values.cast(pl.Float64).to_numpy()
    known = ~np.isnan(numbers)
    inner = np.quantile(numbers[known], np.arange(1, BANDS) / BANDS, method="lower")
    band = np.searchsorted(np.unique(inner), numbers[known], side="left")
    _, band = np.unique(band, return_inverse=True)
    number = np.full(len(numbers), -1, dtype=np.int64)
    number[known] = band
    held = [numbers[number == one] for one in range(int(band.max()) + 1)]
    return QueryGroups(tuple(f"{_short(one.min())} to {_short(one.max())}" for one in held), number)


def _short(value: float) -> str:
    """Three digits, and all before the point.

    >>> _short(0.012345), _short(2024.0)
    ('0.0123', '2024')
    """
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


_CHUNK = 2**21
_ROUNDING = 1e-9
"""Arrangements that differ by less than this share are equal: hits are counts, and many arrangements tie."""

_MORE = 2.0  # members of average spread that the variance of each group is estimated with beside its own


@dataclass(frozen=True, eq=False)
class Spread:
    """Deviations of k groups of queries from their common mean, in C clusters that are drawn together."""

    sums: NDArray[np.float64]  # (C, k) sum of the deviations of each cluster's queries in each group
    sizes: NDArray[np.float64]  # (C, k) number of these queries

    @classmethod
    def of(cls, values: Column, group: NDArray[np.int64], cluster: NDArray[np.int64]) -> Spread:
        """Sum the deviations of values (n,), none NaN, by cluster (n,) and group (n,), each of 0 to k - 1 there."""
        member, count = numbered(cluster)
        groups = int(group.max()) + 1
        cell, cells = member * groups + group, count * groups
        deviations = values - values.mean()
        return cls(
            np.bincount(cell, deviations, cells).astype(np.float64).reshape(count, groups),
            np.bincount(cell, minlength=cells).astype(np.float64).reshape(count, groups),
        )

    @cached_property
    def members(self) -> Column:
        """Number (k,) of clusters that have queries in each group."""
        return np.asarray((self.sizes > 0).sum(axis=0), dtype=np.float64)

    @property
    def nested(self) -> bool:
        """Whether every cluster lies within one group."""
        return bool(((self.sizes > 0).sum(axis=1) == 1).all())

    @cached_property
    def average(self) -> float:
        """Variance of the mean of one cluster of average size, over all groups."""
        there = self.sizes > 0
        return float((self.sums[there] ** 2).mean() / self.sizes[there].mean() ** 2)

    def with_average(self, covariance: NDArray[np.float64]) -> NDArray[np.float64]:
        """Estimate covariances (b, k, k) of groups with two more members of average spread a group."""
        own = (self.members - 1) / (self.members - 1 + _MORE)
        corrected = own * self.members / np.maximum(self.members - 1, 1)
        shrunk = covariance * np.sqrt(np.outer(corrected, corrected))
        return np.asarray(shrunk + np.diag((1 - own) * self.average / self.members))

    def signed(self, signs: Column) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Compute the groups' means (b, k) and their covariances (b, k, k), given signs (b, C) of clusters."""
        count, groups = self.sums.shape
        total = self.sizes.sum(axis=0)
        means = signs @ self.sums / total
        crossed = (self.sums[:, :, None] * self.sizes[:, None, :]).reshape(count, -1)
        mixed = (signs @ crossed).reshape(-1, groups, groups) * means[:, None, :]
        squares = self.sums.T @ self.sums - mixed - mixed.transpose(0, 2, 1)
        squares = squares + means[:, :, None] * means[:, None, :] * (self.sizes.T @ self.sizes)
        return means, self.with_average(squares / np.outer(total, total))

    def exchanged(self, group: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Compute means (b, k) and covariances (b, k, k), given other groups (b, C) of clusters that lie within one."""
        sums, sizes = self.sums.sum(axis=1), self.sizes.sum(axis=1)
        moments = np.stack([sizes, sums, sums**2, sums * sizes, sizes**2], axis=1)
        groups = self.sums.shape[1]
        found = np.stack([(group == one).astype(np.float64) @ moments for one in range(groups)], axis=1)
        total, summed, squared, mixed, sized = np.moveaxis(found, 2, 0)
        means = summed / total
        squares = np.maximum(squared - 2 * means * mixed + means**2 * sized, 0) / total**2
        return means, self.with_average(squares[:, :, None] * np.eye(groups))


@dataclass(frozen=True, eq=False)
class Bands:
    """Differences of all pairs of groups with simultaneous bands."""

    means: Column  # (k,) mean deviations of the groups from the common mean
    errors: NDArray[np.float64]  # (k, k) standard error of the difference of each pair
    reach: float  # half width of the bands in standard errors; infinite where there are too few arrangements for one
    p: float  # share of arrangements whose largest studentised difference is at least the observed one
    chance: float  # mean gap between the highest and the lowest group over the arrangements, in which no group differs

    @property
    def ends(self) -> tuple[float, float] | tuple[None, None]:
        """Ends of the interval of the largest true difference; None where there are too few arrangements."""
        if not np.isfinite(self.reach):
            return None, None
        apart, wide = self.means[:, None] - self.means[None, :], self.reach * self.errors
        return max(0.0, float((apart - wide).max())), float((apart + wide).max())


def bands_of(spread: Spread, resamples: int, seed: int, confidence: float) -> Bands | None:
    """Compute bands of the differences of all pairs of groups that hold for all at once with this confidence.

    There are `resamples` arrangements; None where all clusters have the same mean, so that nothing says how much chance
    would do.
    """
    if spread.average <= 1e-18:
        return None
    means, covariance = spread.signed(np.ones((1, len(spread.sums))))
    highest = float(_largest(means, covariance)[0])
    drawn = [(_largest(*one), np.ptp(one[0], axis=1)) for one in _arrangements(spread, resamples, seed)]
    largest, gaps = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    place = int(np.ceil(confidence * (len(largest) + 1) - 1e-9))
    reach = float(np.sort(largest)[place - 1]) * (1 + _ROUNDING) if place <= len(largest) else float("inf")
    reached = int((largest >= highest * (1 - _ROUNDING)).sum())
    return Bands(means[0], _errors(covariance)[0], reach, (1 + reached) / (1 + len(largest)), float(gaps.mean()))


def _errors(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard errors (b, k, k) of the differences of pairs."""
    own = np.diagonal(covariance, axis1=1, axis2=2)
    return np.sqrt(np.maximum(own[:, :, None] + own[:, None, :] - 2 * covariance, 0))


def _largest(means: NDArray[np.float64], covariance: NDArray[np.float64]) -> Column:
    """Largest studentised difference (b,) of any pair."""
    apart, errors = np.abs(means[:, :, None] - means[:, None, :]), _errors(covariance)
    studentised = np.divide(apart, errors, out=np.zeros_like(apart), where=errors > 0)
    return np.asarray(studentised.max(axis=(1, 2)))


def _arrangements(
    spread: Spread, resamples: int, seed: int
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Means and covariances of arrangements in which no group differs."""
    generator = np.random.default_rng(seed)
    count, groups = spread.sums.shape
    group = np.argmax(spread.sizes > 0, axis=1)
    for band in slices(resamples, _CHUNK // max(count, groups**2)):
        rows = band.stop - band.start
        if spread.nested:
            yield spread.exchanged(generator.permuted(np.tile(group, (rows, 1)), axis=1))
        else:
            yield spread.signed(2.0 * generator.integers(0, 2, size=(rows, count)).astype(np.float64) - 1)
