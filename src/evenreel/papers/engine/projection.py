"""Vectors of clips in a plane, and whether their groups lie apart where they really are (Generative Ghost, Figure 5).

A t-SNE picture shows clusters that depend on its settings, and may draw apart what is not (van der Maaten and Hinton,
JMLR 9, 2008), so it comes with two figures from the full space. Mind what is drawn: differences of vectors, such as
p-vectors, lie near zero and clips on the unit sphere, so they part in any picture; and a constant added to a group
makes a cluster of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import UsageError

MOST_POINTS = 2000
"""Points a group that t-SNE is asked to place; it takes about a minute for 5,000 of them on one core."""

PCA_DIMENSIONS = 50
"""What vectors are reduced to before t-SNE, as its authors do (section 4.2)."""

PERPLEXITY = 30.0
FEWEST_POINTS = 4
BAND_MIB = 64
SAME = 1e-6
"""Distances that differ by less than this share of the largest norm are ties: rounding alone parts them."""


@dataclass(frozen=True)
class Separation:
    """How far groups of vectors lie apart, beside what chance would give.

    Attributes:
        neighbours: k, how many of each vector's nearest ones are looked at.
        agreement: mean share of these that are of the vector's own group; ties count as they would on average.
        chance: the same where groups are given out at random. Clips may lie below it: where each is nearest to its own
            mirror, neighbours are of the other group.
        silhouette: mean silhouette, -1 to 1, with Euclidean distances: near 0 where groups overlap.
    """

    neighbours: int
    agreement: float
    chance: float
    silhouette: float


def draw_points(groups: Sequence[str], seed: int = 0, most: int = MOST_POINTS) -> NDArray[np.int64]:
    """Draw rows that are few enough to project, in their order: at most `most` of each group.

    Args:
        groups: name of the group of each of N vectors.
        seed: seed of the draw; groups of one size are drawn alike, so that clips stay with their mirrors where both
            groups have them in the same order.
        most: most points of a group.

    >>> draw_points(["a", "b", "a", "b", "b"], most=2).tolist()
    [0, 2, 3, 4]
    """
    labels = np.array(groups)
    rows = [np.flatnonzero(labels == group) for group in dict.fromkeys(groups)]
    kept = [
        some if len(some) <= most else np.random.default_rng(seed).choice(some, most, replace=False) for some in rows
    ]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *kept]))


def project(vectors: NDArray[Any], *, perplexity: float | None = None) -> NDArray[np.float32]:
    """Place vectors in a plane by t-SNE, (N, D) -> (N, 2); the same bytes in each run on one machine.

    Vectors of more than 50 dimensions are first reduced to these by PCA. Points start at their first two principal
    components, so nothing is random. It works on one core, because several would add in another order each time.

    Args:
        vectors: (N, D), at least 4 of at least 2 dimensions.
        perplexity: about how many neighbours a point has; None for 30, or a third of the others where they are few.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    values = _checked(vectors)
    perplexity = min(PERPLEXITY, (len(values) - 1) / 3) if perplexity is None else perplexity
    if not 0 < perplexity < len(values):
        raise UsageError(f"The perplexity is {perplexity}; for {len(values):,} vectors it must lie between 0 and that.")
    with threadpool_limits(1):
        if values.shape[1] > PCA_DIMENSIONS:
            fewer = min(PCA_DIMENSIONS, len(values))
            values = PCA(fewer, random_state=0).fit_transform(values)
        placed = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(values)
    return np.asarray(placed, np.float32)


def separation(vectors: NDArray[Any], groups: Sequence[str], neighbours: int = 10) -> Separation:
    """Measure whether groups of vectors lie apart in the full space, in memory that does not grow with N x N.

    Args:
        vectors: (N, D) vectors.
        groups: name of the group of each of the N vectors; at least two groups.
        neighbours: number k of nearest vectors, fewer than N.
    """
    values = _finite(vectors)
    names, labels, sizes = np.unique(np.array(groups), return_inverse=True, return_counts=True)
    count = len(values)
    if len(labels) != count or not 2 <= len(names) < count:
        raise UsageError(
            f"{count:,} vectors with {len(labels):,} labels of {len(names):,} groups cannot be compared; give each its "
            "label, at least two groups, and more vectors than groups."
        )
    if not 1 <= neighbours < count:
        raise UsageError(f"The nearest {neighbours} of {count:,} vectors were asked for; ask for 1 to {count - 1}.")
    chance = float((sizes * (sizes - 1)).sum() / (count * (count - 1)))
    return Separation(neighbours, _agreement(values, labels, neighbours), chance, _silhouette(values, labels))


def _agreement(values: NDArray[np.float64], labels: NDArray[np.int64], neighbours: int) -> float:
    """Mean share of the nearest that are of the own group; those that are tied at the last place count in part."""
    from sklearn.metrics import pairwise_distances_chunked

    grid = SAME * np.linalg.norm(values, axis=1).max() or 1.0

    def shares(distances: NDArray[np.float64], start: int) -> NDArray[np.float64]:
        rows = np.arange(len(distances))
        steps = np.round(distances / grid)
        steps[rows, start + rows] = np.inf  # nobody is a neighbour of itself
        last = np.partition(steps, neighbours - 1, axis=1)[:, neighbours - 1 : neighbours]
        own = labels[start + rows, None] == labels
        nearer, tied = steps < last, steps == last
        places = neighbours - nearer.sum(axis=1)
        expected = places * (tied & own).sum(axis=1) / tied.sum(axis=1)
        return np.asarray(((nearer & own).sum(axis=1) + expected) / neighbours)

    bands = pairwise_distances_chunked(values, reduce_func=shares, working_memory=BAND_MIB)
    return float(np.concatenate(list(bands)).mean())


def _silhouette(values: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    from sklearn import config_context
    from sklearn.metrics import silhouette_score

    if not np.ptp(values, axis=0).any():  # else rounding would part them
        return 0.0
    with config_context(working_memory=BAND_MIB):
        return float(silhouette_score(values, labels))


def _checked(vectors: NDArray[Any]) -> NDArray[np.float64]:
    values = _finite(vectors)
    if len(values) < FEWEST_POINTS or values.shape[1] < 2:
        raise UsageError(
            f"{len(values)} vectors of {values.shape[1]} dimensions cannot be projected; give at least {FEWEST_POINTS} "
            "of at least 2."
        )
    if not np.ptp(values, axis=0).any():
        raise UsageError(f"All {len(values):,} vectors are the same; there is nothing to be seen in their projection.")
    return values


def _finite(vectors: NDArray[Any]) -> NDArray[np.float64]:
    values = np.asarray(vectors, np.float64)
    if values.ndim != 2:
        raise UsageError(f"Vectors of the shape {values.shape} cannot be compared; give a table with one a row.")
    if not np.isfinite(values).all():
        raise UsageError(f"Vector {int(np.argwhere(~np.isfinite(values))[0, 0])} has a component that is no number.")
    return values
