"""Mean lengths of the clips of each class in training and in test, whose difference causes length bias."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column
from evenreel.corpus.actions import ActionLengths


@dataclass(frozen=True, eq=False)
class ClassLengths:
    """Mean lengths of the K classes that training and test have in common, in the unit of the lengths given.

    Attributes:
        classes: (K,) class numbers, ascending.
        train_mean, test_mean: (K,) mean length of each class (AFLC in the paper on frame-length bias).
        train_count, test_count: (K,) numbers of clips.
    """

    classes: NDArray[np.int64]
    train_mean: Column
    test_mean: Column
    train_count: NDArray[np.int64]
    test_count: NDArray[np.int64]

    @property
    def discrepancy(self) -> Column:
        """Mean length (K,) of each class in test less that in training; positive where test clips are longer."""
        return self.test_mean - self.train_mean

    def count_above(self, threshold: float, *, or_equal: bool = False) -> int:
        """Count the classes whose mean lengths in training and test differ by more than a threshold.

        Args:
            threshold: length, in the unit of the lengths.
            or_equal: whether a difference equal to the threshold counts too.
        """
        size = np.abs(self.discrepancy)
        return int((size >= threshold if or_equal else size > threshold).sum())


def class_lengths(train: ActionLengths, test: ActionLengths) -> ClassLengths:
    """Compute the mean lengths of the classes that training and test have in common; lengths of NaN do not count.

    Args:
        train: actions of the training clips; each of several actions of a clip has its share of the length.
        test: actions of the test clips.

    >>> found = class_lengths(
    ...     ActionLengths(np.array([0, 0, 1]), np.array([2.0, 4.0, 9.0])), ActionLengths(np.array([0]), np.array([7.0]))
    ... )
    >>> found.classes.tolist(), found.discrepancy.tolist(), found.count_above(3)
    ([0], [4.0], 1)
    """
    (first, first_mean, first_count), (second, second_mean, second_count) = _means(*train), _means(*test)
    both, at_first, at_second = np.intersect1d(first, second, return_indices=True)
    return ClassLengths(
        both, first_mean[at_first], second_mean[at_second], first_count[at_first], second_count[at_second]
    )


def drawn_discrepancies(train: ActionLengths, test: ActionLengths, *, draws: int, seed: int) -> Column:
    """Draw the differences of mean lengths expected by chance, if training and test clips of a class were exchangeable.

    Differences beyond these are not due to small numbers of clips.

    Args:
        train: actions of the training clips.
        test: actions of the test clips.
        draws: number D of random divisions of each class into as many training and test clips.
        seed: seed of the draws.

    Returns:
        (D, K) mean length in test less that in training, in the order of `ClassLengths.classes`.
    """
    common = class_lengths(train, test)
    classes, lengths = (np.concatenate(both) for both in zip(train, test, strict=True))
    kept = np.isin(classes, common.classes) & ~np.isnan(lengths)
    place, lengths = np.searchsorted(common.classes, classes[kept]), lengths[kept]
    order = np.argsort(place, kind="stable")
    place, lengths = place[order], lengths[order]
    count = common.train_count + common.test_count
    chosen = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count) < common.test_count[place]
    total, random = np.bincount(place, lengths, len(count)), np.random.default_rng(seed)
    found = np.empty((draws, len(count)))
    for row in found:
        shuffled = lengths[np.argsort(place + random.random(len(place)))]  # each class within its own places
        in_test = np.bincount(place[chosen], shuffled[chosen], len(count))
        row[:] = in_test / common.test_count - (total - in_test) / common.train_count
    return found


def _means(classes: NDArray[np.int64], lengths: Column) -> tuple[NDArray[np.int64], Column, NDArray[np.int64]]:
    known = ~np.isnan(lengths)
    names, member = np.unique(classes[known], return_inverse=True)
    count = np.bincount(member, minlength=len(names))
    return names, np.bincount(member, lengths[known], len(names)) / np.maximum(count, 1), count
