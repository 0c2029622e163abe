"""Training clips that exchange their backgrounds, estimated from features (`evenreel.debias.backgrounds`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.debias.backgrounds import Backgrounds, estimated_backgrounds
from evenreel.training.data.examples import FeatureExamples
from evenreel.training.recipe import BackgroundExchange
from evenreel.types import TextFeatures, VideoFeatures


def with_backgrounds(
    examples: FeatureExamples, exchange: BackgroundExchange, seed: int, length_terms: int = 0
) -> FeatureExamples:
    """Estimate the backgrounds of training clips, so that clips of every batch can exchange them.

    Clips without a pair take no part in the estimate, and no batch has them.

    Args:
        examples: training pairs with their features.
        exchange: number of clusters, and how often backgrounds are exchanged.
        seed: seed of the clusters.
        length_terms: number of Chebyshev polynomials of the rank of a clip's length that are kept out of backgrounds.
            It is needed where the effect of length is removed from frames (`evenreel.debias.without_length`), or the
            background of another clip would bring its length along.

    Raises:
        UsageError: there are fewer clips than clusters, or features that are not finite.
    """
    pairs = examples.pairs
    clips, places = np.unique(pairs.clips, return_inverse=True)
    said = sums_by(places, unit_sentences(examples.text_features)[pairs.captions]) / np.bincount(places)[:, None]
    known = np.concatenate([said, length_polynomials(examples.video_features, clips, length_terms)], axis=1)
    found = estimated_backgrounds(mean_frames(examples.video_features)[clips], known, exchange.clusters, seed)
    clusters = np.zeros(len(pairs.clip_ids), np.int64)
    clusters[clips] = found.clusters
    return replace(examples, backgrounds=Backgrounds(clusters, found.means), exchanged=exchange.share)


def sums_by(places: Indices, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum the rows (N, D) that have the same group, 0 to P - 1, given by `places` (N,): (P, D)."""
    sums = np.zeros((int(places.max()) + 1, rows.shape[1]))
    np.add.at(sums, places, rows)
    return sums


def length_polynomials(videos: VideoFeatures, clips: Indices, count: int) -> NDArray[np.float64]:
    """Compute the Chebyshev polynomials 1 to K (`count`) of the ranks of clips' lengths in seconds: (N, K).

    Args:
        videos: features of clips, whose times give the lengths.
        clips: (N,) rows of the clips.
        count: number of polynomials.
    """
    first, last = (np.where(videos.frame_mask, videos.times_s, fill) for fill in (np.inf, -np.inf))
    lengths = last.max(1)[clips] - first.min(1)[clips]
    ordered = np.sort(lengths)
    ranks = sum(np.searchsorted(ordered, lengths, side=side) for side in ("left", "right")) / (2 * len(ordered))
    polynomials: NDArray[np.float64] = np.cos(np.arccos(2 * ranks - 1)[:, None] * np.arange(1, count + 1))
    return polynomials


def mean_frames(videos: VideoFeatures) -> NDArray[np.float64]:
    """Compute the mean (V, D) of each clip's frames, which are scaled to unit length first."""
    means = np.empty((len(videos.ids), videos.frames.shape[2]))
    for row, (frames, mask) in enumerate(zip(videos.frames, videos.frame_mask, strict=True)):
        real = frames[mask].astype(np.float64)
        means[row] = (real / np.linalg.norm(real, axis=1, keepdims=True)).mean(0)
    return means


def unit_sentences(texts: TextFeatures) -> NDArray[np.float64]:
    """Return the sentence vectors (Q, D) of captions, scaled to unit length."""
    sentences = texts.sentence.astype(np.float64)
    brought: NDArray[np.float64] = sentences / np.linalg.norm(sentences, axis=1, keepdims=True)
    return brought
