"""Adaptation by a rotation of captions towards the clips that an optimal transport assigns to them, without labels.

Where another domain words or shows things differently, the map between captions and clips is rotated as a whole.
Thousands of labels that are mostly wrong say little about each pair and much about such a rotation: errors go in all
directions, right labels in one. So single weights are not trained on the labels; of all rotations of the captions the
one is taken that agrees most with them (orthogonal Procrustes, Schoenemann 1966), as dictionaries of two languages are
found from their vectors alone (Conneau et al., arXiv 1710.04087).

Frequent queries would dominate the labels. So similar queries are grouped and each group counts once, and the transport
assigns every clip to about as many groups as any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from evenreel.adaptation.titan.matching import transport_plan
from evenreel.arrays import Indices, slices
from evenreel.errors import UsageError
from evenreel.matchers.adapter import Adapted, ResidualMap
from evenreel.types import FloatArray

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
