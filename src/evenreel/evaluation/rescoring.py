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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, slices
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.blocks import unmasked
from evenreel.evaluation.hub_memory import HubMemory, suppressed
from evenreel.evaluation.settings import Direction
from evenreel.evaluation.transport import potentials
from evenreel.types import ScoreBlocks, Scores

Matrix = NDArray[Any]

OTHER_QUERIES = "other queries"
EARLIER_QUERIES = "queries before it and beside it in its batch, in the order of the scores"

ALONE: dict[Direction, str] = {
    "t2v": "a correction for captions' searches alone",
    "v2t": "a correction for videos' searches alone",
}
"""What corrected scores that are kept say as well where their figures in the other direction mean nothing."""

_SLAB_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Rescoring:
    """Correction of scores at test time, with the settings of its authors.

    Attributes:
        name: name in tables.
        apply: function from the scores, the direction and the bank (where one is needed) to corrected scores.
        needs_bank: whether it needs scores of other queries against the same gallery.
        directions: directions of search that it is defined for.
        serves_both: whether the result for one direction also serves the other.
    """

    name: str
    apply: Callable[[Scores, Direction, Matrix | None], Scores]
    needs_bank: bool = False
    directions: tuple[Direction, ...] = ("t2v", "v2t")
    serves_both: bool = False


def rescore(word: str, scores: ScoreBlocks, direction: Direction, bank: Matrix | None = None) -> Scores:
    """Apply a correction of scores at test time, chosen by name, with the settings of its authors.

    Args:
        word: a key of `RESCORINGS`.
        scores: scores of Q captions and V videos; they are read into one matrix.
        direction: direction of the search to correct.
        bank: (N, V) scores of N other captions for `t2v`, (Q, N) of N other videos for `v2t`.

    Raises:
        UsageError: there is no such correction, it is not defined for the direction, or the bank is missing.
        ScoresError: the scores or the bank cannot be used.
    """
    if word not in RESCORINGS:
        raise UsageError(f"{word!r} is no re-scoring; there are: {', '.join(RESCORINGS)}.")
    method = RESCORINGS[word]
    if direction not in method.directions:
        raise UsageError(
            f"{method.name} corrects {' and '.join(method.directions)} only: its rows have different scales, so "
            "nothing can be ranked down a column."
        )
    if method.needs_bank != (bank is not None):
        raise UsageError(f"{method.name} {'needs a' if method.needs_bank else 'takes no'} bank of other queries.")
    return method.apply(dense(scores), direction, bank)


def dense(scores: ScoreBlocks) -> Scores:
    """Read scores into one matrix (Q, V) in memory."""
    if isinstance(scores, Scores):
        return scores
    values = scores.block(slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids)))
    return Scores(values, scores.caption_ids, scores.video_ids, scores.about)


def dual_softmax(scores: Scores, direction: Direction = "t2v", scale: float = 100.0) -> Scores:
    """Apply the dual softmax loss (DSL) at test time: s(q, v) softmax_q(scale s(q, v)), over all queries of the test.

    Cheng et al. 2021; the default scale suits cosines of CLIP-like models (T-MASS). Computed in float64, because the
    factor of a poor pair is smaller than float32 can hold.
    """
    values = _queries_as_rows(_numbers(scores.values, scores), direction)
    totals = _log_sum_exp(values, scale)
    product = np.empty(values.shape)
    for rows in _slabs(*values.shape):
        part = values[rows].astype(np.float64)
        with np.errstate(invalid="ignore"):
            product[rows] = np.where(np.isneginf(part), part, part * np.exp(scale * part - totals))
    return _result(scores, _queries_as_rows(product, direction), OTHER_QUERIES)


def double_softmax(scores: Scores, scale: float = 1 / 500) -> Scores:
    """Apply EgoVLP's form of DSL: p = s softmax_videos(scale s), then softmax_captions(p), for both directions.

    Made for inner products, not cosines (Lin et al. 2022, code of the EPIC-KITCHENS test). The logarithm of the second
    softmax is the result.
    """
    values = _numbers(scores.values, scores)
    totals = _log_sum_exp(values.T, scale)
    product = np.empty(values.shape)
    for rows in _slabs(*values.shape):
        part = values[rows].astype(np.float64)
        with np.errstate(invalid="ignore"):
            weighted = part * np.exp(scale * part - totals[rows, None])
        product[rows] = np.where(np.isneginf(part), part, weighted)
    return _result(scores, _less_column(product, _log_sum_exp(product, 1.0)), OTHER_QUERIES)


