"""Fusion of the scores of several matchers by weights and common scales (frame-length bias, equation 5).

    s = sum_k w_k (s_k - mean_k) / scale_k

The weights of equation 5 are P(L_k), the share of the clips in each stratum of length; its text sums the scores as they
are. Weights from validation and a common scale are not in the paper: matchers that were trained apart need not give
scores of one size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from evenreel.arrays import SCORE_BYTES, row_bands
from evenreel.config import Allowed, check_settings
from evenreel.corpus.relevance import RelevantPairs
from evenreel.errors import ScoresError, UsageError
from evenreel.types import ScoreBlocks

MOST_SCORES = 2**27
"""Scores of all members together that weights are learned from: 512 MiB."""

BAND_SCORES = 2**22
NOTHING = 1e-12
"""A deviation of so little of the mean is the rounding of equal scores."""

SHARPEST = 100.0
"""Most that a score is multiplied with while weights are learned, CLIP's bound (arXiv 2103.00020, 2.5): without one, a
member that is never wrong would be multiplied without end."""


@dataclass(frozen=True)
class Fusion:
    """Weight, mean and scale of each member in a fusion of scores, in the order of members.

    Attributes:
        weights: weight w of each member, at least 0, summing to 1.
        means: number subtracted from each member's scores; empty for none.
        scales: number that they are then divided by, above 0; empty for 1.
    """

    weights: tuple[float, ...] = ()
    means: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.weights) if isinstance(self.weights, (tuple, list)) else 0
        allowed = {
            "weights": Allowed(
                "a list of numbers of at least 0 that add up to 1",
                lambda value: (
                    _numbers(value) and min(value, default=-1) >= 0 and math.isclose(sum(value), 1, abs_tol=1e-6)
                ),
            ),
            "means": Allowed(
                "a number for each weight, or empty", lambda value: _numbers(value) and len(value) in (0, count)
            ),
            "scales": Allowed(
                "a number above 0 for each weight, or empty",
                lambda value: _numbers(value) and len(value) in (0, count) and min(value, default=1) > 0,
            ),
        }
        check_settings("the fusion", self, allowed)
        for name in allowed:
            object.__setattr__(self, name, tuple(getattr(self, name)))  # JSON and YAML know lists alone

    def terms(self) -> list[tuple[float, float]]:
        """Return (factor, constant) of each member, by which the fused score is sum_k (factor_k s_k - constant_k)."""
        count = len(self.weights)
        means, scales = self.means or (0.0,) * count, self.scales or (1.0,) * count
        factors = [weight / scale for weight, scale in zip(self.weights, scales, strict=True)]
        return [(factor, factor * mean) for factor, mean in zip(factors, means, strict=True)]


def prior_weights(sizes: Sequence[int]) -> tuple[float, ...]:
    """Compute the weights P(L_k) of equation 5 from the numbers of clips in the strata: each stratum's share of clips.

    Raises:
        UsageError: there is no stratum, or one is empty.

    >>> prior_weights([3, 1])
    (0.75, 0.25)
    """
    if not sizes or min(sizes) < 1:
        raise UsageError(f"Weights by size need strata of at least one clip; their sizes are {list(sizes)}.")
    return tuple(size / sum(sizes) for size in sizes)


def uniform_weights(count: int) -> tuple[float, ...]:
    """Return equal weights for `count` members of an ensemble.

    Raises:
        UsageError: there are no members.
    """
    return prior_weights([1] * count)


def standardisation(
    scores: Sequence[ScoreBlocks], names: Sequence[str] = ()
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compute the mean and standard deviation of each member's scores over all pairs, reading a band at a time.

    Args:
        scores: scores of each member, for the captions and clips of the validation split.
        names: name of each member for messages; empty for its number.

    Returns:
        `means` and `scales` of a `Fusion`.

    Raises:
        ScoresError: a score is no finite number, or all scores of a member are the same.
    """
    called = names or _member_names(scores)
    means, scales = zip(*(_mean_and_deviation(*one) for one in zip(scores, called, strict=True)), strict=True)
    return means, scales


def learned_weights(
    scores: Sequence[ScoreBlocks], answers: RelevantPairs, scales: Sequence[float] = ()
) -> tuple[float, ...]:
    """Fit the weights of members with which the fused scores have the least InfoNCE, at its best temperature.

    With logits `sum_k b_k s_k / scale_k` the loss is convex in b, of which each is between 0 and `SHARPEST`; the
    weights are b over its sum, and one over the sum is the temperature. Another clip that answers the caption too is no
    negative. All scores of all members are held in memory.

    Args:
        scores: scores of each member for the captions and clips of the validation split.
        answers: which clips answer which captions.
        scales: scales of the `Fusion` that the weights are for; its means change nothing here.

    Raises:
        UsageError: there are no scores or too many to hold, no caption has an answer, or members differ in captions or
            clips.
        ScoresError: a score is no finite number, or the scores say nothing about the answers.
    """
    _check_alike(scores, answers)
    tables = torch.from_numpy(_tables(scores, answers.shape))
    if scales:
        tables /= torch.tensor(scales, dtype=tables.dtype)[:, None, None]
    factors = _least(tables, torch.from_numpy(np.stack(answers.matrix.nonzero()).astype(np.int64)))
    if not factors.sum() > 0:
        raise ScoresError(
            "No weights can be learned: no member scores answers higher; fuse with uniform weights (`evenreel fuse` "
            "without --validation-scores), or with your own (--weight)."
        )
    return tuple(float(factor) for factor in factors / factors.sum())


