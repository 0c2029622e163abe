"""Corrections of scores at test time that use other queries (dual softmax, QB-Norm, CSLS), each labelled so.

A query's figure then depends on which other queries there are, so corrected scores must not be mixed with plain ones:
`Scores.about` says what a result uses, and tables print that. Inputs are never changed.

In the formulas s(q, v) is the score of a query and an item of its gallery: q a caption and v a video in the direction
`t2v`, turned round in `v2t`. A score of minus infinity stays what it is. Softmaxes are computed as logarithms, and
where only the order within a query's ranking matters the logarithm is the result, because a probability that underflows
to 0 would make ties that the method does not have.

Sources: Cheng et al. 2021 (CAMoE, dual softmax); Lin et al. 2022 (EgoVLP, its other form); Smith et al. 2017 (inverted
softmax); Bogolin et al. 2022 (QB-Norm); Chowdhury et al. 2024 (nearest neighbour normalisation, NNN); Lample et al.
2018 (CSLS); Zhang et al. 2026 (HAT-VTR, hub memory).
"""

from __future__ import annotations

import numpy as np

from evenreel.errors import UsageError
from evenreel.evaluation.hub_memory import HubMemory, suppressed
from evenreel.evaluation.rescoring.columns import (
    OTHER_QUERIES,
    Matrix,
    bank_label,
    checked_bank,
    checked_numbers,
    less_column,
    log_sum_exp,
    mean_of_best,
    queries_as_rows,
    result_of,
    slabs,
)
from evenreel.evaluation.settings import Direction
from evenreel.types import Scores

EARLIER_QUERIES = "queries before it and beside it in its batch, in the order of the scores"


def dual_softmax(scores: Scores, direction: Direction = "t2v", scale: float = 100.0) -> Scores:
    """Apply the dual softmax loss (DSL) at test time: s(q, v) softmax_q(scale s(q, v)), over all queries of the test.

    Cheng et al. 2021; the default scale suits cosines of CLIP-like models (T-MASS). Computed in float64, because the
    factor of a poor pair is smaller than float32 can hold.
    """
    values = queries_as_rows(checked_numbers(scores.values, scores), direction)
    totals = log_sum_exp(values, scale)
    product = np.empty(values.shape)
    for rows in slabs(*values.shape):
        part = values[rows].astype(np.float64)
        with np.errstate(invalid="ignore"):
            product[rows] = np.where(np.isneginf(part), part, part * np.exp(scale * part - totals))
    return result_of(scores, queries_as_rows(product, direction), OTHER_QUERIES)


def double_softmax(scores: Scores, scale: float = 1 / 500) -> Scores:
    """Apply EgoVLP's form of DSL: p = s softmax_videos(scale s), then softmax_captions(p), for both directions.

    Made for inner products, not cosines (Lin et al. 2022, code of the EPIC-KITCHENS test). The logarithm of the second
    softmax is the result.
    """
    values = checked_numbers(scores.values, scores)
    totals = log_sum_exp(values.T, scale)
    product = np.empty(values.shape)
    for rows in slabs(*values.shape):
        part = values[rows].astype(np.float64)
        with np.errstate(invalid="ignore"):
            weighted = part * np.exp(scale * part - totals[rows, None])
        product[rows] = np.where(np.isneginf(part), part, weighted)
    return result_of(scores, less_column(product, log_sum_exp(product, 1.0)), OTHER_QUERIES)


def inverted_softmax(scores: Scores, direction: Direction = "t2v", scale: float = 20.0) -> Scores:
    """Apply the inverted softmax, s(q, v) - log(sum_q exp(scale s(q, v))) / scale, on the scale of the scores.

    It ranks items as softmax_q(scale s) does. Smith et al. 2017, with all queries of the test as the sample. A constant
    in all scores of an item has no effect.
    """
    values = queries_as_rows(checked_numbers(scores.values, scores), direction)
    lowered = less_column(values, log_sum_exp(values, scale) / scale)
    return result_of(scores, queries_as_rows(lowered, direction), OTHER_QUERIES)


