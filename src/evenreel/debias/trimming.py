"""Trimming against frame-length bias: training clips are left out until a class has the mean length of another split.

A class of short training clips and long test clips is missed for its length (algorithm 1: RmvOne and RmvAll; RmvRand is
their control). The mean is computed anew after every clip and the least number of clips is checked before one is left
out; as printed, the mean is computed once, so the algorithm would not know when to stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.errors import UsageError


@dataclass(frozen=True)
class Trimming:
    """Settings of trimming: when a class of clips is trimmed, and when that ends.

    Attributes:
        margin: delta, in the unit of the lengths: a class is trimmed while its mean is at least this far from its
            target.
        least: alpha, least number of clips that a class keeps.
    """

    margin: float
    least: int

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
    _check_numbers(lengths)
    _check_numbers(np.fromiter(targets.values(), np.float64))
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
    names, counts = np.unique(classes[like], return_counts=True)
    drawn = [
        generator.choice(np.flatnonzero(classes == name), count, replace=False)
        for name, count in zip(names, counts, strict=True)
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
