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
    """Distance of the mean of some vectors from the source's, with its test.

    `distance` in standard deviations of the source along its principal axes, and `p` of Hotelling's test that both have
    one mean.
    """

    distance: float
    p: float


class Drift(NamedTuple):
    """Shifts of captions and of clips; `found` says whether either is significant, of two tests together."""

    captions: MeanShift
    clips: MeanShift
    found: bool


def mean_shift(vectors: Tensor, count: int, mean: Tensor, covariance: Tensor) -> MeanShift:
    """Compute Hotelling's two-sample test along the source's first principal axes (Hotelling 1931).

    Args:
        vectors: (N, D) vectors of the stream.
        count: number of vectors in the source's moments.
        mean: (D,) mean of the source.
        covariance: (D, D) of the source.
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
    """Combine both tests, each at half the error (Bonferroni).

    Args:
        captions: shift of the captions.
        clips: shift of the clips.
        confidence: probability that no drift is found in a stream like the source.
        asked: number of the test, from 1, on a stream that is tested again and again: the n-th has 1 / (n (n + 1)) of
            the error, so that all of them together have all of it. None for a single test.
    """
    error = 1 - confidence if asked is None else (1 - confidence) / (asked * (asked + 1))
    return Drift(captions, clips, min(captions.p, clips.p) < error / 2)
