"""Drift test: whether the means of captions and clips of a stream differ from those of the source."""

from __future__ import annotations

from typing import NamedTuple

import torch
from scipy.stats import f as fisher
from torch import Tensor

AXES = 32
"""Most principal axes of the source that a mean is compared along; a covariance of few vectors says nothing of more."""
A_MEAN = 5
"""Vectors for each axis, at least."""


class MeanShift(NamedTuple):
    """Distance of the mean of a stream's vectors from the source's, with its test.

    Attributes:
        distance: distance in standard deviations of the source along its principal axes.
        p: p value of Hotelling's test that both have the same mean.
    """

    distance: float
    p: float


class Drift(NamedTuple):
    """Drift of a stream from the source: the shifts of captions and of clips, and whether either is significant."""

    captions: MeanShift
    clips: MeanShift
    found: bool


def mean_shift(vectors: Tensor, count: int, mean: Tensor, covariance: Tensor) -> MeanShift:
    """Test whether the mean of a stream's vectors differs from the source's, by Hotelling's two-sample test (1931).

    It is computed along the source's first principal axes.

    Args:
        vectors: (N, D) vectors of the stream.
        count: number of vectors that the source's mean and covariance are from.
        mean: (D,) mean of the source.
        covariance: (D, D) covariance of the source.
    """
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
