"""Sinkhorn normalisation: hubs are lowered by their potentials in an entropic transport of queries to items.

In the transport every item answers as many queries as any other, so that an item that too many queries prefer has a low
potential. Source: Pan et al. 2025 (arXiv 2508.02538): SN, and DBSN with a bank of queries and a bank of items. The
formulas are those of the authors' public code (ppanzx/DBSN, commit 44aacaa, Video_Retrieval/sn.py and dbsn.py), with
potentials as logarithms; the numbers of the paper's equations could not be read, and are not named here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.matrices import unmasked
from evenreel.evaluation.rescoring.columns import (
    OTHER_QUERIES,
    Matrix,
    bank_label,
    checked_bank,
    checked_numbers,
    less_column,
    queries_as_rows,
    result_of,
)
from evenreel.evaluation.settings import Direction
from evenreel.evaluation.transport import Potentials, potentials
from evenreel.types import Scores


def sinkhorn_over_test(scores: Scores, temperature: float = 0.01, iterations: int = 10) -> Scores:
    """Apply Sinkhorn normalisation (SN) with the queries of the test: add both potentials of their transport.

    What is added to a caption moves none of its videos, and the other way round, so the result serves both directions.
    It equals the authors' code in `t2v` after any number of rounds, and in `v2t` once the rounds have converged (the
    code's rounds then end at the other side).

    Args:
        scores: scores of Q captions and V videos; a pair of minus infinity is never transported.
        temperature: temperature of the transport, in units of the scores.
        iterations: greatest number of Sinkhorn's rounds.

    Raises:
        UsageError: temperature or iterations are out of their range.
    """
    _check(temperature, iterations)
    values = checked_numbers(scores.values, scores)
    found = _potentials(values / np.float64(temperature), iterations, equal=True)
    of_both = temperature * found.of_queries[:, None] + temperature * found.of_items
    return result_of(scores, np.asarray(values + of_both.astype(values.dtype)), OTHER_QUERIES)


def sinkhorn_norm(
    scores: Scores,
    bank: Matrix,
    temperature: float = 0.02,
    iterations: int = 20,
    direction: Direction = "t2v",
) -> Scores:
    """Lower the scores of hubs: add to each item its potential in an entropic transport of the bank's queries.

    SN with a bank of queries alone. Where the bank has fewer queries than there are items, an item answers one query at
    most (in the authors' code all answer equally much, which spreads each query over several items whatever its
    scores). The correction belongs to the item, so an index can store it.

    Args:
        scores: scores of Q captions and V videos.
        bank: (N, V) scores of N other captions for `t2v`, (Q, N) of N other videos for `v2t`; they should be varied:
            what many of them ask for counts as a hub. A pair of minus infinity is never transported.
        temperature: temperature of the transport, in units of the scores; 1 / the logit scale of a matcher is a good
            one.
        iterations: greatest number of Sinkhorn's rounds.
        direction: direction of the search.

    Raises:
        ScoresError: the bank does not fit the scores, or is no numbers.
        UsageError: temperature or iterations are out of their range.
    """
    _check(temperature, iterations)
    values = queries_as_rows(checked_numbers(scores.values, scores), direction)
    bank = queries_as_rows(bank, direction)
    bank = checked_bank(bank, values.shape[1], 1, len(bank))
    offsets = temperature * _potentials(bank / np.float64(temperature), iterations).of_items
    lowered = queries_as_rows(less_column(values, -offsets), direction)
    return result_of(scores, lowered, bank_label(bank, values, direction))


def dual_bank_sinkhorn(
    scores: Scores,
    bank: Matrix,
    pairs: Matrix,
    direction: Direction = "t2v",
    temperature: float = 0.01,
    iterations: int = 10,
) -> Scores:
    """Apply dual bank Sinkhorn normalisation (DBSN): transport the bank's queries to the gallery and the bank's items.

    The items that answer the bank's queries (`pairs`) take their share, so that the gallery is not made to answer
    queries that it has nothing for. Gallery and bank items answer equally much; those of the bank are then left out.

    Args:
        scores: scores of Q captions and V videos.
        bank: (N, V) scores of N other captions for `t2v`, (Q, N) of N other videos for `v2t`.
        pairs: scores of other captions (rows) with other videos, those of the bank: (N, W) with W other videos for
            `t2v`, (W, N) with W other captions for `v2t`.
        direction: direction of the search.
        temperature: temperature of the transport, in units of the scores.
        iterations: greatest number of Sinkhorn's rounds.

    Raises:
        ScoresError: the banks do not fit the scores or each other, or are no numbers.
        UsageError: temperature or iterations are out of their range.
    """
    _check(temperature, iterations)
    values = queries_as_rows(checked_numbers(scores.values, scores), direction)
    items, bank = values.shape[1], queries_as_rows(bank, direction)
    bank = checked_bank(bank, items, 1, len(bank))
    both = np.hstack([bank, _checked_pairs(pairs, len(bank), direction)]) / np.float64(temperature)
    offsets = temperature * _potentials(both, iterations, equal=True).of_items[:items]
    lowered = queries_as_rows(less_column(values, -offsets), direction)
    label = f"{bank_label(bank, values, direction)}, and {both.shape[1] - items:,} items of its own"
    return result_of(scores, lowered, label)


def _checked_pairs(pairs: Matrix, queries: int, direction: Direction) -> Matrix:
    """(N, W), queries of the bank as rows."""
    pairs = queries_as_rows(unmasked(pairs, "The scores of the bank's captions with its videos"), direction)
    if pairs.ndim != 2 or len(pairs) != queries or not pairs.shape[1]:
        raise ScoresError(
            f"The scores of the bank's captions with the bank's videos have the shape {pairs.shape}, queries of "
            f"{direction} as rows; they need {queries:,} rows, one for each query of the bank, and at least a column."
        )
    if np.isnan(pairs).any() or np.isposinf(pairs).any():
        raise ScoresError("The scores of the bank's captions with its videos are NaN or infinite in places.")
    return pairs


def _check(temperature: float, iterations: int) -> None:
    if not (temperature > 0 and iterations >= 1):
        raise UsageError(
            f"The temperature is above 0 and rounds are at least 1; they were {temperature}, {iterations}."
        )


def _potentials(kernel: NDArray[np.float64], iterations: int, *, equal: bool = False) -> Potentials:
    """Potentials of rows and columns; those with nothing finite take no part and have 0."""
    finite = np.isfinite(kernel)
    rows, columns = finite.any(axis=1), finite.any(axis=0)
    of_queries, of_items = (np.zeros(size) for size in kernel.shape)
    if rows.any():
        whole = rows.all() and columns.all()
        found = potentials(kernel if whole else kernel[np.ix_(rows, columns)], iterations, equal=equal)
        of_queries[rows], of_items[columns] = found
    return Potentials(of_queries, of_items)
