"""Figures of a ranking's first relevant item (first hit): its rank, the chance that it is in the top k, and 1 / rank.

A hit is a triple: `above` items score higher than the best relevant score, `relevant` items have that score and
`others` that are not relevant have it too. Under a random order of equals, the place of the first of `relevant` among
`others + relevant` has the negative hypergeometric distribution, of which each figure is the expected value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from evenreel.arrays import Column, Indices
from evenreel.evaluation.metrics import FIRST_RANK, Metric
from evenreel.evaluation.places import Places


@dataclass(frozen=True, eq=False)
class Hits:
    """First relevant items of h rankings, as counts of items above them and of items with the same score.

    Attributes:
        query: (h,) index of the query.
        above: (h,) number of items with a higher score.
        others: (h,) number of irrelevant items with the same score.
        relevant: (h,) number of relevant items with that score.
        retrieved: (h,) False where that score is minus infinity: a rank exists, but nothing is found.
    """

    query: Indices
    above: Indices
    others: Indices
    relevant: Indices
    retrieved: NDArray[np.bool_]

    def chance(self, k: int) -> Column:
        """Compute the probability (h,) that a relevant item is among the first k, ties being broken at random."""
        return self.retrieved * hit_chance(self.above, self.others, self.relevant, k)

    def renumbered(self, numbers: Indices) -> Hits:
        """Return the hits with the query index i changed to `numbers[i]`."""
        return replace(self, query=numbers[self.query])

    @classmethod
    def joined(cls, parts: Sequence[Hits]) -> Hits:
        """Concatenate the hits of several bands of queries; their query indices stay."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def first_hits(places: Places) -> Hits:
    """Find the first hit of each query, its best-scored item of full relevance; a query without one is left out."""
    holds = np.flatnonzero(places.strict)
    holds = holds[np.diff(places.query[holds], prepend=-1) > 0]
    strict = places.strict[holds]
    return Hits(places.query[holds], places.above[holds], places.size[holds] - strict, strict, places.retrieved[holds])


def every_hit(places: Places) -> Hits:
    """Return a hit for each item of full relevance, ranked without the query's other items of full relevance."""
    times = places.strict
    above = places.above - places.sums_before(times.astype(np.float64)).astype(np.int64)
    others = places.size - times
    alone = np.ones(times.sum(), np.int64)
    query, above, others, retrieved = (
        np.repeat(values, times) for values in (places.query, above, others, places.retrieved)
    )
    return Hits(query, above, others, alone, retrieved)


def hit_columns(hits: Hits, metrics: tuple[Metric, ...]) -> dict[str, Column]:
    """Compute the columns (h,) that metrics of the first hit read, and always the rank; shares in percent."""
    columns = {FIRST_RANK: expected_rank(hits.above, hits.others, hits.relevant)}
    for metric in metrics:
        for column in metric.columns:
            if column == "MRR":
                columns[column] = 100 * hits.retrieved * expected_reciprocal(hits.above, hits.others, hits.relevant)
            elif column.startswith("R@"):
                columns[column] = 100 * hits.chance(int(column[2:]))
    return columns


def expected_rank(above: Indices, others: Indices, relevant: Indices) -> Column:
    """Compute the expected rank (h,) of the first relevant item, from 1: above + 1 + others / (relevant + 1).

    Two items that tie with the relevant one, none above:

    >>> expected_rank(np.array([0]), np.array([2]), np.array([1]))
    array([2.])
    """
    return np.asarray(above + 1 + others / (relevant + 1), dtype=np.float64)


def hit_chance(above: Indices, others: Indices, relevant: Indices, k: int) -> Column:
    """Compute the probability (h,) of a hit in the first k: 1 - C(others, m) / C(others + relevant, m), m = k - above.

    Args:
        above: (h,) number of items with a higher score.
        others: (h,) number of irrelevant items with the same score.
        relevant: (h,) number of relevant items with that score.
        k: number of first places.

    >>> hit_chance(np.array([0, 3]), np.array([2, 0]), np.array([1, 1]), 1).round(4).tolist()
    [0.3333, 0.0]
    """
    drawn = np.clip(k - above, 0, others + 1)
    # C(o, m) / C(o + r, m) is symmetric: the product of (o - m + i) / (o + i) for i = 1..r, of whole numbers only.
    miss = np.where(drawn > others, 0.0, 1.0)
    chance = (drawn > 0) & (miss > 0)
    for i in range(1, int(relevant[chance].max(initial=0)) + 1):
        factor = (others - drawn + i) / (others + i)
        miss = np.where(chance & (i <= relevant), miss * factor, miss)
    return 1 - miss


def expected_reciprocal(above: Indices, others: Indices, relevant: Indices) -> Column:
    """Compute the expected value (h,) of 1 / rank of the first relevant item, ties being broken at random.

    >>> expected_reciprocal(np.array([0]), np.array([2]), np.array([1])).round(4)
    array([0.6111])
    """
    reciprocal = 1 / (above + 1.0)
    single = (others > 0) & (relevant == 1)
    reciprocal[single] = (digamma(above + others + 2.0) - digamma(above + 1.0))[single] / (others + 1)[single]
    several = np.flatnonzero((others > 0) & (relevant > 1))
    if len(several):
        triples = np.stack([above, others, relevant], axis=1)[several]
        distinct, which = np.unique(triples, axis=0, return_inverse=True)
        means = np.array([_mean_reciprocal(*(int(part) for part in triple)) for triple in distinct])
        reciprocal[several] = means[which.reshape(-1)]
    return reciprocal


def _mean_reciprocal(above: int, others: int, relevant: int) -> float:
    """The sum over every place: the chance that the first relevant item stands there, times 1 / place."""
    drawn = np.arange(others + 1)
    later = np.concatenate([[1.0], np.cumprod((others - drawn) / (others + relevant - drawn))])
    return float(((later[:-1] - later[1:]) / (above + 1 + drawn)).sum())
