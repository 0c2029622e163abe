"""Metrics of the whole order of a ranking: nDCG, precision, and average precision in two forms.

Each is a sum over stretches of equal scores of an expected value in closed form, so ties cost nothing extra.
A stretch takes the places a + 1 to a + t, holds s items of degree 1 and degrees of relevance that sum to g.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Indices
from evenreel.evaluation.blocks import Items
from evenreel.evaluation.metrics import Cutoff, Metric
from evenreel.evaluation.places import Places


@dataclass(frozen=True, eq=False)
class Discounts:
    """Discounts by place in a ranking, and their sums, for a gallery of n items.

    Attributes:
        each: (n + 1,) discount of the places 1 to n, then 0.
        sums: (n + 1,) sum of the discounts before each place.
    """

    each: Column
    sums: Column

    @classmethod
    def of(cls, values: Column) -> Discounts:
        """Make discounts from the value (n,) of each place."""
        return cls(np.append(values, 0.0), np.append(0.0, np.cumsum(values)))

    def between(self, above: Indices, stop: Indices) -> Column:
        """Sum the discounts of consecutive places in a ranking, for each of m stretches of places.

        Args:
            above: (m,) number of places before each stretch, which begins at place `above` + 1.
            stop: (m,) last place of each stretch.

        Returns:
            (m,) sums.
        """
        # A single place needs no difference of sums, which would cost it digits.
        found = self.each[above]
        other = np.flatnonzero(stop - above != 1)
        found[other] = self.sums[stop[other]] - self.sums[above[other]]
        return found


@dataclass(frozen=True, eq=False)
class DiscountTables:
    """Discounts by place for a gallery of one size: `gain` is 1 / log2(place + 1), `inverse` is 1 / place."""

    gain: Discounts
    inverse: Discounts

    @classmethod
    def of(cls, gallery: int) -> DiscountTables:
        """Make the discounts for a gallery of this number of items."""
        places = np.arange(1, gallery + 1, dtype=np.float64)
        return cls(Discounts.of(1 / np.log2(places + 1)), Discounts.of(1 / places))


def order_columns(places: Places, items: Items, metrics: Iterable[Metric], tables: DiscountTables) -> dict[str, Column]:
    """Compute the columns (b,) of metrics of the whole order, in percent; NaN for queries without relevant items."""
    return {
        str(metric): 100 * _FORMS[metric.name](metric, places, items, tables)
        for metric in metrics
        if metric.name in _FORMS
    }


def ndcg(places: Places, items: Items, cutoff: Cutoff, tables: DiscountTables) -> Column:
    """Compute nDCG: the gain discounted by 1 / log2(place + 1), divided by that of the best order; see `Metric.cutoff`.

    The gain of an item is its degree of relevance. Every place of a stretch of t equal scores has the expected gain g /
    t, with g the sum of their degrees. Items that are not retrieved gain nothing, but are in the best order, which is
    cut where the ranking is. (Järvelin and Kekäläinen 2002; ties as McSherry and Najork 2008; the cut at R is that of
    EPIC-KITCHENS-100 multi-instance retrieval.)

    Returns:
        (b,) between 0 and 1, NaN for a query without an item.
    """
    found = np.bincount(items.query, minlength=places.queries)
    last = len(tables.gain.each) - 1
    cuts = found if cutoff == "R" else np.full(places.queries, last if cutoff is None else min(cutoff, last))
    cut = cuts[places.query]
    reached = tables.gain.between(np.minimum(places.above, cut), np.minimum(places.above + places.size, cut))
    gained = _sums(places.retrieved * places.degrees / places.size * reached, places.query, places.queries)
    with np.errstate(invalid="ignore"):
        return gained / _best_gain(items, found, cuts, tables)


def average_precision(places: Places, tables: DiscountTables, *, graded: bool = False) -> Column:
    """Compute average precision: the mean precision at the items of degree 1, 0 at one that is not retrieved.

    Precision at a place is the share of items up to there that are relevant. Strictly, those are the items of degree
    1. The form of the EPIC-KITCHENS-100 code (`graded`) sums the degrees of all items up to the place instead, while it
    still averages over the items of degree 1, and so scores higher: a random order there has 5.7 % and not 0.4 %.

    Given that place a + i of a stretch is relevant, the i - 1 items of the stretch before it are a random draw of its
    other t - 1, so precision there has the mean (C + 1 + (i - 1) (g - 1) / (t - 1)) / (a + i), with C the degrees above
    the stretch. (McSherry and Najork 2008 for the strict form.)

    Returns:
        (b,) between 0 and 1, NaN for a query without an item of degree 1.
    """
    held = places.degrees if graded else places.strict.astype(np.float64)
    inverse = tables.inverse.between(places.above, places.above + places.size)
    precision = (places.sums_before(held) + 1) * inverse
    tied = np.flatnonzero(places.size > 1)
    size = places.size[tied]
    delayed = size - (places.above[tied] + 1) * inverse[tied]  # the sum of (i - 1) / (a + i)
    precision[tied] += (held[tied] - 1) / (size - 1) * delayed
    terms = places.retrieved * places.strict / places.size * precision
    with np.errstate(invalid="ignore"):
        return _sums(terms, places.query, places.queries) / _sums(places.strict, places.query, places.queries)


def precision(places: Places, cutoff: int) -> Column:
    """Compute precision: items of degree 1 among the first `cutoff` places, divided by their number.

    The divisor stays the same where fewer items are retrieved, or are in the gallery, as in trec_eval.

    Returns:
        (b,) between 0 and 1, NaN for a query without an item of degree 1.
    """
    reached = np.minimum(places.above + places.size, cutoff) - np.minimum(places.above, cutoff)
    found = _sums(places.retrieved * places.strict / places.size * reached, places.query, places.queries)
    return np.where(_sums(places.strict, places.query, places.queries) > 0, found / cutoff, np.nan)


def _best_gain(items: Items, found: Indices, cuts: Indices, tables: DiscountTables) -> Column:
    """Gain of the order in which no lower degree stands before a higher one."""
    starts = np.cumsum(found) - found
    best = np.empty_like(items.degree)
    for start, count in zip(starts, found, strict=True):
        best[start : start + count] = np.sort(items.degree[start : start + count])[::-1]
    place = np.arange(len(best)) - starts[items.query]
    counted = place < cuts[items.query]
    return _sums(best * tables.gain.each[place] * counted, items.query, len(found))


def _sums(values: NDArray[np.float64] | Indices, query: Indices, queries: int) -> Column:
    return np.bincount(query, values, minlength=queries).astype(np.float64)


_Form = Callable[[Metric, Places, Items, DiscountTables], Column]

_FORMS: dict[str, _Form] = {
    "nDCG": lambda metric, places, items, tables: ndcg(places, items, metric.cutoff, tables),
    "mAP": lambda metric, places, items, tables: average_precision(places, tables),
    "mAP-EPIC": lambda metric, places, items, tables: average_precision(places, tables, graded=True),
    "P": lambda metric, places, items, tables: precision(places, cast("int", metric.cutoff)),
}
