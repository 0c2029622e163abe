"""Backgrounds of clips, found without labels, and exchanged between clips in training.

Not from a paper: counterfactual pairs in feature space. Where a kind of place goes with what captions name in the
training clips and not in others, a model may look for the place. If a clip's caption still belongs to it before the
background of any other clip, the place says nothing any more; what has to be known for that is what of a clip's
features is its background. Here it is what clips of one cluster share beyond what their captions say: with the mean
frame x, the caption's vector s and the cluster k of a clip,

    x = W s + b_k + rest

W and b are those of least squares, clusters are k-means of x - W s, and both are found in turn. Without W the mean of a
cluster holds a part of what its clips are captioned with, and taking that away teaches the reverse of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.errors import UsageError
from evenreel.types import FloatArray

ROUNDS = 3
"""How often clusters and W are found in turn."""
RIDGE = 1e-3
"""Ridge of the least squares, in times of the mean variance of a number of captions."""
_AT_ONCE = 5
"""Steps of k-means in each round after the first."""


class Backgrounds(NamedTuple):
    """Estimated backgrounds of V clips, as the mean features of clusters."""

    clusters: Indices  # (V,) cluster of each clip, from 0
    means: FloatArray  # (K, D) features that the clips of each cluster share beyond what their captions explain

    def exchanged(self, rows: Indices, share: float, rng: np.random.Generator) -> FloatArray:
        """Draw the vectors (B, D) that, added to the frames of B clips, give them one another's backgrounds.

        Args:
            rows: (B,) rows of the clips; they exchange backgrounds among themselves.
            share: probability that a clip gets another one's background, 0 to 1.
            rng: generator of the draws.

        Returns:
            (B, D), zero for clips that keep their own.
        """
        own = self.means[self.clusters[rows]]
        changed = rng.random(len(rows)) < share
        return np.where(changed[:, None], own[rng.permutation(len(rows))] - own, np.float32(0))


def estimated_backgrounds(clips: NDArray[Any], captions: NDArray[Any], count: int, seed: int = 0) -> Backgrounds:
    """Estimate backgrounds: the features that clips of one cluster share beyond what their captions explain.

    Args:
        clips: (V, D) mean frame of each clip.
        captions: (V, E) vector of the caption of each clip, or the mean of those of several.
        count: number K of clusters. More than there are kinds of backgrounds do no harm as long as there are many
            clips in each.
        seed: seed of the clusters that k-means begins with.

    Raises:
        UsageError: there are fewer clips than clusters, captions without vectors, or numbers that are not finite.
    """
    from sklearn.cluster import KMeans

    if not captions.shape[1]:
        raise UsageError("Captions have no vectors here; what a clip shows beyond its caption cannot be told without.")
    if len(clips) < count:
        raise UsageError(f"{len(clips):,} clips cannot be divided into {count:,} kinds of background.")
    if not (np.isfinite(clips).all() and np.isfinite(captions).all()):
        raise UsageError("Features of clips or captions have numbers that are not finite; compute them again.")
    shown, said = (rows.astype(np.float64) - rows.mean(0) for rows in (clips, captions))
    ridge = RIDGE * np.square(said).sum() / said.shape[1] * np.eye(said.shape[1])
    found = KMeans(count, n_init=1, random_state=seed).fit(shown)
    for _ in range(ROUNDS):
        clusters = found.labels_
        heard, seen = said - _means(said, clusters, count)[clusters], shown - _means(shown, clusters, count)[clusters]
        rest = shown - said @ np.linalg.solve(heard.T @ heard + ridge, heard.T @ seen)
        found = KMeans(count, init=_means(rest, clusters, count), n_init=1, max_iter=_AT_ONCE).fit(rest)
    return Backgrounds(found.labels_.astype(np.int64), _means(rest, found.labels_, count).astype(np.float32))


def _means(rows: NDArray[Any], clusters: Indices, count: int) -> NDArray[np.float64]:
    """(K, D) mean of the rows of each cluster; zero for one without rows."""
    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, clusters, rows)
    means: NDArray[np.float64] = sums / np.maximum(1, np.bincount(clusters, minlength=count))[:, None]
    return means
