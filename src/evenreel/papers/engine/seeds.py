"""Figures over several seeds: their means and changes, with intervals by Student's t."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from evenreel.evaluation import Interval
from evenreel.evaluation.intervals import over_seeds

Row = TypeVar("Row", bound=Hashable)
Figure = TypeVar("Figure", bound=Hashable)
Found = TypeVar("Found")
PERCENT = (0.0, 100.0)
"""The ends of a share."""


def by_row(measured: Iterable[tuple[Row, Found]]) -> dict[Row, list[Found]]:
    """Gather what was measured of the rows of a table, seed after seed, by row; rows in the order they first come.

    >>> by_row([("a", 1), ("b", 2), ("a", 3)])
    {'a': [1, 3], 'b': [2]}
    """
    found: dict[Row, list[Found]] = {}
    for row, one in measured:
        found.setdefault(row, []).append(one)
    return found


@dataclass(frozen=True, eq=False)
class SeededRuns(Generic[Row, Figure]):
    """Figures of the rows of a table, measured once with each seed, as means and changes with intervals.

    Attributes:
        rows: figures of each row, one mapping a seed.
        confidence: confidence of the intervals.
        ends: least and greatest value that a figure can have, where these are not 0 and 100.
        notices: sentences on how the figures were made.
    """

    rows: Mapping[Row, Sequence[Mapping[Figure, float]]]
    confidence: float
    ends: Mapping[Figure, tuple[float, float]] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def mean(self, row: Row, figure: Figure) -> Interval:
        """Return the mean of a figure of a row over its seeds, with its interval."""
        return over_seeds([run[figure] for run in self.rows[row]], self.confidence, self.ends.get(figure, PERCENT))

    def means(self, row: Row) -> dict[Figure, Interval]:
        """Return the mean of each figure of a row over its seeds, with its interval."""
        return {figure: self.mean(row, figure) for figure in self.rows[row][0]}

    def changes(self, before: Row, after: Row) -> dict[Figure, Interval]:
        """Return how each figure changes from one row to another with the same seed.

        >>> rows = {"a": [{"R@1": 20.0}, {"R@1": 22.0}], "b": [{"R@1": 21.0}, {"R@1": 23.0}]}
        >>> SeededRuns(rows, 0.95).changes("a", "b")
        {'R@1': Interval(value=1.0, low=1.0, high=1.0)}
        """
        pairs = list(zip(self.rows[before], self.rows[after], strict=True))
        figures = self.rows[before][0]
        return {one: over_seeds([new[one] - old[one] for old, new in pairs], self.confidence) for one in figures}

    def changes_beside(self, before: Row) -> dict[Row, dict[Figure, Interval]]:
        """Return how each figure of every other row differs from that of one row with the same seed."""
        return {row: self.changes(before, row) for row in self.rows if row != before}
