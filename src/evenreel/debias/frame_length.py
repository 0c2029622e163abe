"""Correction of frame-length bias: training clips trimmed, divided into strata of length, and scores weighed.

(arXiv 2309.09311.) A class of short training clips and long test clips is missed for its length. Algorithm 1 leaves out
training clips until a class has the mean length of another split; the backdoor adjustment trains a matcher f_k on each
stratum of length L_k, where length says little of the content (algorithm 2), and adds their scores (equation 5):

    P(Y | do(V, Q)) = sum_k P(L_k) f_k(V, Q)

`evenreel.training.members` trains them, `evenreel.debias.ensemble` is the matcher that they become. Clips are sorted by
length, those of equal length by their index, so that the same clips in the same order are always divided alike. No
statistic of a test set is used, unless a caller gives one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import SCORE_BYTES, Indices, row_bands
from evenreel.config import Allowed, check_settings
from evenreel.corpus.relevance import RelevantPairs
from evenreel.errors import ScoresError, UsageError
from evenreel.types import ScoreBlocks

if TYPE_CHECKING:
    from torch import Tensor

MOST_SCORES = 2**27
"""Scores of all members together that weights are learned from: 512 MiB."""
BAND_SCORES = 2**22
NOTHING = 1e-12
"""A deviation of so little of the mean is the rounding of equal scores."""
SHARPEST = 100.0
"""Most that a score is multiplied with while weights are learned, CLIP's bound (arXiv 2103.00020, 2.5): without one, a
member that is never wrong would be multiplied without end."""

# Algorithm 1: training clips that are left out -----------------------------------------------------------------------


@dataclass(frozen=True)
class Trimming:
    """Settings of trimming: when a class of clips is trimmed, and when that ends."""

    # delta, in the unit of the lengths: a class is trimmed while its mean is at least this far from its target
    margin: float
    least: int  # alpha, least number of clips that a class keeps

    def __post_init__(self) -> None:
        if not self.margin > 0 or self.least < 1:
            raise UsageError(f"A margin is above 0 and the least number of clips 1 or more; they were {self}.")


PRESETS: Mapping[str, Trimming] = MappingProxyType(
    {"paper_literal": Trimming(10.0, 60), "paper_reproducing": Trimming(60.0, 20)}
)
"""In frames. `paper_literal`: what is printed. `paper_reproducing`: what comes near the number of clips that the paper
says it left out (2,392 of 164 classes of EPIC-KITCHENS-100)."""


def trimmed(
    lengths: NDArray[np.float64], classes: NDArray[np.int64], targets: Mapping[int, float], settings: Trimming
) -> Indices:
    """Select the clips that RmvAll leaves out of training: the shortest of classes too short, else the longest.

    Args:
        lengths: (N,) lengths of the training clips.
        classes: (N,) class of each training clip.
        targets: mean length that a class should have, by class; classes without one stay unchanged. Means of the test
            split are statistics of the test set, and a training that uses them must say so.
        settings: margin and least number of clips.

    Returns:
        Rows of the clips that are left out, ascending.

    Raises:
        UsageError: a length or a target is not finite.

    >>> lengths, classes = np.array([1.0, 2.0, 9.0, 5.0]), np.array([0, 0, 0, 1])
    >>> trimmed(lengths, classes, {0: 9.0}, Trimming(2.0, 1)).tolist()
    [0, 1]
    """
    _check_numbers(np.concatenate([lengths, np.fromiter(targets.values(), np.float64)]))
    order = np.lexsort((np.arange(len(lengths)), lengths, classes))
    starts = np.searchsorted(classes[order], np.unique(classes))
    out = [
        _of_class(rows, lengths[rows], targets[int(classes[rows[0]])], settings)
        for rows in np.split(order, starts[1:])
        if len(rows) and int(classes[rows[0]]) in targets
    ]
    return np.sort(np.concatenate([*out, np.empty(0, np.int64)])).astype(np.int64)


def trim_class(lengths: NDArray[np.float64], target: float) -> Indices:
    """Select the clips that RmvOne leaves out of one class: its shortest if it is too short, else its longest.

    Trimming ends where one more clip would move the mean past the target, even if it were then nearer: the
    paper keeps 43 of 95 clips of mean 302.3 for a target of 305.5, and 42 would have 306.3. The least number of clips
    and the margin of RmvAll cannot have been used there (table 8).

    Args:
        lengths: (N,) lengths of the class's training clips, one or more.
        target: mean length that they should have.

    Returns:
        Rows of the clips that are left out, ascending; one clip stays, however far away the target is.

    Raises:
        UsageError: a length or the target is not finite.

    >>> trim_class(np.array([1.0, 9.0, 2.0]), 6.0).tolist(), trim_class(np.array([1.0, 9.0, 2.0]), 1.5).tolist()
    ([0], [1])
    """
    _check_numbers(np.append(lengths, target))
    side = 1.0 if target >= lengths.mean() else -1.0
    order = np.argsort(side * lengths, kind="stable")
    means = np.cumsum(side * lengths[order][::-1])[::-1] / np.arange(len(order), 0, -1)
    within = int((means <= side * target).sum())
    return np.sort(order[: max(within - 1, 0)]).astype(np.int64)


def trimmed_at_random(
    classes: NDArray[np.int64], like: Indices, generator: np.random.Generator, *, by_class: bool = False
) -> Indices:
    """Draw the clips that RmvRand leaves out: as many as `trimmed` did, whatever their length.

    Args:
        classes: (N,) class of each training clip.
        like: rows that `trimmed` left out.
        generator: random generator of the draw.
        by_class: whether to draw as many of each class as `trimmed` left out of it.

    Returns:
        Rows of the clips to leave out, as many as in `like`, ascending.
    """
    if not by_class:
        return np.sort(generator.choice(len(classes), len(like), replace=False)).astype(np.int64)
    drawn = [
        generator.choice(np.flatnonzero(classes == name), count, replace=False)
        for name, count in zip(*np.unique(classes[like], return_counts=True), strict=True)
    ]
    return np.sort(np.concatenate([*drawn, np.empty(0, np.int64)])).astype(np.int64)


def _check_numbers(lengths: NDArray[np.float64]) -> None:
    """No comparison with NaN holds, so that trimming would go on until the least number of clips is left."""
    if not np.isfinite(lengths).all():
        unknown = int(np.count_nonzero(~np.isfinite(lengths)))
        raise UsageError(f"{unknown:,} of {len(lengths):,} lengths are not known; trimming needs all of them.")


def _of_class(rows: Indices, lengths: NDArray[np.float64], target: float, settings: Trimming) -> Indices:
    """Select the clips left out of a class whose clips ascend in length, from one end."""
    total, count, first, last = float(lengths.sum()), len(rows), 0, len(rows)
    short = target >= total / count + settings.margin
    if not short and target > total / count - settings.margin:
        return rows[:0]
    while last - first > settings.least:
        gap = target - total / (last - first)
        if gap < settings.margin if short else gap > -settings.margin:
            break
        total -= float(lengths[first if short else last - 1])
        first, last = (first + 1, last) if short else (first, last - 1)
    return rows[:first] if short else rows[last:]


# Algorithm 2: strata of length ----------------------------------------------------------------------------------------


def equal_strata(lengths: NDArray[np.float64], count: int) -> list[Indices]:
    """Divide clips into strata of equal numbers of clips, from short to long.

    Args:
        lengths: (N,) lengths of the training clips, in any unit.
        count: number M of strata.

    Returns:
        Rows of the clips of each stratum, ascending in length.

    Raises:
        UsageError: there are fewer clips than strata, or a length is not a number.

    >>> [stratum.tolist() for stratum in equal_strata(np.array([5.0, 1.0, 3.0, 2.0]), 2)]
    [[1, 3], [2, 0]]
    """
    order = _by_length(lengths, count)
    return [part.astype(np.int64) for part in np.array_split(order, count)]


def adjusted_strata(
    lengths: NDArray[np.float64], count: int, fraction: float, *, longest_first: bool = False
) -> list[Indices]:
    """Divide clips into strata by algorithm 2: halves are cut off until two strata are left, divided at a fraction.

    Args:
        lengths: (N,) lengths of the training clips, in any unit.
        count: number M of strata; 1 keeps all clips, where the printed algorithm loses half of them.
        fraction: share of the first of the last two strata.
        longest_first: sort from long to short, for data in which long clips prevail.

    Returns:
        Rows of the clips of each stratum.

    Raises:
        UsageError: the fraction is not between 0 and 1, a stratum would be empty, or a length is not a number.

    >>> [len(stratum) for stratum in adjusted_strata(np.arange(16.0), 3, 0.75)]
    [8, 6, 2]
    """
    if not 0 < fraction < 1:
        raise UsageError(f"The fraction of the last strata is {fraction}; it must lie between 0 and 1.")
    rest = _by_length(lengths, count)[:: -1 if longest_first else 1]
    strata = []
    for _ in range(count - 2):
        half = len(rest) // 2
        strata.append(rest[:half])
        rest = rest[half:]
    at = int(round(fraction * len(rest), 6))  # 0.29 of 100 clips are 29, and 28.999999999999996 in floats
    return _all_filled([*strata, rest] if count == 1 else [*strata, rest[:at], rest[at:]])


def strata_at(lengths: NDArray[np.float64], thresholds: Sequence[float]) -> list[Indices]:
    """Divide clips into strata at given lengths: below the first, from each up to the next, and from the last on.

    Args:
        lengths: (N,) lengths of the training clips.
        thresholds: M - 1 lengths, ascending; from training clips, or the division uses the test set's statistics.

    Raises:
        UsageError: the thresholds do not ascend, a stratum would be empty, or a length is not a number.

    >>> [stratum.tolist() for stratum in strata_at(np.array([5.0, 1.0, 3.0]), [3.0])]
    [[1], [2, 0]]
    """
    if any(after <= before for before, after in pairwise(thresholds)):
        raise UsageError(f"The thresholds of the strata are {list(thresholds)}; each is more than the one before.")
    order = _by_length(lengths, len(thresholds) + 1)
    edges = np.searchsorted(lengths[order], thresholds, "left")
    return _all_filled(np.split(order, edges))


def random_strata(clips: int, count: int, seed: int, fraction: float | None = None) -> list[Indices]:
    """Divide clips into strata at random, of the sizes of `equal_strata` or `adjusted_strata`, as a control of these.

    Args:
        clips: number N of training clips.
        count: number M of strata.
        seed: seed of the draw.
        fraction: share of the first of the last two strata; None for strata of equal size.

    Returns:
        Rows of the clips of each stratum.

    Raises:
        UsageError: the fraction is not between 0 and 1, or a stratum would be empty.

    >>> [len(stratum) for stratum in random_strata(16, 3, seed=0, fraction=0.75)]
    [8, 6, 2]
    """
    drawn = np.random.default_rng(seed).permutation(clips).astype(np.float64)
    return equal_strata(drawn, count) if fraction is None else adjusted_strata(drawn, count, fraction)


def _by_length(lengths: NDArray[np.float64], count: int) -> Indices:
    if not 1 <= count <= len(lengths):
        raise UsageError(f"{len(lengths):,} clips cannot be divided into {count} strata; each needs at least one.")
    if not np.isfinite(lengths).all():
        unknown = int(np.count_nonzero(~np.isfinite(lengths)))
        raise UsageError(f"The length of {unknown:,} of {len(lengths):,} clips is not known; strata need all of them.")
    return np.argsort(lengths, kind="stable").astype(np.int64)


def _all_filled(strata: Sequence[Indices]) -> list[Indices]:
    if empty := [number for number, stratum in enumerate(strata, start=1) if not len(stratum)]:
        sizes = ", ".join(f"{len(stratum):,}" for stratum in strata)
        raise UsageError(f"Stratum {empty[0]} of {len(strata)} would be empty ({sizes} clips); divide otherwise.")
    return [stratum.astype(np.int64) for stratum in strata]


# Equation 5: weights of the strata's scores ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Fusion:
    """Weight, mean and scale of each member in a fusion of scores, in the order of members."""

    weights: tuple[float, ...] = ()  # weight w of each member, at least 0, summing to 1
    means: tuple[float, ...] = ()  # number subtracted from each member's scores; empty for none
    scales: tuple[float, ...] = ()  # number that they are then divided by, above 0; empty for 1

    def __post_init__(self) -> None:
        count = len(self.weights) if isinstance(self.weights, (tuple, list)) else 0
        allowed = {
            "weights": Allowed(
                "a list of numbers of at least 0 that add up to 1",
                lambda one: _numbers(one) and min(one, default=-1) >= 0 and math.isclose(sum(one), 1, abs_tol=1e-6),
            ),
            "means": Allowed(
                "a number for each weight, or empty", lambda one: _numbers(one) and len(one) in (0, count)
            ),
            "scales": Allowed(
                "a number above 0 for each weight, or empty",
                lambda one: _numbers(one) and len(one) in (0, count) and min(one, default=1) > 0,
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
    import torch
    from scipy.optimize import minimize

    _check_alike(scores, answers)
    table = np.empty((len(scores), *answers.shape), np.float32)  # the one copy of all scores that is held
    for own, one, name in zip(table, scores, _member_names(scores), strict=True):
        for rows, band in _bands(one, name):
            own[rows] = band
    tables = torch.from_numpy(table)
    if scales:
        tables /= torch.tensor(scales, dtype=tables.dtype)[:, None, None]
    pairs, count = torch.from_numpy(np.stack(answers.matrix.nonzero()).astype(np.int64)), len(scores)

    def loss(factors: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        given = torch.tensor(factors, dtype=tables.dtype, requires_grad=True)
        value = pair_loss(torch.einsum("m,mqv->qv", given, tables), pairs)
        (slope,) = torch.autograd.grad(value, given)
        return value.item(), slope.double().numpy()

    bounds = [(0.0, SHARPEST)] * count
    factors = minimize(loss, np.full(count, 1 / count), jac=True, method="L-BFGS-B", bounds=bounds).x
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

    >>> import torch
    >>> pair_loss(torch.zeros(2, 2), torch.tensor([[0, 1], [0, 1]]))  # nothing is known: the logarithm of 2
    tensor(0.6931)
    """
    from torch import finfo
    from torch.nn.functional import softplus

    rows, columns = pairs
    negatives = logits.index_put((rows, columns), logits.new_tensor(finfo(logits.dtype).min))
    own = logits[rows, columns]
    of_captions, of_clips = negatives.logsumexp(1)[rows], negatives.logsumexp(0)[columns]
    return 0.5 * (softplus(of_captions - own).mean() + softplus(of_clips - own).mean())


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
