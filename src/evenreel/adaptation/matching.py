"""Other ways than TITAN's to match queries with pseudo videos, and a rotation of all captions towards their matches.

One-way matching takes each query's best video, so a few hub videos draw many queries and others none. Not from the
paper are mutual nearest neighbours, an assignment with so many queries a video (Kuhn 1955;
`scipy.optimize.linear_sum_assignment`), and optimal transport (Cuturi 2013). Everywhere minus infinity is a pair that
cannot match.

The rotation is ours. Where another domain words or shows things differently, the map between captions and clips is
rotated as a whole. Thousands of labels that are mostly wrong say little about each pair and much about such a rotation:
errors go in all directions, right labels in one. So single weights are not trained on the labels; of all rotations of
the captions the one is taken that agrees most with them (orthogonal Procrustes, Schoenemann 1966), as dictionaries of
two languages are found from their vectors alone (Conneau et al., arXiv 1710.04087).

Frequent queries would dominate the labels. So similar queries are grouped and each group counts once, and the transport
assigns every clip to about as many groups as any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import nn

from evenreel.arrays import Indices, slices
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.rescoring import potentials
from evenreel.matchers.adapter import Adapted, ResidualMap
from evenreel.types import FloatArray

Table = NDArray[np.float64]

UNMATCHED = -1
"""The place of the video of a query that has none."""

MOST_CELLS = 2**27
"""Queries x places of videos in an assignment: a GiB of float64, and minutes of work."""


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
    table = checked_scores(scores)
    best = table.argmax(axis=1)
    return np.where(np.take_along_axis(table, best[:, None], axis=1)[:, 0] > least, best, UNMATCHED).astype(np.int64)


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
    if not (0 < temperature < np.inf and iterations >= 1):
        raise UsageError(
            f"A transport has the temperature {temperature} and {iterations} rounds; give a number above 0, and one "
            "round or more."
        )
    table = checked_scores(scores)
    possible = table > -np.inf
    rows, columns = np.flatnonzero(possible.any(axis=1)), np.flatnonzero(possible.any(axis=0))
    plan = np.zeros(table.shape)
    if len(rows):
        kernel = table[np.ix_(rows, columns)] / temperature
        of_queries, of_items = potentials(kernel, iterations)
        plan[np.ix_(rows, columns)] = np.exp(kernel + of_items + of_queries[:, None])
    return plan


def mutual_nn(table: Table) -> Indices:
    """Each video's best query, where that video is also its best."""
    asked = table.argmax(axis=0)
    own = table[asked, np.arange(table.shape[1])]
    held = np.flatnonzero((own > -np.inf) & (own == table.max(axis=1)[asked]))[::-1]
    matches = np.full(len(table), UNMATCHED, dtype=np.int64)
    matches[asked[held]] = held  # the earliest of equal videos is written last
    return matches


def assignment(table: Table, capacity: int | None) -> Indices:
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


def checked_scores(scores: NDArray[Any]) -> Table:
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


AT_ONCE = 1_024
"""Queries whose cosines with all others are computed at a time."""

ROUNDS = 5
"""Of assigning clips and turning captions."""

TRANSPORT_ROUNDS = 20
"""Of a transport at most."""

STAY = 1.0
"""Weight of leaving captions as they are, see `rotation_towards`."""


def alike_groups(vectors: FloatArray, least: float) -> Indices:
    """Group similar queries around those that are similar to most others.

    Args:
        vectors: (Q, D) unit vectors.
        least: least cosine, after the mean of all is subtracted, of two similar queries. A query joins the first group
            whose centre it is similar to; the first centre is the query similar to most others.

    Returns:
        (Q,) number of each query's group, from 0.

    >>> alike_groups(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [-1.0, -2.0]]), 0.9).tolist()
    [1, 0, 0, 2]
    """
    centred = _around_mean(vectors)
    parts = (centred[rows] @ centred.T >= least for rows in slices(len(centred), AT_ONCE))
    near = [np.flatnonzero(row) for part in parts for row in part]
    groups, count = np.full(len(vectors), -1, np.int64), 0
    for row in np.argsort([-len(one) for one in near], kind="stable"):
        if groups[row] < 0:
            own = near[row]
            groups[own[groups[own] < 0]] = count
            groups[row] = count
            count += 1
    return groups


