"""Which faces are of one person: joined to the groups that are known, and the rest grouped by Chinese whispers.

A face joins the group to whose faces it is nearest on average, if that is at least the threshold; so groups grow, and
what a person has named or corrected stays. The others are grouped among themselves by Chinese whispers (Biemann 2006):
every face is a node, two faces of at least the threshold an edge of that weight, and each node in turn takes the label
that weighs most among its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evenreel.arrays import Indices, slices
from evenreel.types import FloatArray

SAME_PERSON = 0.363
"""Least cosine similarity of two faces of one person by SFace, as OpenCV's documentation states it (on LFW)."""

ROUNDS = 20
NEIGHBOURS = 64
"""Most edges that are kept of a face, the heaviest."""

_CELLS = 2**24
"""Most similarities that are in memory at a time."""


def join_groups(
    faces: FloatArray, means: FloatArray, refused: Mapping[int, frozenset[int]], threshold: float = SAME_PERSON
) -> Indices:
    """Find the group that each face is nearest to, (N,); -1 where none is near enough."""
    joined = np.full(len(faces), -1, np.int64)
    if not len(means):
        return joined
    for tile in slices(len(faces), max(1, _CELLS // len(means))):
        start, nearness = tile.start, faces[tile] @ means.T
        for row, groups in refused.items():
            if start <= row < start + len(nearness):
                nearness[row - start, sorted(groups)] = -np.inf
        best = nearness.argmax(axis=1)
        near = nearness[np.arange(len(best)), best] >= threshold
        joined[tile] = np.where(near, best, -1)
    return joined


def chinese_whispers(faces: FloatArray, threshold: float = SAME_PERSON, seed: int = 0) -> Indices:
    """Group faces: a label for each, (N,), 0, 1, ... in the order in which they first occur; equal input."""
    neighbours = _neighbours(faces, threshold)
    labels = np.arange(len(faces))
    rng = np.random.default_rng(seed)
    for _ in range(ROUNDS):
        before = labels.copy()
        for node in rng.permutation(len(faces)):
            others, weights = neighbours[node]
            if len(others):
                heard, place = np.unique(labels[others], return_inverse=True)
                labels[node] = heard[np.bincount(place, weights).argmax()]
        if np.array_equal(labels, before):
            break
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first, kind="stable"), kind="stable")[place], np.int64)


def _neighbours(faces: FloatArray, threshold: float) -> list[tuple[Indices, FloatArray]]:
    """The heaviest edges of each face: its neighbours, and how similar they are."""
    found = []
    for tile in slices(len(faces), max(1, _CELLS // max(1, len(faces)))):
        for row, weights in enumerate(faces[tile] @ faces.T, start=tile.start):
            weights[row] = -np.inf  # a face is no neighbour of its own
            near = np.flatnonzero(weights >= threshold)
            if len(near) > NEIGHBOURS:
                near = np.sort(near[np.argsort(-weights[near], kind="stable")[:NEIGHBOURS]])
            found.append((near, weights[near]))
    return found
