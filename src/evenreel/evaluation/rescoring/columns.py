"""Steps that corrections of scores share: checks, sums and means down columns, and what a result says it used."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, slices
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.blocks import as_blocks
from evenreel.evaluation.matrices import unmasked
from evenreel.evaluation.settings import Direction
from evenreel.types import ScoreBlocks, Scores

Matrix = NDArray[Any]

OTHER_QUERIES = "other queries"

_SLAB_BYTES = 32 * 2**20


def dense(scores: ScoreBlocks) -> Scores:
    """Read scores into one matrix (Q, V) in memory."""
    if isinstance(scores, Scores):
        return cast("Scores", as_blocks(scores))
    values = scores.block(slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids)))
    return Scores(values, scores.caption_ids, scores.video_ids, scores.about)


def result_of(scores: Scores, values: Matrix, label: str) -> Scores:
    """Return corrected values (Q, V) with the ids of the scores, and what they use."""
    return Scores(values, scores.caption_ids, scores.video_ids, scores.about.using(label))


def bank_label(bank: Matrix, values: Matrix, direction: Direction) -> str:
    """Say what was used; a bank with the very scores that are corrected has seen the queries of the test."""
    label = f"a bank of {len(bank):,} {'captions' if direction == 't2v' else 'videos'}"
    same = _equal_rows(bank, values)
    return f"{label}, {same:,} of them with the scores of queries that are corrected" if same else label


def _equal_rows(bank: Matrix, values: Matrix) -> int:
    """How many rows of one matrix are rows of another; rows that are all equal say nothing."""
    rows = {_digest(row) for row in values if row.min() < row.max()}
    return sum(_digest(row) in rows for row in bank)


def _digest(row: Column) -> bytes:
    return blake2b(row.astype(np.float32).tobytes(), digest_size=16).digest()


def queries_as_rows(values: Matrix, direction: Direction) -> Matrix:
    """Turn scores (Q, V) so that queries are rows; the same turns the result back."""
    return values if direction == "t2v" else values.T


def checked_numbers(values: Matrix, scores: Scores) -> Matrix:
    """Return scores (Q, V) as float32 or float64, with nothing in them that cannot be ranked.

    Raises:
        ScoresError: a score is NaN or infinite, or hidden by a mask.
    """
    values = unmasked(values, "The scores")
    if not np.issubdtype(values.dtype, np.floating):
        return values.astype(np.float64)
    wrong = np.isnan(values) | np.isposinf(values)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ScoresError(
            f"The score of {scores.caption_ids[row]!r} and {scores.video_ids[column]!r} is {values[row, column]}; "
            "re-scoring needs finite numbers, or minus infinity for what is never retrieved."
        )
    return values.astype(np.float32) if values.dtype.itemsize < 4 else values


def checked_bank(bank: Matrix, items: int, top: int, most: int) -> Matrix:
    """Return the scores (N, items) of a bank, queries as rows, after checks.

    Raises:
        ScoresError: they have another shape, or are no numbers that can be used.
        UsageError: the bank has fewer than the `top` that the correction looks at.
    """
    bank = unmasked(bank, "The scores of the bank")
    if bank.ndim != 2 or bank.shape[1] != items or len(bank) == 0:
        raise ScoresError(
            f"The bank's scores have the shape {bank.shape}; they need a row for each of its queries, at least one, "
            f"and a column for each of the {items} items of the gallery."
        )
    if np.isnan(bank).any() or np.isposinf(bank).any():
        raise ScoresError("The bank has scores that are NaN or infinite; nothing can be corrected by them.")
    if not 1 <= top <= most:
        raise UsageError(
            f"The correction looks at the best {top} of the bank, which has {most}; give a bank of at least "
            f"{top} queries, or choose --top from 1 to {most}."
        )
    return bank if bank.dtype.itemsize >= 4 and np.issubdtype(bank.dtype, np.floating) else bank.astype(np.float64)


def less_column(values: Matrix, totals: Column) -> Matrix:
    """Subtract (m,) from the rows of (n, m), in the type of the values; minus infinity stays."""
    finite = np.where(np.isneginf(totals), 0.0, totals)
    return np.asarray(values - finite.astype(values.dtype))


def log_sum_exp(values: Matrix, scale: float) -> Column:
    """Compute the (m,) logarithms of sums of exp(scale x) down the columns of (n, m)."""
    totals = np.empty(values.shape[1])
    for columns in slabs(values.shape[1], values.shape[0]):
        part = scale * values[:, columns].astype(np.float64)
        top = part.max(axis=0)
        top[np.isneginf(top)] = 0.0  # a column of nothing else: its sum is 0
        with np.errstate(divide="ignore"):
            totals[columns] = top + np.log(np.exp(part - top).sum(axis=0))
    return totals


def mean_of_best(values: Matrix, count: int) -> Column:
    """Compute the (m,) means of the `count` largest of each column of (n, m), of the finite ones; 0 where none is."""
    means = np.empty(values.shape[1])
    for columns in slabs(values.shape[1], values.shape[0]):
        best = np.partition(values[:, columns].astype(np.float64), -count, axis=0)[-count:]
        finite = np.isfinite(best)
        means[columns] = np.where(finite, best, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
    return means


def slabs(total: int, width: int) -> Iterator[slice]:
    """Cut an axis into pieces for which a few float64 arrays of their size are small."""
    return slices(total, _SLAB_BYTES // (8 * max(width, 1)))