def group_means(vectors: FloatArray, groups: Indices) -> FloatArray:
    """Compute the mean vector (G, D) of each group, scaled to unit length."""
    sums = np.zeros((int(groups.max()) + 1, vectors.shape[1]), vectors.dtype)
    np.add.at(sums, groups, vectors)
    means: FloatArray = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    return means


def rotation_towards(captions: FloatArray, clips: FloatArray, plan: NDArray[np.floating], stay: float) -> FloatArray:
    """Find the rotation R (D, D) under which captions (as rows, caption R) agree most with clips, by a transport plan.

    It maximises the sum over all pairs of plan x cosine of (caption R, clip), plus `stay` times the median singular
    value of that sum for each direction that is not rotated.

    Args:
        captions: (G, D) unit vectors.
        clips: (V, D) unit vectors.
        plan: (G, V) share of each caption that goes to each clip.
        stay: weight of rotating nothing; 0 for none.
    """
    agreement = captions.T @ (plan @ clips)
    middle = np.median(np.linalg.svd(agreement, compute_uv=False))
    left, _, right = np.linalg.svd(agreement + stay * middle * np.eye(len(agreement)))
    found: FloatArray = left @ right
    return found


def labelled_rotation(queries: FloatArray, clips: FloatArray, alike: float, temperature: float) -> FloatArray:
    """Find the rotation (D, D) of captions towards the clips that an optimal transport assigns to groups of queries.

    Assignment and rotation are repeated `ROUNDS` times, on vectors less the means of captions and of clips.

    Args:
        queries: (Q, D) unit vectors.
        clips: (V, D) unit vectors.
        alike: least cosine of two queries of one group, see `alike_groups`.
        temperature: temperature of the transport, in units of cosines.
    """
    asked = _around_mean(group_means(queries, alike_groups(queries, alike)))
    shown, rotation = _around_mean(clips), np.eye(queries.shape[1], dtype=queries.dtype)
    for _ in range(ROUNDS):
        plan = transport_plan(asked @ rotation @ shown.T, temperature, TRANSPORT_ROUNDS)
        rotation = rotation_towards(asked, shown, plan, STAY)
    return rotation


def caption_map(matcher: Any) -> ResidualMap:
    """Return the linear map of captions, in a matcher's adapter, that a rotation can be merged into.

    Raises:
        UsageError: the matcher has no linear map of captions alone.
    """
    kept = isinstance(matcher, Adapted) and matcher.text_map is not matcher.frame_map
    found = matcher.text_map if kept else None
    if not isinstance(found, ResidualMap) or len(found.change) != 1:
        raise UsageError(
            "A rotation becomes a part of the linear map of captions, and this matcher has none of its own; train it "
            "with an adapter of the kind linear that is not shared, or adapt it by pseudo-labels."
        )
    return found


def rotate_captions(matcher: Any, rotation: FloatArray) -> None:
    """Rotate the captions of a matcher by R (D, D), by merging it into the weights of its linear map of captions.

    Raises:
        UsageError: the matcher has no linear map of captions alone.
    """
    own = caption_map(matcher)
    last = own.change[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        turn = torch.from_numpy(rotation).to(last.weight)
        skip = torch.eye(len(turn), dtype=turn.dtype, device=turn.device)
        last.weight.copy_(turn.T @ (skip + last.weight) - skip)
        last.bias.copy_(turn.T @ last.bias)


def _around_mean(vectors: FloatArray) -> FloatArray:
    """(N, D) less their mean, of unit length."""
    centred: FloatArray = vectors - vectors.mean(0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    return centred
