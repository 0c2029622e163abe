"""Lengths of the first clips of every ranking, and the lengths expected if length had no influence.

A ranking that goes by content alone returns clips of the lengths that its content has, also where it takes a class for
a related one. So each of the first clips is compared with the gallery's clips of its own class: chosen among those
whatever their length it would be as long as they are on average, and the difference from that is the excess. Where
classes are not known, clips that answer are left out, and the others are one class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import CACHED_BYTES, Column, row_bands
from evenreel.audits.exchange import PROBES
from evenreel.audits.inputs import OrderedRows, candidates
from evenreel.audits.length.data import LengthData
from evenreel.evaluation.metrics import FIRST_RANK, parse_metric
from evenreel.evaluation.ranking import CheckedScores, Items, Search, best_items, find_places, first_hits, hit_columns

DEPTHS = (1, 5, 10, 20, 50)
MAIN = 20
"""Depth of the effect: the paper on frame-length bias looks at the mean length of the first 20 (section B)."""

_RECALL = parse_metric("R@10")


@dataclass(frozen=True, eq=False)
class FirstClipLengths:
    """Lengths of the clips that Q rankings return first.

    Attributes:
        means: (K, Q) mean length of the first k clips, for each of `DEPTHS` below the gallery's size; NaN where nothing
            is shown or no length is known.
        excess: (K, Q) mean logarithm of their lengths, less `expected`.
        expected: (K, Q) mean logarithm of their lengths expected if length had no influence.
        rank: (Q,) rank of the first relevant clip; NaN where there is none or none is known.
        recall: (Q,) R@10 of each query, in percent.
        shown: (V,) how often each clip is among the first `MAIN`; an expected number where scores are equal.
        pull: (V,) weight of the logarithm of each clip's length in the mean excess over captions at the main depth.
            Where classes are known, it is that of the logarithm beyond the mean of its class.
        own: (Q, 1 + P) excess of each caption at the main depth: as measured, then with P permutations of lengths.
        depths: the K depths of `DEPTHS` that are below the gallery's size.
    """

    means: Column
    excess: Column
    expected: Column
    rank: Column
    recall: Column
    shown: Column
    pull: Column
    own: Column
    depths: tuple[int, ...]

    @property
    def main(self) -> int:
        """Index of the depth `MAIN` in `depths`, or of the largest depth below it."""
        return max(place for place, depth in enumerate(self.depths) if depth <= MAIN)

    def at(self, depth: int) -> Column:
        """Return the mean lengths (Q,) of the first clips at a depth, or at the largest depth below it."""
        return np.asarray(self.means[max(place for place, one in enumerate(self.depths) if one <= depth)])


def measure_first(scores: CheckedScores, data: LengthData, band_bytes: int, seed: int = 0) -> FirstClipLengths:
    """Measure the lengths of the first clips of rankings; scores are read once, some captions at a time.

    Args:
        scores: scores of captions and clips.
        data: lengths of the clips.
        band_bytes: about how many bytes of scores are read at once.
        seed: seed of the permutations of lengths that each caption is measured with.

    Raises:
        ScoresError: a score is NaN.
    """
    tally = _LengthTally(data, len(scores.caption_ids), seed)
    search = None if data.relevance is None else Search(scores, data.relevance, turned=False)
    for rows, block in row_bands(scores, min(band_bytes, CACHED_BYTES)):
        tally.add(rows, block, None if search is None else search.items(rows))
    return tally.result()


class _LengthTally:
    """The columns of `FirstClipLengths`, filled band by band."""

    def __init__(self, data: LengthData, captions: int, seed: int) -> None:
        self._data = data
        self._known = ~np.isnan(data.lengths)
        self._lengths = np.where(self._known, data.lengths, 0.0)
        self._logs = np.log(np.where(self._known, data.lengths, 1.0))
        self._depths = tuple(depth for depth in DEPTHS if depth == 1 or depth < len(data.lengths))
        self._means, self._excess, self._expected = np.full((3, len(self._depths), captions), np.nan)
        self._rank, self._recall = np.full((2, captions), np.nan)
        self._main = max(one for one in self._depths if one <= MAIN)
        self._shown, self._pull = np.zeros((2, len(data.lengths)))
        permuted = data.beyond_class
        self._values = np.zeros((1 + PROBES, len(data.lengths)))
        self._values[:, self._known] = np.vstack([permuted.values, permuted.probes(seed)])
        self._own = np.full((captions, 1 + PROBES), np.nan)

    def add(self, rows: slice, block: NDArray[Any], items: Items | None) -> None:
        """Some captions more, with the clips that answer them."""
        if items is not None:
            self._add_ranks(rows, block, items)
        logs = self._data.class_logs
        if logs is not None:
            self._add_first(rows, block, np.broadcast_to(logs, block.shape))
        else:
            block, typical, counts = self._others(block, items)
            self._add_first(rows, block, typical)
            self._take_others(rows, items, counts)

    def result(self) -> FirstClipLengths:
        """All that was seen."""
        pull = np.asarray(self._pull / max(int((~np.isnan(self._own[:, 0])).sum()), 1))
        return FirstClipLengths(
            self._means, self._excess, self._expected, self._rank, self._recall, self._shown, pull, self._own,
            self._depths,
        )  # fmt: skip

    def _add_ranks(self, rows: slice, block: NDArray[Any], items: Items) -> None:
        hits = first_hits(find_places(block, best_items(block, items)))
        columns = hit_columns(hits, (_RECALL,))
        self._rank[rows.start + hits.query] = columns[FIRST_RANK]
        self._recall[rows.start + hits.query] = columns[str(_RECALL)]

    def _others(self, block: NDArray[Any], items: Items | None) -> tuple[NDArray[Any], Column, NDArray[np.int64]]:
        """Scores without the clips that answer, (b, V) the mean logarithm of the lengths of all others, (b,) these."""
        total, count = np.full(len(block), self._logs.sum()), np.full(len(block), self._known.sum())
        if items is not None:
            total -= np.bincount(items.query, self._logs[items.item], len(block))
            count -= np.bincount(items.query, self._known[items.item], len(block)).astype(np.int64)
            block = block.astype(np.result_type(block, np.float32))
            block[items.query, items.item] = -np.inf
        return block, np.broadcast_to((total / np.maximum(count, 1))[:, None], block.shape), count

    def _take_others(self, rows: slice, items: Items | None, counts: NDArray[np.int64]) -> None:
        """Take from pull and captions what the mean of all clips of known length that do not answer gives."""
        part = np.where(np.isnan(self._own[rows, 0]), 0.0, 1 / np.maximum(counts, 1))
        left_out = np.zeros((len(part), len(self._values)))
        self._pull -= self._known * part.sum()
        if items is not None:
            self._pull += self._known * np.bincount(items.item, part[items.query], len(self._pull))
            for number, values in enumerate(self._values):
                left_out[:, number] = np.bincount(items.query, values[items.item], len(part))
        self._own[rows] -= part[:, None] * (self._values.sum(axis=1) - left_out)

    def _add_first(self, rows: slice, block: NDArray[Any], typical: Column) -> None:
        nearest = candidates(block, self._depths[-1])
        ordered = OrderedRows.of(np.take_along_axis(block, nearest, axis=1))
        for number, depth in enumerate(self._depths):
            places, shares = ordered.first(depth)
            columns = np.take_along_axis(nearest, places, axis=1)
            self._add_depth(number, rows, columns, shares, np.take_along_axis(typical, columns, axis=1))

    def _add_depth(self, number: int, rows: slice, columns: NDArray[np.intp], shares: Column, expected: Column) -> None:
        """What some captions are shown first: (b, W) clips, the share of each in the first k, and what is expected."""
        weights = shares * self._known[columns]
        with np.errstate(invalid="ignore"):  # nothing is shown, or nothing of known length
            for into, values in (
                (self._means, self._lengths[columns]),
                (self._excess, self._logs[columns] - expected),
                (self._expected, expected),
            ):
                into[number, rows] = (weights * values).sum(axis=1) / weights.sum(axis=1)
        if self._depths[number] == self._main:
            total = weights.sum(axis=1, keepdims=True)
            part = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
            self._shown += np.bincount(columns.ravel(), shares.ravel(), len(self._shown))
            self._pull += np.bincount(columns.ravel(), part.ravel(), len(self._pull))
            own = np.stack([(part * values[columns]).sum(axis=1) for values in self._values], axis=1)
            self._own[rows] = np.where(total > 0, own, np.nan)
