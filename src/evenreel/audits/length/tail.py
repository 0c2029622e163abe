"""Rare (tail) verbs and nouns, whose failures are explained by rarity and not by length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.config import as_path, one_or_more
from evenreel.errors import UsageError
from evenreel.types import Shown

SHARE = 0.2
"""Of the training clips that the smallest classes hold together, at most (Damen et al. 2022, tail classes)."""

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
        table = _table(path)
        kinds = {
            kind: next((name for name in names if name in table.columns), None) for kind, names in _COLUMNS.items()
        }
        if not any(kinds.values()):
            raise UsageError(f"{path} has the columns {', '.join(table.columns)}; it needs verb, noun, or both.")
        for kind, column in kinds.items():
            if column is not None:
                found[kind] |= _classes(table, column, path)
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
    counted = Counter(classes.tolist())
    verbs, nouns = (
        _smallest((pairs[class_][side], count) for class_, count in counted.items() if pairs[class_][side] >= 0)
        for side in (0, 1)
    )
    return TailClasses(verbs, nouns, f"the smallest classes that hold at most {SHARE:.0%} of the training clips")


def _smallest(counts: Iterable[tuple[int, int]]) -> frozenset[int]:
    total: Counter[int] = Counter()
    for name, count in counts:
        total[name] += count
    names = sorted(total, key=lambda name: (total[name], name))
    held = np.cumsum([total[name] for name in names])
    return frozenset(names[: int(np.searchsorted(held, SHARE * total.total(), "right"))])


def _table(path: Path) -> pl.DataFrame:
    try:
        return pl.read_csv(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(f"{path} cannot be read as a csv of classes ({error}).") from error


def _classes(table: pl.DataFrame, column: str, path: Path) -> set[int]:
    try:
        return set(table[column].cast(pl.Int64).drop_nulls().to_list())
    except pl.exceptions.PolarsError as error:
        raise UsageError(f"{path} has something else than whole numbers in its column {column}.") from error