def inverted_softmax(scores: Scores, direction: Direction = "t2v", scale: float = 20.0) -> Scores:
    """Apply the inverted softmax, s(q, v) - log(sum_q exp(scale s(q, v))) / scale, on the scale of the scores.

    It ranks items as softmax_q(scale s) does. Smith et al. 2017, with all queries of the test as the sample. A constant
    in all scores of an item has no effect.
    """
    values = _queries_as_rows(_numbers(scores.values, scores), direction)
    lowered = _less_column(values, _log_sum_exp(values, scale) / scale)
    return _result(scores, _queries_as_rows(lowered, direction), OTHER_QUERIES)


def querybank_norm(scores: Scores, bank: Matrix, scale: float = 20.0, top: int = 1) -> Scores:
    """Apply QB-Norm, the dynamic inverted softmax: captions whose best video is a hub of the bank are corrected.

    A video is a hub if it is among the `top` of any caption of the bank. A corrected row is s(q, v) - log(sum_b
    exp(scale s(b, v))) / scale, ordered as exp(scale s(q, v)) / sum_b exp(scale s(b, v)); other rows stay (Bogolin et
    al. 2022). Rows are of two scales, so only captions' rankings mean anything.

    Args:
        scores: scores of Q captions and V videos.
        bank: (N, V) scores of N other captions, of the training set for example.
        scale: inverse temperature of the softmax.
        top: number of first videos of each bank caption that count as hubs; ties with the last count too.
    """
    values = _numbers(scores.values, scores)
    bank = _checked_bank(bank, values.shape[1], top, bank.shape[1] if bank.ndim == 2 else 0)
    least = np.partition(bank, -top, axis=1)[:, -top]
    hubs = np.asarray(((bank >= least[:, None]) & np.isfinite(bank)).any(axis=0))
    corrected = hubs[values.argmax(axis=1)]
    result = values.copy()
    result[corrected] = _less_column(values[corrected], _log_sum_exp(bank, scale) / scale)
    return _result(scores, result, _bank_label(bank, values, "t2v"))


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
    values = _queries_as_rows(_numbers(scores.values, scores), direction)
    bank = _queries_as_rows(bank, direction)
    bank = _checked_bank(bank, values.shape[1], top, len(bank))
    lowered = _less_column(values, weight * _mean_of_best(bank, top))
    return _result(scores, _queries_as_rows(lowered, direction), _bank_label(bank, values, direction))


def sinkhorn_norm(scores: Scores, bank: Matrix, temperature: float = 0.02, iterations: int = 20) -> Scores:
    """Lower the scores of hubs: add to each video its potential in an entropic transport of the bank's captions.

    In the transport every video answers about as many captions as any other (one at most where there are fewer captions
    than videos), so that a video that too many captions prefer is lowered. The correction belongs to the video, so an
    index can store it. After arXiv 2508.02538 (banks of queries and of the gallery), in the form that needs no second
    bank.

    Args:
        scores: scores of Q captions and V videos.
        bank: (N, V) finite scores of N other captions, which should be varied: what many of them describe counts as a
            hub.
        temperature: temperature of the transport, in units of the scores; 1 / the logit scale of a matcher is a good
            one.
        iterations: greatest number of Sinkhorn's rounds.

    Raises:
        UsageError: temperature or iterations are out of their range.
    """
    if not (temperature > 0 and iterations >= 1):
        raise UsageError(
            f"The temperature is above 0 and rounds are at least 1; they were {temperature}, {iterations}."
        )
    values = _numbers(scores.values, scores)
    bank = _checked_bank(bank, values.shape[1], 1, len(bank))
    if np.isneginf(bank).any():
        raise ScoresError("The bank has scores of minus infinity; a transport needs finite ones.")
    offsets = temperature * potentials(bank.astype(np.float64) / temperature, iterations).of_items
    return _result(scores, _less_column(values, -offsets), _bank_label(bank, values, "t2v"))


def csls(scores: Scores, neighbours: int = 10) -> Scores:
    """Apply CSLS: 2 s(q, v) - r(q) - r(v), with r the mean of the best scores of a row or a column.

    Items that are similar to everything are lowered; the result serves both directions (Lample et al. 2018).

    Args:
        scores: scores of Q captions and V videos.
        neighbours: number of best scores in the mean r.
    """
    values = _numbers(scores.values, scores)
    if not 1 <= neighbours <= min(values.shape):
        raise UsageError(
            f"CSLS looks at the best {neighbours} scores of each caption and video, but there are {values.shape[0]} "
            f"captions and {values.shape[1]} videos; score at least {neighbours} of both, or look at fewer."
        )
    of_captions, of_videos = _mean_of_best(values.T, neighbours), _mean_of_best(values, neighbours)
    result = 2 * values
    result -= of_captions[:, None].astype(result.dtype)
    result -= of_videos.astype(result.dtype)
    return _result(scores, result, OTHER_QUERIES)


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
    values = _queries_as_rows(_numbers(scores.values, scores), direction)
    found = suppressed(values, settings or HubMemory())
    return _result(scores, _queries_as_rows(found, direction), EARLIER_QUERIES)


