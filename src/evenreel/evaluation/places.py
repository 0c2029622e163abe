"""Places of the relevant items in rankings, where items with equal scores share a stretch of places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.evaluation.blocks import Items
from evenreel.evaluation.settings import Ties


@dataclass(frozen=True, eq=False)
class Places:
    """Stretches of equal scores that hold relevant items, best first, query by query.

    A stretch takes the places `above` + 1 to `above` + `size` of its query's ranking, its items in random order.

    Attributes:
        queries: b, number of queries.
        query: (s,) query of each stretch, ascending.
        above: (s,) items of the query with a higher score, ascending within a query.
        size: (s,) items in the stretch, relevant or not.
        strict: (s,) items of full relevance (degree 1).
        degrees: (s,) sum of the degrees of relevance in the stretch.
        retrieved: (s,) False where the score is minus infinity: such items have places, since a rank must exist, but
            count as not found.
    """

    queries: int
    query: Indices
    above: Indices
    size: Indices
    strict: Indices
    degrees: NDArray[np.float64]
    retrieved: NDArray[np.bool_]

    @property
    def starts(self) -> Indices:
        """Return, for b queries, the index (b + 1,) of each one's first stretch, and at last their number."""
        return np.searchsorted(self.query, np.arange(self.queries + 1))

    def sums_before(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum values (s,) of stretches over those above each in its query's ranking: (s,)."""
        before = np.zeros_like(values)
        for start, stop in pairwise(self.starts):  # a running sum a query; one over all of them would lose digits
            np.cumsum(values[start : max(start, stop - 1)], out=before[start + 1 : max(start + 1, stop)])
        return before


def find_places(scores: NDArray[Any], items: Items, ties: Ties = "expected") -> Places:
    """Find the places of relevant items in the rankings of their queries, as stretches of equal scores.

    >>> items = Items(np.array([0, 0]), np.array([1, 2]), np.array([1.0, 0.5]))
    >>> places = find_places(np.array([[9, 5, 5, 5, 1]]), items)
    >>> places.above.tolist(), places.size.tolist(), places.strict.tolist(), places.degrees.tolist()
    ([1], [3], [1], [1.5])
    >>> find_places(np.array([[9, 5, 5, 5, 1]]), items, "pessimistic").above.tolist()
    [2, 3]
    """
    values, degrees = _best_first(scores, items)
    above, size = _above_and_equal(scores, items.query, values)
    each = Places(len(scores), items.query, above, size, (degrees == 1).astype(np.int64), degrees, values > -np.inf)
    return _stretches(each) if ties == "expected" else _break_ties(each, ties)


def best_items(scores: NDArray[Any], items: Items) -> Items:
    """Select the items of full relevance that have the best score of their query, on which the first hit depends."""
    strict = items.where(items.degree == 1)
    values = scores[strict.query, strict.item]
    starts = np.flatnonzero(np.diff(strict.query, prepend=-1))
    best = np.maximum.reduceat(values, starts) if len(starts) else values
    return strict.where(values == np.repeat(best, np.diff(starts, append=len(values))))


def _best_first(scores: NDArray[Any], items: Items) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Scores and degrees of the items, those of each query by falling score."""
    values = scores[items.query, items.item]
    order = np.arange(len(values))
    for start, stop in pairwise(np.searchsorted(items.query, np.arange(len(scores) + 1))):
        if stop - start > 1:
            order[start:stop] = start + np.argsort(values[start:stop])[::-1]
    return values[order], items.degree[order]


def _above_and_equal(scores: NDArray[Any], query: Indices, values: NDArray[Any]) -> tuple[Indices, Indices]:
    """Count, for each item, the gallery's scores above it and equal to it, itself among them."""
    if ((query[1:] == query[:-1]) & (values[1:] != values[:-1])).any():
        return _looked_up(scores, query, values)
    return _counted(scores, query, values)


def _counted(scores: NDArray[Any], query: Indices, values: NDArray[Any]) -> tuple[Indices, Indices]:
    """One score a query: comparing it with all is cheaper than any sort."""
    level = np.zeros((len(scores), 1), scores.dtype)
    level[query, 0] = values
    return (scores > level).sum(axis=1)[query], (scores == level).sum(axis=1)[query]


def _looked_up(scores: NDArray[Any], query: Indices, values: NDArray[Any]) -> tuple[Indices, Indices]:
    """Many scores a query: sort its row once, without any index, and look each of them up."""
    ordered = np.sort(scores, axis=1)
    stop = _search(ordered, query, values, "right")
    begin = stop - 1
    tied = np.flatnonzero((begin > 0) & (ordered[query, begin - 1] == values))
    begin[tied] = _search(ordered, query[tied], values[tied], "left")
    return scores.shape[1] - stop, stop - begin


def _search(ordered: NDArray[Any], query: Indices, values: NDArray[Any], side: Literal["left", "right"]) -> Indices:
    places = np.empty(len(query), np.int64)
    ends = np.searchsorted(query, np.arange(len(ordered) + 1))
    for row, start, stop in zip(ordered, ends, ends[1:], strict=False):
        places[start:stop] = row.searchsorted(values[start:stop], side)
    return places


def _stretches(each: Places) -> Places:
    """Items of one score joined."""
    if len(each.query) == 0:
        return each
    first = np.ones(len(each.query), np.bool_)
    first[1:] = (each.query[1:] != each.query[:-1]) | (each.above[1:] != each.above[:-1])
    if first.all():
        return each
    starts = np.flatnonzero(first)
    return Places(
        each.queries, each.query[starts], each.above[starts], each.size[starts],
        np.add.reduceat(each.strict, starts), np.add.reduceat(each.degrees, starts), each.retrieved[starts],
    )  # fmt: skip


def _break_ties(each: Places, ties: Ties) -> Places:
    """Items of one score in a row, the more relevant nearer to the end that the rule favours."""
    favoured = -each.degrees if ties == "optimistic" else each.degrees
    order = np.lexsort((favoured, each.above, each.query))
    each = replace(each, strict=each.strict[order], degrees=each.degrees[order])
    stretch = each.query * (each.above.max(initial=0) + 1) + each.above
    starts = np.searchsorted(stretch, stretch)
    after = np.arange(len(stretch)) - starts
    if ties == "pessimistic":
        relevant = np.searchsorted(stretch, stretch, "right") - starts
        after += each.size - relevant
    return replace(each, above=each.above + after, size=np.ones_like(each.size))
