"""Strata of training clips by length, for the backdoor adjustment (frame-length bias, algorithm 2).

Clips are sorted by length, those of equal length by their index, so that the same clips in the same order are always
divided alike. No statistic of a test set is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.errors import UsageError


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