def _with_bank(function: Callable[..., Scores]) -> Callable[[Scores, Direction, Matrix | None], Scores]:
    """`rescore` has seen to it that there is a bank."""
    return lambda scores, direction, bank: function(scores, bank, direction)


RESCORINGS: dict[str, Rescoring] = {
    "dsl": Rescoring("dual softmax", lambda scores, direction, _: dual_softmax(scores, direction)),
    "dsl-double": Rescoring(
        "dual softmax, EgoVLP's form", lambda scores, _, __: double_softmax(scores), serves_both=True
    ),
    "inverted": Rescoring("inverted softmax", lambda scores, direction, _: inverted_softmax(scores, direction)),
    "csls": Rescoring("CSLS", lambda scores, _, __: csls(scores), serves_both=True),
    "hub-memory": Rescoring("hub memory", lambda scores, direction, _: hub_memory(scores, direction)),
    "qb-norm": Rescoring("QB-Norm", _with_bank(lambda scores, bank, _: querybank_norm(scores, bank)), True, ("t2v",)),
    "nnn": Rescoring("NNN", _with_bank(nearest_neighbour_norm), True),
}


def _result(scores: Scores, values: Matrix, label: str) -> Scores:
    return Scores(values, scores.caption_ids, scores.video_ids, scores.about.using(label))


def _bank_label(bank: Matrix, values: Matrix, direction: Direction) -> str:
    """What was used; a bank with the very scores that are corrected has seen the queries of the test."""
    label = f"a bank of {len(bank):,} {'captions' if direction == 't2v' else 'videos'}"
    same = _equal_rows(bank, values)
    return f"{label}, {same:,} of them with the scores of queries that are corrected" if same else label


def _equal_rows(bank: Matrix, values: Matrix) -> int:
    """How many rows of one matrix are rows of another; rows that are all equal say nothing."""
    rows = {_digest(row) for row in values if row.min() < row.max()}
    return sum(_digest(row) in rows for row in bank)


def _digest(row: Column) -> bytes:
    return blake2b(row.astype(np.float32).tobytes(), digest_size=16).digest()


def _queries_as_rows(values: Matrix, direction: Direction) -> Matrix:
    """Queries as rows; the same turns the result back."""
    return values if direction == "t2v" else values.T


def _numbers(values: Matrix, scores: Scores) -> Matrix:
    """(Q, V) float32 or float64, with nothing in it that cannot be ranked."""
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


def _checked_bank(bank: Matrix, items: int, top: int, most: int) -> Matrix:
    """(N, items), queries as rows."""
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
            f"{top} captions, or choose a top of 1 to {most}."
        )
    return bank if bank.dtype.itemsize >= 4 and np.issubdtype(bank.dtype, np.floating) else bank.astype(np.float64)


def _less_column(values: Matrix, totals: Column) -> Matrix:
    """(n, m) less (m,), in the type of the values; minus infinity stays."""
    finite = np.where(np.isneginf(totals), 0.0, totals)
    return np.asarray(values - finite.astype(values.dtype))


def _log_sum_exp(values: Matrix, scale: float) -> Column:
    """(n, m) -> (m,) log of the sum of exp(scale x) down the columns."""
    totals = np.empty(values.shape[1])
    for columns in _slabs(values.shape[1], values.shape[0]):
        part = scale * values[:, columns].astype(np.float64)
        top = part.max(axis=0)
        top[np.isneginf(top)] = 0.0  # a column of nothing else: its sum is 0
        with np.errstate(divide="ignore"):
            totals[columns] = top + np.log(np.exp(part - top).sum(axis=0))
    return totals


def _mean_of_best(values: Matrix, count: int) -> Column:
    """(n, m) -> (m,) mean of the `count` largest of each column, of those that are finite; 0 where none is."""
    means = np.empty(values.shape[1])
    for columns in _slabs(values.shape[1], values.shape[0]):
        best = np.partition(values[:, columns].astype(np.float64), -count, axis=0)[-count:]
        finite = np.isfinite(best)
        means[columns] = np.where(finite, best, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
    return means


def _slabs(total: int, width: int) -> Iterator[slice]:
    """Pieces of an axis for which a few float64 arrays of their size are small."""
    return slices(total, _SLAB_BYTES // (8 * max(width, 1)))