def pair_loss(logits: Tensor, pairs: Tensor) -> Tensor:
    """Compute the InfoNCE of all right answers in a table of logits, in both directions.

    Further right answers of a caption or clip are no negatives.

    Args:
        logits: (Q, V) logits.
        pairs: (2, P) rows and columns of the P answers.

    >>> pair_loss(torch.zeros(2, 2), torch.tensor([[0, 1], [0, 1]]))  # nothing is known: the logarithm of 2
    tensor(0.6931)
    """
    rows, columns = pairs
    negatives = logits.index_put((rows, columns), logits.new_tensor(torch.finfo(logits.dtype).min))
    own = logits[rows, columns]
    of_captions, of_clips = negatives.logsumexp(1)[rows], negatives.logsumexp(0)[columns]
    return 0.5 * (F.softplus(of_captions - own).mean() + F.softplus(of_clips - own).mean())


def _least(tables: Tensor, pairs: Tensor) -> NDArray[np.float64]:
    """(M, Q, V) scores -> (M,) factors of least loss."""
    from scipy.optimize import minimize

    def loss(factors: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        given = torch.tensor(factors, dtype=tables.dtype, requires_grad=True)
        value = pair_loss(torch.einsum("m,mqv->qv", given, tables), pairs)
        (slope,) = torch.autograd.grad(value, given)
        return value.item(), slope.double().numpy()

    count = len(tables)
    found = minimize(loss, np.full(count, 1 / count), jac=True, method="L-BFGS-B", bounds=[(0.0, SHARPEST)] * count)
    factors: NDArray[np.float64] = found.x
    return factors


def _numbers(values: object) -> bool:
    return isinstance(values, (tuple, list)) and all(
        isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value) for value in values
    )


def _member_names(scores: Sequence[ScoreBlocks]) -> list[str]:
    return [f"member {number}" for number in range(1, len(scores) + 1)]


def _mean_and_deviation(scores: ScoreBlocks, name: str) -> tuple[float, float]:
    """Bands are merged as in Chan, Golub and LeVeque 1983, which loses no digits where the mean is large."""
    count, mean, squares = 0, 0.0, 0.0
    for _, band in _bands(scores, name):
        size, gap = band.size, float(band.mean(dtype=np.float64)) - mean
        squares += float(band.var(dtype=np.float64)) * size + gap**2 * count * size / (count + size)
        mean, count = mean + gap * size / (count + size), count + size
    deviation = math.sqrt(squares / count)
    if deviation <= NOTHING * abs(mean):
        raise ScoresError(
            f"All scores of {name} are {mean:g}, so they have no scale; leave them out or do not standardise (with "
            "`evenreel fuse`: --by sum or --by rank)."
        )
    return mean, deviation


def _tables(scores: Sequence[ScoreBlocks], shape: tuple[int, int]) -> NDArray[np.float32]:
    """(M, Q, V), the one copy of all scores that is held."""
    tables = np.empty((len(scores), *shape), np.float32)
    for table, one, name in zip(tables, scores, _member_names(scores), strict=True):
        for rows, band in _bands(one, name):
            table[rows] = band
    return tables


def _bands(scores: ScoreBlocks, name: str) -> Iterator[tuple[slice, NDArray[Any]]]:
    """All scores of a member, some rows at a time."""
    for rows, band in row_bands(scores, BAND_SCORES * SCORE_BYTES):
        if not np.isfinite(band).all():
            raise ScoresError(f"A score of {name} is no finite number; its training went wrong.")
        yield rows, band


def _check_alike(scores: Sequence[ScoreBlocks], answers: RelevantPairs) -> None:
    if not scores or answers.matrix.nnz == 0:
        raise UsageError("Weights are learned from the scores of at least one member and one caption with an answer.")
    names = {(tuple(one.caption_ids), tuple(one.video_ids)) for one in scores}
    captions, videos = next(iter(names))
    if len(names) > 1 or answers.shape != (len(captions), len(videos)):
        raise UsageError("The members, or the answers, are not of the same captions and clips in the same order.")
    if (count := len(scores) * len(captions) * len(videos)) > MOST_SCORES:
        raise UsageError(
            f"Weights would be learned from {count:,} scores, {len(captions):,} captions and {len(videos):,} clips by "
            f"{len(scores)} members, and at most {MOST_SCORES:,} are held in memory; hold out a smaller validation "
            "split, or fuse with prior weights."
        )
