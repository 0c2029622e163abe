"""Matching of queries with pseudo videos: TITAN's cross-modal rematching (section 3.2.1), and other methods.

One-way matching takes each query's best video, so a few hub videos draw many queries and others none. TITAN adds the
rank of the query among all queries of the video. Equation 5 asks for the 'highest' match degree; with 1 for the best
rank that is the least sum. The other methods are not from the paper: mutual nearest neighbours, an assignment with so
many queries a video (Kuhn 1955; `scipy.optimize.linear_sum_assignment`), and optimal transport (Cuturi 2013).

Everywhere minus infinity is a pair that cannot match.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from evenreel.arrays import Indices
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.rescoring import potentials

Match = Literal["one_way", "rank_sum", "mutual_nn", "hungarian", "sinkhorn"]
Table = NDArray[np.float64]

UNMATCHED = -1
"""The place of the video of a query that has none."""

MOST_CELLS = 2**27
"""Queries x places of videos in an assignment: a GiB of float64, and minutes of work."""

_ROUNDING = 1e-9
"""Two rank sums nearer than this share of their size are equal."""


@dataclass(frozen=True)
class MatchSettings:
    """Settings of matching queries with pseudo clips.

    Attributes:
        match: `rank_sum` (the paper), `one_way`, `mutual_nn`, `hungarian` or `sinkhorn`.
        alpha: for `rank_sum`, weight of the query's rank among all queries of a video, beside the video's rank for the
            query; 0 is `one_way`. (Equation 5, the paper's 1.)
        capacity: for `hungarian`, greatest number of queries that a video is matched to; None: the least with which
            every query is matched.
        temperature: for `sinkhorn`, temperature of the transport in units of the scores; near 0 it is an assignment.
        iterations: greatest number of rounds of the transport.

    Raises:
        UsageError: a setting is out of its range.
    """

    match: Match = "rank_sum"
    alpha: float = 1.0
    capacity: int | None = None
    temperature: float = 0.05
    iterations: int = 100

    def __post_init__(self) -> None:
        if self.match not in get_args(Match):
            raise UsageError(f"{self.match!r} is no way to match; there are: {', '.join(get_args(Match))}.")
        if not (_is_finite(self.alpha) and self.alpha >= 0):
            raise UsageError(f"alpha is {self.alpha!r}; it must be a number from 0 on.")
        if not (_is_finite(self.temperature) and self.temperature > 0):
            raise UsageError(f"temperature is {self.temperature!r}; it must be a number above 0.")
        for name in ("capacity", "iterations"):
            count = getattr(self, name)
            if not (isinstance(count, Integral) and int(count) >= 1) and (name, count) != ("capacity", None):
                raise UsageError(f"{name} is {count!r}; it must be a whole number from 1 on.")


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and isfinite(value)


def rematch(scores: NDArray[Any], settings: MatchSettings | None = None) -> Indices:
    """Match each query with its pseudo video.

    Of equal rank sums the one with the higher score wins, and of equal scores the earlier video; the latter holds for
    every method but `hungarian`, which may take either of two assignments with the same sum. Equal sums are frequent
    with alpha 1, and rank sums do not make sure that every video is matched.

    Args:
        scores: (Q, V) scores, higher is better.
        settings: method and its numbers; None for those of the paper.

    Returns:
        (Q,) index of each query's video; -1 for a query that can match no video, that is no video's best (`mutual_nn`),
            or for which no place is left (`hungarian` with a small capacity).

    Raises:
        ScoresError: the scores are no table of numbers below infinity, or too large for an assignment.

    >>> crowded = np.array([[0.9, 0.8], [0.8, 0.1]])
    >>> rematch(crowded).tolist(), rematch(crowded, MatchSettings("hungarian")).tolist()
    ([0, 0], [1, 0])
    >>> tied = np.array([[0.9, 0.8], [0.85, 0.84]])  # query 1 has the sums 3 and 3 with alpha 1, 5 and 4 with 2
    >>> rematch(tied).tolist(), rematch(tied, MatchSettings(alpha=2.0)).tolist()
    ([0, 0], [0, 1])
    >>> rematch(tied, MatchSettings("mutual_nn")).tolist()
    [0, -1]
    """
    settings, table = settings or MatchSettings(), _checked(scores)
    if settings.match == "one_way":
        return one_way(table)
    if settings.match == "rank_sum":
        return _least_sums(table, rank_sums(table, settings.alpha))
    if settings.match == "mutual_nn":
        return _mutual(table)
    if settings.match == "hungarian":
        return _assignment(table, settings.capacity)
    return one_way(transport_plan(table, settings.temperature, settings.iterations), least=0.0)


def one_way(scores: NDArray[Any], *, least: float = -np.inf) -> Indices:
    """Match each query with its best video, the earlier of equal ones; -1 where none is above `least`.

    Args:
        scores: (Q, V) scores, higher is better.
        least: score that a video must exceed.

    Returns:
        (Q,) index of each query's video.

    Raises:
        ScoresError: the scores are no table of numbers below infinity.

    >>> one_way(np.array([[0.1, 0.9, 0.9], [-np.inf, -np.inf, -np.inf]])).tolist()
    [1, -1]
    """
    table = _checked(scores)
    best = table.argmax(axis=1)
    return np.where(np.take_along_axis(table, best[:, None], axis=1)[:, 0] > least, best, UNMATCHED).astype(np.int64)


def rank_sums(scores: NDArray[Any], alpha: float = 1.0) -> Table:
    """Compute TITAN's rank sums: rank of the video for the query + alpha x rank of the query for the video (eq. 5).

    The least sum is the best match.

    Ranks begin with 1 for the best; equal scores share their mean rank.

    Args:
        scores: (Q, V) scores, higher is better.
        alpha: weight of the rank of the query for the video.

    Returns:
        (Q, V) rank sums; infinity for a pair that cannot match.

    Raises:
        ScoresError: the scores are no table of numbers below infinity.
        UsageError: alpha is below 0 or not finite.

    >>> rank_sums(np.array([[0.9, 0.8], [0.8, 0.1]])).tolist()
    [[2.0, 3.0], [3.0, 4.0]]
    >>> rank_sums(np.array([[0.9, 0.8], [0.85, 0.84]]), alpha=2.0).tolist()
    [[3.0, 6.0], [5.0, 4.0]]
    """
    MatchSettings(alpha=alpha)  # refuses what is none
    worse = -_checked(scores)
    sums = np.asarray(rankdata(worse, axis=0), dtype=np.float64)
    sums *= alpha
    sums += rankdata(worse, axis=1)
    sums[worse == np.inf] = np.inf
    return sums


def transport_plan(scores: NDArray[Any], temperature: float, iterations: int) -> Table:
    """Compute the optimal transport plan (Q, V) of queries to videos (Cuturi 2013).

    The plan has the largest mean score + temperature x entropy of those whose rows sum to 1 / Q and whose columns sum
    to 1 / V. With fewer queries than videos a column sums to at most 1 / Q instead, as much as one query: equal shares
    would spread each query over several videos whatever its scores. Rows have their sum exactly, columns as far as the
    iterations went. Queries and videos that can match nothing get 0. It is computed in logarithms, so a low temperature
    does not underflow.

    Args:
        scores: (Q, V) scores, higher is better.
        temperature: temperature above 0, in units of the scores.
        iterations: greatest number of rounds; fewer are run where a round changes nothing.

    Returns:
        (Q, V) from 0 to 1, with the sum 1, or all 0 where nothing can match.

    Raises:
        ScoresError: the scores are no table of numbers below infinity.
        UsageError: temperature or iterations are out of their range.

    >>> transport_plan(np.array([[0.9, 0.8], [0.8, 0.1]]), 0.1, 100).round(3).tolist()  # (a / b)^2 = exp(-0.6 / 0.1)
    [[0.024, 0.476], [0.476, 0.024]]
    """
    MatchSettings(temperature=temperature, iterations=iterations)  # refuses what is none
    table = _checked(scores)
    possible = table > -np.inf
    rows, columns = np.flatnonzero(possible.any(axis=1)), np.flatnonzero(possible.any(axis=0))
    plan = np.zeros(table.shape)
    if len(rows):
        plan[np.ix_(rows, columns)] = _plan(table[np.ix_(rows, columns)] / temperature, iterations)
    return plan


def _plan(kernel: Table, iterations: int) -> Table:
    """(q, v) logarithms, of which each row and each column has a finite one."""
    of_queries, of_items = potentials(kernel, iterations)
    return np.asarray(np.exp(kernel + of_items + of_queries[:, None]))


def _least_sums(table: Table, sums: Table) -> Indices:
    """The least sum of each row; of equal ones the highest score, then the earliest."""
    near = sums <= sums.min(axis=1, keepdims=True) * (1 + _ROUNDING)
    return one_way(np.where(near, table, -np.inf))


def _mutual(table: Table) -> Indices:
    """Each video's best query, where that video is also its best."""
    asked = table.argmax(axis=0)
    own = table[asked, np.arange(table.shape[1])]
    held = np.flatnonzero((own > -np.inf) & (own == table.max(axis=1)[asked]))[::-1]
    matches = np.full(len(table), UNMATCHED, dtype=np.int64)
    matches[asked[held]] = held  # the earliest of equal videos is written last
    return matches


def _assignment(table: Table, capacity: int | None) -> Indices:
    """The most pairs that can match, and of all ways to have these the one with the largest sum of scores."""
    queries, videos = table.shape
    each = min(capacity or -(-queries // videos), queries)
    if table.size * each > MOST_CELLS:
        raise ScoresError(
            f"An assignment of {queries:,} queries to {videos:,} videos with {each:,} places each is a table of "
            f"{table.size * each:,} fields, above the limit of {MOST_CELLS:,}; take fewer queries at a time, a smaller "
            "capacity, or match by rank_sum or sinkhorn."
        )
    finite = table > -np.inf
    values = table[finite]
    # No sum of differences is worth a pair, so those that cannot match are only ever used where nothing else is left.
    out_of_reach = values.min(initial=0.0) - (np.ptp(values) if values.size else 0.0) * queries - 1.0
    wide = np.repeat(np.where(finite, table, out_of_reach), each, axis=1)
    rows, places = linear_sum_assignment(wide, maximize=True)
    columns = places // each
    matches = np.full(queries, UNMATCHED, dtype=np.int64)
    held = finite[rows, columns]
    matches[rows[held]] = columns[held]
    return matches


def _checked(scores: NDArray[Any]) -> Table:
    """Scores as float64, none of them NaN or infinity."""
    table = np.asarray(scores)
    if table.ndim != 2 or 0 in table.shape or table.dtype.kind not in "fiub":
        raise ScoresError(
            f"The scores to match by are an array of {table.dtype} with the shape {table.shape}; they must be numbers, "
            "a query a row and a video a column, of one each at least."
        )
    table = table.astype(np.float64, copy=False)
    if not table.max() < np.inf:  # NaN too
        row, column = np.argwhere(~(table < np.inf))[0]
        raise ScoresError(
            f"The score of query {row} and video {column} is {table[row, column]}; it must be a number, or minus "
            "infinity where they cannot match."
        )
    return table