def querybank_norm(
    scores: Scores, bank: Matrix, scale: float = 20.0, top: int = 1, direction: Direction = "t2v"
) -> Scores:
    """Apply QB-Norm, the dynamic inverted softmax: queries whose best item is a hub of the bank are corrected.

    An item is a hub if it is among the `top` of any query of the bank. A corrected row is s(q, v) - log(sum_b
    exp(scale s(b, v))) / scale, ordered as exp(scale s(q, v)) / sum_b exp(scale s(b, v)); other rows stay (Bogolin et
    al. 2022). Queries are of two scales, so only the rankings of this direction mean anything.

    Args:
        scores: scores of Q captions and V videos.
        bank: (N, V) scores of N other captions for `t2v`, of the training set for example; (Q, N) of N other videos
            for `v2t`.
        scale: inverse temperature of the softmax.
        top: number of first items of each bank query that count as hubs; ties with the last count too.
        direction: direction of the search.
    """
    values = queries_as_rows(checked_numbers(scores.values, scores), direction)
    bank = queries_as_rows(bank, direction)
    bank = checked_bank(bank, values.shape[1], top, bank.shape[1] if bank.ndim == 2 else 0)
    least = np.partition(bank, -top, axis=1)[:, -top]
    hubs = np.asarray(((bank >= least[:, None]) & np.isfinite(bank)).any(axis=0))
    corrected = hubs[values.argmax(axis=1)]
    result = values.copy()
    result[corrected] = less_column(values[corrected], log_sum_exp(bank, scale) / scale)
    return result_of(scores, queries_as_rows(result, direction), bank_label(bank, values, direction))


def nearest_neighbour_norm(
    scores: Scores, bank: Matrix, direction: Direction = "t2v", top: int = 128, weight: float = 0.75
) -> Scores:
    """Apply NNN: s(q, v) - weight x the mean of the `top` best scores that queries of the bank have with v.

    Chowdhury et al. 2024; the numbers are those of the authors' example. The correction belongs to the item, so an
    index can store it.

    Args:
        scores: scores of Q captions and V videos.
        bank: (N, V) scores of N other captions for `t2v`, (Q, N) of N other videos for `v2t`.
        direction: direction of the search.
        top: number of bank queries that count for an item.
        weight: weight of the correction.
    """
    values = queries_as_rows(checked_numbers(scores.values, scores), direction)
    bank = queries_as_rows(bank, direction)
    bank = checked_bank(bank, values.shape[1], top, len(bank))
    lowered = less_column(values, weight * mean_of_best(bank, top))
    return result_of(scores, queries_as_rows(lowered, direction), bank_label(bank, values, direction))


def csls(scores: Scores, neighbours: int = 10) -> Scores:
    """Apply CSLS: 2 s(q, v) - r(q) - r(v), with r the mean of the best scores of a row or a column.

    Items that are similar to everything are lowered; the result serves both directions (Lample et al. 2018).

    Args:
        scores: scores of Q captions and V videos.
        neighbours: number of best scores in the mean r.
    """
    values = checked_numbers(scores.values, scores)
    if not 1 <= neighbours <= min(values.shape):
        raise UsageError(
            f"CSLS looks at the best {neighbours} scores of each caption and video, but there are {values.shape[0]} "
            f"captions and {values.shape[1]} videos; score at least {neighbours} of both, or look at fewer."
        )
    of_captions, of_videos = mean_of_best(values.T, neighbours), mean_of_best(values, neighbours)
    result = 2 * values
    result -= of_captions[:, None].astype(result.dtype)
    result -= of_videos.astype(result.dtype)
    return result_of(scores, result, OTHER_QUERIES)


def hub_memory(scores: Scores, direction: Direction = "t2v", settings: HubMemory | None = None) -> Scores:
    """Apply the hubness suppression memory of HAT-VTR: weight scores by softmaxes over earlier queries and over items.

    Queries are taken in batches, in the order of the rows (of the columns in `v2t`), and none uses a later one.
    Captions of one clip that follow each other lower that very clip, so shuffle them. The first batch stays as it is,
    so rows have different scales, and only queries' rankings mean anything. The numbers of the authors are for cosines
    in CLIP-like models; as in `dual_softmax`, what is lowered of a score below 0 rises.

    Args:
        scores: scores of Q captions and V videos.
        direction: direction of the search.
        settings: sizes and temperatures; None for those of the authors.
    """
    values = queries_as_rows(checked_numbers(scores.values, scores), direction)
    found = suppressed(values, settings or HubMemory())
    return result_of(scores, queries_as_rows(found, direction), EARLIER_QUERIES)
