"""Rows of scores sorted once, and counts over them: which items beat which, and which are among the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags


@dataclass(frozen=True, eq=False)
class OrderedRows:
    """Rows of scores of b captions with V clips, sorted in ascending order, equal scores in runs.

    Attributes:
        order: (b, V) column at each place of the sorted row.
        start, end: (b, V) place at which the run of each place begins, and one past its end.
        hidden: (b,) number of scores of minus infinity, which take the first places.
        distinct: whether no two scores of a row are equal.
    """

    order: NDArray[np.intp]
    start: NDArray[np.intp]
    end: NDArray[np.intp]
    hidden: NDArray[np.intp]
    distinct: bool

    @classmethod
    def of(cls, block: NDArray[Any]) -> OrderedRows:
        """Sort the rows of scores (b, V) without NaN."""
        order = np.argsort(block, axis=1)
        values = _take_rows(block, order)
        hidden = np.count_nonzero(values == -np.inf, axis=1)
        places = np.broadcast_to(np.arange(values.shape[1]), values.shape)
        first = np.ones((len(values), values.shape[1] + 1), dtype=np.bool_)
        np.not_equal(values[:, 1:], values[:, :-1], out=first[:, 1:-1])
        if first.all():
            return cls(order, places, places + 1, hidden, True)
        start = np.maximum.accumulate(np.where(first[:, :-1], places, 0), axis=1)
        ends = np.where(first[:, 1:], places + 1, values.shape[1])
        return cls(order, start, np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1], hidden, False)

    def placed(self, marks: Flags) -> Flags:
        """Reorder marks of columns, (V,) or (b, V), to the places of the sorted rows (b, V)."""
        return marks.take(self.order) if marks.ndim == 1 else _take_rows(marks, self.order)

    def beaten(self, placed: Flags) -> Column:
        """Count, for each place of the sorted rows, the marked clips that score less, equal ones half: (b, V).

        Args:
            placed: (b, V) marks of clips by their places, see `OrderedRows.placed`.
        """
        before = _counts_before(placed)
        if self.distinct:
            return np.asarray((before[:, :-1] + before[:, 1:]) / 2)
        return np.asarray((_take_rows(before, self.start) + _take_rows(before, self.end)) / 2)

    def first(self, depth: int) -> tuple[NDArray[np.intp], Column]:
        """Return the columns (b, W) that may be among the `depth` best, and the probability of each if ties are random.

        The probabilities of a row sum to `shown(depth)`; that of a score of minus infinity is 0.
        """
        size = self.order.shape[1]
        lowest = size - self.shown(depth)
        begin = int(self.start[np.arange(len(self.order)), np.minimum(lowest, size - 1)].min(initial=size - 1))
        start, end = self.start[:, begin:], self.end[:, begin:]
        return self.order[:, begin:], np.clip(end - lowest[:, None], 0, end - start) / (end - start)

    def shown(self, depth: int) -> NDArray[np.intp]:
        """Count the clips among the `depth` best of each row (b,); fewer where scores are minus infinity."""
        return np.asarray(np.minimum(depth, self.order.shape[1] - self.hidden), dtype=np.intp)


def candidates(block: NDArray[Any], depth: int) -> NDArray[np.intp]:
    """Return the columns (b, W) of the `depth` best scores of each row, and of all that tie with the last of these."""
    last = block.shape[1] - min(depth, block.shape[1])
    least = np.partition(block, last, axis=1)[:, last, None]
    width = int((block >= least).sum(axis=1).max(initial=1))
    return np.argpartition(block, block.shape[1] - width, axis=1)[:, block.shape[1] - width :]


def _counts_before(placed: Flags) -> NDArray[np.int32]:
    """(b, V) marks -> (b, V + 1), how many stand before each place."""
    before = np.zeros((len(placed), placed.shape[1] + 1), dtype=np.int32)
    np.cumsum(placed, axis=1, out=before[:, 1:])
    return before


def _take_rows(table: NDArray[Any], places: NDArray[np.intp]) -> NDArray[Any]:
    """(b, W) table and (b, V) places in its rows -> (b, V); by far quicker than `numpy.take_along_axis`."""
    return np.asarray(table.ravel().take(places + np.arange(len(table))[:, None] * table.shape[1]))
