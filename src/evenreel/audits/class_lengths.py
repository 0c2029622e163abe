"""Mean lengths of the clips of each class in training and in test, whose difference causes length bias.

Rare (tail) verbs and nouns are here too, whose failures are explained by rarity and not by length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arrays import Column
from evenreel.config import as_path, one_or_more
from evenreel.corpus.actions import ActionLengths
from evenreel.errors import UsageError
from evenreel.types import Shown


@dataclass(frozen=True, eq=False)
class ClassLengths:
    """Mean lengths of the K classes that training and test have in common, in the unit of the lengths given."""

    classes: NDArray[np.int64]  # (K,) class numbers, ascending
    train_mean: Column  # (K,) mean length of each class (AFLC in the paper on frame-length bias)
    test_mean: Column
    train_count: NDArray[np.int64]  # (K,) numbers of clips
    test_count: NDArray[np.int64]

    @property
    def discrepancy(self) -> Column:
        """Mean length (K,) of each class in test less that in training; positive where test clips are longer."""
        return self.test_mean - self.train_mean


def class_lengths(train: ActionLengths, test: ActionLengths) -> ClassLengths:
    """Compute the mean lengths of the classes that training and test have in common; lengths of NaN do not count.

    Args:
        train: actions of the training clips; each of several actions of a clip has its share of the length.
        test: actions of the test clips.

    >>> found = class_lengths(
    ...     ActionLengths(np.array([0, 0, 1]), np.array([2.0, 4.0, 9.0])), ActionLengths(np.array([0]), np.array([7.0]))
    ... )
    >>> found.classes.tolist(), found.discrepancy.tolist()
    ([0], [4.0])
    """
    (first, first_mean, first_count), (second, second_mean, second_count) = _means(*train), _means(*test)
    both, one, other = np.intersect1d(first, second, return_indices=True)
    return ClassLengths(both, first_mean[one], second_mean[other], first_count[one], second_count[other])


def _means(classes: NDArray[np.int64], lengths: Column) -> tuple[NDArray[np.int64], Column, NDArray[np.int64]]:
    known = ~np.isnan(lengths)
    names, member = np.unique(classes[known], return_inverse=True)
    count = np.bincount(member, minlength=len(names))
    return names, np.bincount(member, lengths[known], len(names)) / np.maximum(count, 1), count


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


SHARE = 0.2  # of the training clips that the smallest classes hold together, at most (Damen et al. 2022, tail classes).
_COLUMNS = {"verbs": ("verb", "verb_class"), "nouns": ("noun", "noun_class")}


@dataclass(frozen=True)
class TailClasses(Shown):
    """Verb and noun classes of the long tail, which have few training clips.

    Attributes:
        verbs, nouns: numbers of the tail classes.
        rule: words on how they were found.
    """

    verbs: frozenset[int]
    nouns: frozenset[int]
    rule: str

    def hold(self, verbs: Sequence[int], nouns: Sequence[int]) -> bool:
        """Return whether any of some verbs or nouns is a tail class."""
        return not self.verbs.isdisjoint(verbs) or not self.nouns.isdisjoint(nouns)


def read_tail_classes(paths: str | PathLike[str] | Sequence[str | PathLike[str]]) -> TailClasses:
    """Read tail classes from csv files with a column `verb` or `verb_class`, `noun` or `noun_class`, or with both.

    The official lists of EPIC-KITCHENS-100 are `EPIC_100_tail_verbs.csv` and `EPIC_100_tail_nouns.csv`. Where no file
    has a column for a kind, no class of it is in the tail.

    Args:
        paths: the files, or one alone.

    Raises:
        UsageError: a file cannot be read, has none of these columns, or something in them is no whole number.
    """
    files = [as_path(one, "paths") for one in one_or_more(paths, "paths", (str, PathLike))]
    found: dict[str, set[int]] = {kind: set() for kind in _COLUMNS}
    for path in files:
        try:
            table = pl.read_csv(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise UsageError(f"{path} cannot be read as a csv of classes ({error}).") from error
        there = {kind: name for kind, names in _COLUMNS.items() for name in reversed(names) if name in table.columns}
        if not there:
            raise UsageError(f"{path} has the columns {', '.join(table.columns)}; it needs verb, noun, or both.")
        for kind, column in there.items():
            try:
                found[kind] |= set(table[column].cast(pl.Int64).drop_nulls().to_list())
            except pl.exceptions.PolarsError as error:
                raise UsageError(f"{path} has something else than whole numbers in its column {column}.") from error
    names = ", ".join(path.name for path in files)
    return TailClasses(frozenset(found["verbs"]), frozenset(found["nouns"]), f"as {names} lists them")


def tail_by_frequency(pairs: Sequence[tuple[int, int]], classes: NDArray[np.int64]) -> TailClasses:
    """Find tail classes: the rarest verbs (or nouns) that together have at most a fifth of the training clips.

    On EPIC-KITCHENS-100 these are as many as its official lists have: 86 verbs and 228 nouns.

    Args:
        pairs: verb and noun of each class; a noun below 0 means no noun.
        classes: (N,) class of each training clip.

    >>> sorted(tail_by_frequency([(0, 0), (1, 0), (2, 1)], np.array([0] * 8 + [1, 2])).verbs)
    [1, 2]
    """
    sides: list[frozenset[int]] = []
    for side in (0, 1):
        total: Counter[int] = Counter()
        for class_, count in Counter(classes.tolist()).items():
            if pairs[class_][side] >= 0:
                total[pairs[class_][side]] += count
        names = sorted(total, key=lambda name: (total[name], name))
        held = np.cumsum([total[name] for name in names])
        sides.append(frozenset(names[: int(np.searchsorted(held, SHARE * total.total(), "right"))]))
    verbs, nouns = sides
    return TailClasses(verbs, nouns, f"the smallest classes that hold at most {SHARE:.0%} of the training clips")
