"""Metrics of grades: nDCG whose gain is 2^grade - 1, and the expected reciprocal rank.

A degree of relevance d is the grade 4 d: 4 is the highest grade of gdeval, TREC's own script for both. Its figures come
out where the highest grade of the judgements is 4; others are stretched to 4.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Indices
from evenreel.evaluation.blocks import Items
from evenreel.evaluation.metrics import Metric
from evenreel.evaluation.ordered import DiscountTables, ndcg
from evenreel.evaluation.places import Places, find_places, place_each
from evenreel.evaluation.settings import Ties

HIGHEST_GRADE = 4
"""The grade of an item of full relevance (degree 1)."""

_HIGHEST_GAIN = 2.0**HIGHEST_GRADE - 1


def exponential_gains(items: Items) -> Items:
    """Return relevant items with the gain (2^grade - 1) / 15 for a degree; that of full relevance stays 1.

    >>> exponential_gains(Items(np.array([0, 0]), np.array([1, 2]), np.array([1.0, 0.5]))).degree.tolist()
    [1.0, 0.2]
    """
    return Items(items.query, items.item, (2.0 ** (HIGHEST_GRADE * items.degree) - 1) / _HIGHEST_GAIN)


def grade_columns(
    scores: NDArray[Any], items: Items, metrics: tuple[Metric, ...], ties: Ties, tables: DiscountTables
) -> dict[str, Column]:
    """Compute the columns (b,) of the metrics of grades, in percent; NaN for queries without relevant items.

    Args:
        scores: (b, n), a query a row, without NaN.
        items: relevant items of these queries.
        metrics: metrics, of which those of grades are computed.
        ties: how items with equal scores are ranked.
        tables: discounts for the size of the gallery.
    """
    gains = exponential_gains(items)
    columns = {}
    if exponential := [metric for metric in metrics if metric.exponential]:
        places = find_places(scores, gains, ties)
        columns = {str(metric): 100 * ndcg(places, gains, metric.cutoff, tables) for metric in exponential}
    if cascades := [metric for metric in metrics if metric.name == "ERR"]:
        each, last = place_each(scores, gains, ties), scores.shape[1]
        for metric in cascades:
            cutoff = metric.cutoff if isinstance(metric.cutoff, int) else last
            columns[str(metric)] = 100 * expected_reciprocal_rank(each, min(cutoff, last))
    return columns


def expected_reciprocal_rank(each: Places, cutoff: int) -> Column:
    """Compute the expected reciprocal rank: the mean of 1 / place at which a user who reads down is satisfied, else 0.

    An item of grade g satisfies with probability (2^g - 1) / 16, whatever came before. (Chapelle et al. 2009, eq. 4; in
    the form of gdeval.)

    Args:
        each: places of the relevant items, a row each (`place_each`), with gains (`exponential_gains`) as degrees.
        cutoff: number of first places that count.

    Returns:
        (b,) between 0 and 1, NaN for a query without an item.
    """
    satisfied = each.degrees * each.retrieved * _HIGHEST_GAIN / 2.0**HIGHEST_GRADE
    changes = (each.query[1:] != each.query[:-1]) | (each.above[1:] != each.above[:-1])
    starts = np.flatnonzero(np.append(np.ones(min(len(each.query), 1), np.bool_), changes))
    query, above, size = each.query[starts], each.above[starts], each.size[starts]
    terms = np.where(above < cutoff, satisfied[starts] / (above + 1), 0.0)
    ends = np.append(starts, len(satisfied))
    for number in np.flatnonzero(size > 1):
        stretch = satisfied[ends[number] : ends[number + 1]]
        terms[number] = _tied(stretch, int(size[number]), int(above[number]), cutoff)
    unsatisfied = np.multiply.reduceat(1 - satisfied, starts) if len(starts) else satisfied
    terms *= _products_before(unsatisfied, np.searchsorted(query, np.arange(each.queries + 1)))
    found = np.bincount(query, terms, each.queries)
    return np.where(np.bincount(query, minlength=each.queries) > 0, found, np.nan)


def _tied(satisfied: Column, size: int, above: int, cutoff: int) -> float:
    """Sum of the chance of being satisfied at each place, by place, of a stretch of equal scores in random order.

    The chance that none of i items satisfies is the mean, over all draws of i of the `size` items, of the product of
    theirs; an item that joins s others is among the i drawn with probability i / (s + 1).
    """
    counted = min(size, cutoff - above)
    if counted <= 0:
        return 0.0
    drawn = np.arange(counted + 1)
    going_on = np.ones(counted + 1)
    for joined, chance in enumerate(1 - satisfied, start=size - len(satisfied) + 1):
        share = np.minimum(drawn / joined, 1.0)
        going_on = (1 - share) * going_on + share * chance * np.append(1.0, going_on[:-1])
    return float(((going_on[:-1] - going_on[1:]) / (above + drawn[1:])).sum())


def _products_before(values: Column, starts: Indices) -> Column:
    """Product of the values of a query's stretches above each."""
    before = np.ones_like(values)
    for start, stop in pairwise(starts):
        before[start + 1 : stop] = np.cumprod(values[start : max(start, stop - 1)])
    return before
