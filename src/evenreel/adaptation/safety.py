"""Safeguards against harm by adaptation, none of them in the paper: a test for drift, and quality without labels.

`drift_of` asks whether captions and clips differ from those of the source at all. None of the quality is accuracy:
agreement asks whether the first clip of a query has that query among its own best, coverage whether queries are spread
over clips, entropy how undecided the scores are. A model that collapses onto a few clips loses the first two; one that
forgets loses them or becomes undecided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import f as fisher
from scipy.stats import rankdata
from torch import Tensor

from evenreel.arrays import Column
from evenreel.evaluation.intervals import over_seeds

AXES = 32
"""Most principal axes of the source that a mean is compared along; a covariance of few vectors says nothing of more."""
A_MEAN = 5
"""Vectors for each axis, at least."""
LEAST = 10
"""Queries of which an interval is given: of two that rise alike Student's t would say that it is sure."""


class MeanShift(NamedTuple):
    """Distance of the mean of a stream's vectors from the source's, with its test."""

    distance: float  # in standard deviations of the source along its principal axes
    p: float  # of Hotelling's test that both have the same mean


class Drift(NamedTuple):
    """Drift of a stream from the source: the shifts of captions and of clips, and whether either is significant."""

    captions: MeanShift
    clips: MeanShift
    found: bool


def mean_shift(vectors: Tensor, size: Tensor | int, mean: Tensor, covariance: Tensor) -> MeanShift:
    """Test whether the mean of a stream's vectors differs from the source's, by Hotelling's two-sample test (1931).

    It is computed along the source's first principal axes.

    Args:
        vectors: (N, D) vectors of the stream.
        size: number of vectors that the source's mean and covariance are from.
        mean: (D,) mean of the source.
        covariance: (D, D) covariance of the source.
    """
    count = int(size)
    axes = max(1, min(AXES, len(vectors) // A_MEAN, count // A_MEAN, len(mean)))
    spread, directions = torch.linalg.eigh(covariance.double())
    order = spread.argsort(descending=True)[:axes]
    scale = spread[order].clamp(min=1e-12).sqrt()
    projected = ((vectors.double() - mean.double()) @ directions[:, order]) / scale
    own = projected - projected.mean(0)
    pooled = ((count - 1) * torch.eye(axes, dtype=torch.float64) + own.T @ own) / (count + len(vectors) - 2)
    away = projected.mean(0)
    t2 = float(away @ torch.linalg.solve(pooled, away)) * count * len(vectors) / (count + len(vectors))
    freedom = count + len(vectors) - axes - 1
    ratio = t2 * freedom / (axes * (count + len(vectors) - 2))
    return MeanShift(float(away.norm()), float(fisher.sf(ratio, axes, freedom)))


def drift_of(captions: MeanShift, clips: MeanShift, confidence: float, asked: int | None = None) -> Drift:
    """Decide whether a stream has drifted, from the tests of captions and clips, each at half the error (Bonferroni).

    Args:
        captions: shift of the captions.
        clips: shift of the clips.
        confidence: probability that no drift is found in a stream like the source.
        asked: number of the test, from 1, on a stream that is tested again and again: the n-th has 1 / (n (n + 1)) of
            the error, so that all of them together have all of it. None for a single test.
    """
    error = 1 - confidence if asked is None else (1 - confidence) / (asked * (asked + 1))
    return Drift(captions, clips, min(captions.p, clips.p) < error / 2)


@dataclass(frozen=True, eq=False)
class Quality:
    """Label-free quality of a ranking, with a number for each of Q queries."""

    agreement: Column  # (Q,) 1 over the rank of the query for its first clip, above 0 and at most 1
    coverage: Column  # (Q,) 1 over the number of queries with the same first clip; its sum is that of first clips
    entropy: Column  # (Q,) entropy of the softmax of the query's scores, in nats

    @property
    def means(self) -> dict[str, float]:
        """Mean over the queries of each measure, by its name."""
        return {name: float(values.mean()) for name, values in vars(self).items()}

    def with_more(self, other: Quality) -> Quality:
        """Join the quality of further queries."""
        return Quality(*(np.concatenate([own, getattr(other, name)]) for name, own in vars(self).items()))


class MeanChange(NamedTuple):
    """Mean difference of a measure between two models, with the ends of its interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class QualityVerdict:
    """Verdict on whether a model is better than another, by measures that need no labels."""

    better: bool  # whether agreement rose significantly, and neither coverage fell nor entropy rose significantly
    changes: dict[str, MeanChange]  # by the name of the measure


def quality(scores: NDArray[np.floating], scale: float, rows: slice = slice(None)) -> Quality:
    """Compute the label-free quality of scores: agreement, coverage and entropy of each query.

    Args:
        scores: (N, V) scores, finite.
        scale: factor on the scores in the softmax, the same for all models that are compared.
        rows: queries to measure; the rank of a query is counted among all N.

    >>> found = quality(np.array([[0.9, 0.1], [0.8, 0.2]]), scale=1.0)
    >>> found.agreement.tolist(), found.coverage.tolist()
    ([1.0, 0.5], [0.5, 0.5])
    """
    asked = scores[rows]
    first = asked.argmax(axis=1)
    columns, place = np.unique(first, return_inverse=True)
    ranks = rankdata(-scores[:, columns], method="average", axis=0)[rows]
    logits = scale * asked.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    weights = np.exp(logits)
    total = weights.sum(axis=1)
    entropy = np.log(total) - (weights * logits).sum(axis=1) / total
    return Quality(1 / ranks[np.arange(len(asked)), place], 1 / np.bincount(place)[place], entropy)


def compared(new: Quality, old: Quality, confidence: float) -> QualityVerdict:
    """Compare the label-free quality of two models query by query, with Student's intervals.

    Intervals have no ends for fewer than `LEAST` queries.
    """
    changes = {}
    for name, values in vars(new).items():
        found = over_seeds(values - getattr(old, name), confidence)
        low, high = (found.low, found.high) if len(values) >= LEAST else (None, None)
        changes[name] = MeanChange(found.value, -np.inf if low is None else low, np.inf if high is None else high)
    fell = changes["coverage"].high < 0 or changes["entropy"].low > 0
    return QualityVerdict(changes["agreement"].low > 0 and not fell, changes)
