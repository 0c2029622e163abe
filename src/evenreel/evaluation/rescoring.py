"""Corrections of scores at test time that use other queries (dual softmax, QB-Norm, CSLS), each labelled so.

A query's figure then depends on which other queries there are, so corrected scores must not be mixed with plain ones:
`Scores.about` says what a result uses, and tables print that. Inputs are never changed.

In the formulas s(q, v) is the score of a query and an item of its gallery: q a caption and v a video in the direction
`t2v`, turned round in `v2t`. A score of minus infinity stays what it is. Softmaxes are computed as logarithms, and
where only the order within a query's ranking matters the logarithm is the result, because a probability that underflows
to 0 would make ties that the method does not have.

Sources: Cheng et al. 2021 (CAMoE, dual softmax); Lin et al. 2022 (EgoVLP, its other form); Smith et al. 2017 (inverted
softmax); Bogolin et al. 2022 (QB-Norm); Chowdhury et al. 2024 (nearest neighbour normalisation, NNN); Lample et al.
2018 (CSLS); Zhang et al. 2026 (HAT-VTR, arXiv 2604.20851, hub memory); Cuturi 2013 (entropic transport); Pan et al.
2025 (arXiv 2508.02538, Sinkhorn normalisation: SN, and DBSN with a bank of queries and a bank of items). In the
transport every item answers as many queries as any other, so that an item that too many queries prefer has a low
potential. Its formulas are those of the authors' public code (ppanzx/DBSN, commit 44aacaa, Video_Retrieval/sn.py and
dbsn.py), with potentials as logarithms; the numbers of the paper's equations could not be read, and are not named here.

Of every correction `scores` are those of Q captions and V videos, `direction` is that of the search, and a `bank` has
scores of other queries with the same gallery: (N, V) of N other captions for `t2v`, (Q, N) of N other videos for `v2t`.
A bank that does not fit, or is no numbers, is a `ScoresError`; a setting out of its range a `UsageError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from inspect import signature
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from evenreel.arrays import Column, slices
from evenreel.config import check_settings_kind, check_word
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.metrics import Direction, RescoringSettings
from evenreel.evaluation.ranking import as_blocks, unmasked
from evenreel.evaluation.scores import (
    ScoresLike,
    as_matrix,
    as_scores,
    check_file,
    check_matrix,
    read_arrays,
    read_matrix,
    row_of_text,
)
from evenreel.types import ScoreBlocks, Scores

_ROUNDING = 1e-9  # two steps that differ by less than this share of their size are equal


def potentials(kernel: NDArray[np.float64], iterations: int, *, equal: bool = False) -> tuple[Column, Column]:
    """Compute the potentials of the entropic transport of queries to items, by Sinkhorn's rounds.

    The rows of the plan sum to 1 / Q and its columns to 1 / V, or to at most 1 / Q where Q is below V: equal shares
    would then spread each query over several items whatever its scores. With `equal` they are equal all the same.

    Args:
        kernel: (Q, V) scores divided by the temperature; each row and each column has a finite one.
        iterations: greatest number of rounds; fewer are run where a round changes nothing.
        equal: whether columns have equal shares also where there are fewer queries than items.

    Returns:
        Potentials (Q,) of queries and (V,) of items of a plan exp(kernel + of_queries[:, None] + of_items). That of an
        item is the lower, the more queries prefer it than it has room for.
    """
    queries, items = kernel.shape
    share, most = -np.log(queries), -np.log(items if equal else min(queries, items))
    of_queries = share - logsumexp(kernel, axis=1)
    of_items = np.zeros(items)
    for _ in range(iterations):
        of_items = most - logsumexp(kernel + of_queries[:, None], axis=0)
        if queries < items and not equal:
            of_items = np.minimum(of_items, 0.0)  # a column may have less
        before, of_queries = of_queries, share - logsumexp(kernel + of_items, axis=1)
        if np.abs(of_queries - before).max() <= _ROUNDING * max(1.0, np.abs(of_queries).max()):
            break
    return of_queries, of_items


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
    rows = {_digest(row) for row in values if row.min() < row.max()}  # rows that are all equal say nothing
    same = sum(_digest(row) in rows for row in bank)
    return f"{label}, {same:,} of them with the scores of queries that are corrected" if same else label


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


def _with_bank(
    scores: Scores, bank: Matrix, direction: Direction, top: int = 1, *, of_items: bool = False
) -> tuple[Matrix, Matrix]:
    """Scores and bank with queries as rows, checked; `top` of the bank's queries, or of its items, are looked at."""
    values = queries_as_rows(checked_numbers(scores.values, scores), direction)
    bank, items = queries_as_rows(bank, direction), values.shape[1]
    bank = unmasked(bank, "The scores of the bank")
    if bank.ndim != 2 or bank.shape[1] != items or len(bank) == 0:
        raise ScoresError(
            f"The bank's scores have the shape {bank.shape}; they need a row for each of its queries, at least one, "
            f"and a column for each of the {items} items of the gallery."
        )
    if np.isnan(bank).any() or np.isposinf(bank).any():
        raise ScoresError("The bank has scores that are NaN or infinite; nothing can be corrected by them.")
    most = items if of_items else len(bank)
    if not 1 <= top <= most:
        raise UsageError(
            f"The correction looks at the best {top} of the bank, which has {most}; give a bank of at least "
            f"{top} queries, or choose --top from 1 to {most}."
        )
    wide = bank.dtype.itemsize >= 4 and np.issubdtype(bank.dtype, np.floating)
    return values, bank if wide else bank.astype(np.float64)


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


def _finite(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of a sum of nothing is no shift."""
    return np.where(np.isneginf(logs), 0.0, logs)


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

    Args of its own: `scale` is the inverse temperature of the softmax, `top` the number of first items of each bank
    query that count as hubs; ties with the last count too.
    """
    values, bank = _with_bank(scores, bank, direction, top, of_items=True)
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
    """
    values, bank = _with_bank(scores, bank, direction, top)
    lowered = less_column(values, weight * mean_of_best(bank, top))
    return result_of(scores, queries_as_rows(lowered, direction), bank_label(bank, values, direction))


def csls(scores: Scores, neighbours: int = 10) -> Scores:
    """Apply CSLS: 2 s(q, v) - r(q) - r(v), with r the mean of the best `neighbours` scores of a row or a column.

    Items that are similar to everything are lowered; the result serves both directions (Lample et al. 2018).
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


def hub_memory(  # noqa: PLR0913, PLR0917 -- scores and direction, and the method's own settings by name
    scores: Scores,
    direction: Direction = "t2v",
    batch: int = 16,
    remembered: int | None = None,
    alpha: float = 100.0,
    beta: float = 10.0,
    weight: float = 0.5,
) -> Scores:
    """Apply the hubness suppression memory of HAT-VTR: weight scores by softmaxes over earlier queries and over items.

    Queries are taken in batches, in the order of the rows (of the columns in `v2t`), and none uses a later one.
    Captions of one clip that follow each other lower that very clip, so shuffle them. The first batch stays as it is,
    so rows have different scales, and only queries' rankings mean anything. The numbers of the authors are for cosines
    in CLIP-like models; as in `dual_softmax`, what is lowered of a score below 0 rises.

    Args of its own: `batch` is the number of queries that are answered at a time, `remembered` that of earlier batches
    that count (None for a tenth of the number of items, at least 1); `alpha` is the inverse temperature of the softmax
    over the queries, in units of the scores, `beta` that of the softmax over the items, and `weight` the share m of
    that over the queries, 0 to 1.
    """
    if not (batch >= 1 and (remembered is None or remembered >= 1)):
        raise UsageError(
            f"A memory has batches of 1 query or more and remembers 1 or more of them; they were {batch} and "
            f"{remembered}."
        )
    if not (0 < alpha < np.inf and 0 < beta < np.inf and 0 <= weight <= 1):  # false of NaN too
        raise UsageError(
            "The inverse temperatures of a memory are finite and above 0 and its weight is 0 to 1; they were "
            f"{alpha}, {beta} and {weight}."
        )
    values = queries_as_rows(checked_numbers(scores.values, scores), direction)
    window = 1 + (remembered or max(1, values.shape[1] // 10))
    starts = range(0, len(values), batch)
    result = np.empty(values.shape)
    earlier = np.empty((0, values.shape[1]))  # log sums from each batch of the window before to that window's end
    for first in range(0, len(starts), window):
        batches = [values[start : start + batch].astype(np.float64) for start in starts[first : first + window]]
        sums = np.stack([np.logaddexp.reduce(alpha * own, axis=0) for own in batches])
        until = np.logaddexp.accumulate(sums, axis=0)
        for place, own in enumerate(batches):
            before = earlier[place + 1 : place + 2]  # none at the window's end, and before the second window
            of_items = np.logaddexp.reduce([until[place], *before], axis=0)
            of_queries = logsumexp(beta * own, axis=1, keepdims=True)
            by_queries = weight * np.exp(alpha * own - _finite(of_items))
            by_items = (1 - weight) * np.exp(beta * own - _finite(of_queries))
            start = starts[first + place]
            with np.errstate(invalid="ignore"):
                result[start : start + batch] = np.where(np.isneginf(own), own, own * (by_queries + by_items))
        earlier = np.logaddexp.accumulate(sums[::-1], axis=0)[::-1]
    result[:batch] = values[:batch]
    return result_of(scores, queries_as_rows(result, direction), EARLIER_QUERIES)


def sinkhorn_over_test(scores: Scores, temperature: float = 0.01, iterations: int = 10) -> Scores:
    """Apply Sinkhorn normalisation (SN) with the queries of the test: add both potentials of their transport.

    What is added to a caption moves none of its videos, and the other way round, so the result serves both directions.
    It equals the authors' code in `t2v` after any number of rounds, and in `v2t` once the rounds have converged (the
    code's rounds then end at the other side).

    The `temperature` of the transport is in units of the scores, `iterations` the greatest number of Sinkhorn's rounds;
    a pair of minus infinity is never transported.
    """
    values = checked_numbers(scores.values, scores)
    of_queries, of_items = _potentials(values, temperature, iterations, equal=True)
    of_both = temperature * of_queries[:, None] + temperature * of_items
    return result_of(scores, np.asarray(values + of_both.astype(values.dtype)), OTHER_QUERIES)


def sinkhorn_norm(
    scores: Scores, bank: Matrix, temperature: float = 0.02, iterations: int = 20, direction: Direction = "t2v"
) -> Scores:
    """Lower the scores of hubs: add to each item its potential in an entropic transport of the bank's queries.

    SN with a bank of queries alone. Where the bank has fewer queries than there are items, an item answers one query at
    most (in the authors' code all answer equally much, which spreads each query over several items whatever its
    scores). The correction belongs to the item, so an index can store it.

    The bank should be varied: what many of its queries ask for counts as a hub. 1 / the logit scale of a matcher is a
    good `temperature`.
    """
    values, bank = _with_bank(scores, bank, direction)
    _, of_items = _potentials(bank, temperature, iterations)
    lowered = queries_as_rows(less_column(values, -temperature * of_items), direction)
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

    `pairs` are scores of the bank's captions (rows) with its videos: (N, W) with W other videos for `t2v`, (W, N) with
    W other captions for `v2t`.
    """
    values, bank = _with_bank(scores, bank, direction)
    pairs = queries_as_rows(unmasked(pairs, "The scores of the bank's captions with its videos"), direction)
    items = values.shape[1]
    if pairs.ndim != 2 or len(pairs) != len(bank) or not pairs.shape[1]:
        raise ScoresError(
            f"The scores of the bank's captions with the bank's videos have the shape {pairs.shape}, queries of "
            f"{direction} as rows; they need {len(bank):,} rows, one for each query of the bank, and at least a column."
        )
    if np.isnan(pairs).any() or np.isposinf(pairs).any():
        raise ScoresError("The scores of the bank's captions with its videos are NaN or infinite in places.")
    both = np.hstack([bank, pairs])
    _, of_items = _potentials(both, temperature, iterations, equal=True)
    lowered = queries_as_rows(less_column(values, -temperature * of_items[:items]), direction)
    label = f"{bank_label(bank, values, direction)}, and {both.shape[1] - items:,} items of its own"
    return result_of(scores, lowered, label)


def _potentials(scores: Matrix, temperature: float, iterations: int, *, equal: bool = False) -> tuple[Column, Column]:
    """Potentials of rows and columns; those with nothing finite take no part and have 0."""
    if not (temperature > 0 and iterations >= 1):
        raise UsageError(
            f"The temperature is above 0 and rounds are at least 1; they were {temperature}, {iterations}."
        )
    kernel = scores / np.float64(temperature)
    finite = np.isfinite(kernel)
    rows, columns = finite.any(axis=1), finite.any(axis=0)
    of_queries, of_items = (np.zeros(size) for size in kernel.shape)
    if rows.any():
        whole = rows.all() and columns.all()
        found = potentials(kernel if whole else kernel[np.ix_(rows, columns)], iterations, equal=equal)
        of_queries[rows], of_items[columns] = found
    return of_queries, of_items


@dataclass(frozen=True, eq=False)
class Bank:
    """Scores of captions with clips of which one side, or both, are others than those that are evaluated."""

    values: NDArray[Any]  # (captions, clips) scores
    caption_ids: tuple[str, ...] | None = None  # ids of the rows; None where the file names none
    video_ids: tuple[str, ...] | None = None  # ids of the columns; None where the file names none

    def notice(self, asked: Sequence[str], what: str = "caption") -> str:
        """Return a sentence if some queries of the bank are among those that are evaluated; empty otherwise."""
        ids = self.caption_ids if what == "caption" else self.video_ids
        own = set(ids or ()).intersection(asked)
        if not own:
            return ""
        return (
            f"Of {len(ids or ()):,} {what}s of the bank {len(own):,} are {what}s that are evaluated, the first "
            f"{next(one for one in asked if one in own)!r}: the correction has seen the queries of the test, which "
            f"makes its figures too good; give a bank of other {what}s, such as those of training."
        )


def load_bank(path: Path, video_ids: Sequence[str] | None = None, caption_ids: Sequence[str] | None = None) -> Bank:
    """Load the scores of a bank, with rows and columns in the order of the ids that are given."""
    check_file(path)
    if path.suffix.lower() == ".npy":
        return Bank(read_matrix(path))
    arrays, wanted = read_arrays(path), {"caption_ids": caption_ids, "video_ids": video_ids}
    asked = ["values", *(name for name, ids in wanted.items() if ids is not None)]
    if any(name not in arrays for name in asked):
        raise ScoresError(f"{path} has no arrays {' and '.join(asked)} (it has: {', '.join(arrays) or 'none'}).")
    values, found = check_matrix(path, arrays["values"]), {}
    for axis, (name, ids) in enumerate(wanted.items()):
        if name not in arrays:
            continue
        own = row_of_text(path, name, arrays[name])
        place, what, side = (
            {one: at for at, one in enumerate(own)},
            ("caption", "clip")[axis],
            name.removesuffix("_ids"),
        )
        if missing := [one for one in ids or () if one not in place]:
            raise ScoresError(f"{path} has no scores for the {what} {missing[0]!r} ({len(missing):,} missing in all).")
        if values.shape[axis] != len(place):
            raise ScoresError(f"{path} has values of {values.shape} for {len(place):,} different {side} ids.")
        values = values if ids is None else values.take([place[one] for one in ids], axis=axis)
        found[name] = tuple(own if ids is None else ids)
    return Bank(np.asarray(values), found.get("caption_ids"), found.get("video_ids"))


ALONE: dict[Direction, str] = {
    "t2v": "a correction for captions' searches alone",
    "v2t": "a correction for videos' searches alone",
}
"""What corrected scores that are kept say as well where their figures in the other direction mean nothing."""

_GIVEN = ("scores", "direction", "bank", "pairs")  # parameters of corrections that are no settings
_COSINE_ROUNDING = 1e-3  # cosines of float16 vectors leave -1 to 1 by as much


@dataclass(frozen=True)
class Rescoring:
    """Correction of scores at test time, with the settings of its authors."""

    name: str  # name in tables
    # the correction; parameters beside the scores, the direction and banks are its settings
    function: Callable[..., Scores]
    # scores that its usual settings are made for; None where they suit any
    made_for: Literal["cosines", "inner products"] | None = None
    scale: str = "scale"  # setting that is in units of the scores

    @cached_property
    def _parameters(self) -> Mapping[str, Any]:
        return {name: one.default for name, one in signature(self.function).parameters.items()}

    @property
    def needs_bank(self) -> bool:
        """Whether it needs scores of other queries against the same gallery."""
        return "bank" in self._parameters

    @property
    def needs_pairs(self) -> bool:
        """Whether it needs scores of the bank's captions with the bank's videos too."""
        return "pairs" in self._parameters

    @property
    def serves_both(self) -> bool:
        """Whether the result for one direction also serves the other."""
        return "direction" not in self._parameters

    @property
    def usual(self) -> dict[str, Any]:
        """Settings of the authors by name."""
        return {name: value for name, value in self._parameters.items() if name not in _GIVEN}

    def chosen(self, settings: RescoringSettings) -> dict[str, Any]:
        """Return the settings that it runs with: the authors', and over them those that are given.

        Raises:
            UsageError: a setting is given that it has not.
        """
        given = settings.given
        if strange := [name for name in given if name not in self.usual]:
            raise UsageError(f"{self.name} has no setting {strange[0]!r}; it has: {', '.join(self.usual) or 'none'}.")
        return self.usual | given

    def described(self, settings: RescoringSettings) -> str:
        """Name the correction with the settings that it runs with.

        >>> RESCORINGS["qb-norm"].described(RescoringSettings(top=3))
        'QB-Norm (scale 20, top 3)'
        """
        told = {name: value for name, value in self.chosen(settings).items() if value is not None}
        return f"{self.name} ({', '.join(f'{name} {value:g}' for name, value in told.items())})"

    def unsuited(self, scores: ScoreBlocks, settings: RescoringSettings) -> str:
        """Return a sentence if the usual settings are not made for scores like these; empty otherwise."""
        if self.made_for is None or self.scale in settings.given:
            return ""
        values = dense(scores).values
        finite = np.isfinite(values)
        if not finite.any():
            return ""
        wide = values.astype(np.float64, copy=False)
        least, most = float(wide.min(where=finite, initial=np.inf)), float(wide.max(where=finite, initial=-np.inf))
        cosines = max(-least, most) <= 1 + _COSINE_ROUNDING
        if cosines == (self.made_for == "cosines"):
            return ""
        return (
            f"The {self.scale} {self.usual[self.scale]:g} of {self.name} is made for {self.made_for}, but these scores "
            f"are {'cosines, or as small' if cosines else 'no cosines'}: they range from {least:.3g} to {most:.3g}; "
            f"choose --{self.scale} for them on other data than the test's."
        )


RESCORINGS: dict[str, Rescoring] = {
    "dsl": Rescoring("dual softmax", dual_softmax, "cosines"),
    "dsl-double": Rescoring("dual softmax, EgoVLP's form", double_softmax, "inner products"),
    "inverted": Rescoring("inverted softmax", inverted_softmax, "cosines"),
    "csls": Rescoring("CSLS", csls),
    "sinkhorn": Rescoring("Sinkhorn normalisation", sinkhorn_over_test, "cosines", "temperature"),
    "hub-memory": Rescoring("hub memory", hub_memory, "cosines", "alpha"),
    "qb-norm": Rescoring("QB-Norm", querybank_norm, "cosines"),
    "nnn": Rescoring("NNN", nearest_neighbour_norm),
    "sinkhorn-bank": Rescoring("Sinkhorn normalisation by a bank", sinkhorn_norm, "cosines", "temperature"),
    "dbsn": Rescoring("dual bank Sinkhorn normalisation", dual_bank_sinkhorn, "cosines", "temperature"),
}


def rescore(
    word: str,
    scores: ScoresLike,
    direction: Direction,
    bank: ArrayLike | None = None,
    pairs: ArrayLike | None = None,
    settings: RescoringSettings | None = None,
) -> Scores:
    """Apply a correction of scores at test time, chosen by name.

    Args:
        word: a key of `RESCORINGS`.
        scores: scores of Q captions and V videos with their ids, see `ScoresLike`; they are read into one matrix.
        direction: direction of the search to correct.
        bank: (N, V) scores of N other captions for `t2v`, (Q, N) of N other videos for `v2t`, as an array, a tensor, a
            list of lists or a table of numbers alone, in the order of the scores.
        pairs: scores of other captions (rows) with other videos, for `dbsn`: (N, W) for `t2v`, (W, N) for `v2t`.
        settings: settings to use instead of those of the authors; None for theirs.

    Raises:
        UsageError: there is no such correction, it has no such setting, or a bank is missing or not used; an argument
            is of the wrong kind.
        ScoresError: the scores or the banks cannot be used.
    """
    check_word(word, RESCORINGS, "re-scoring")
    check_word(direction, get_args(Direction), "direction")
    check_settings_kind(settings, RescoringSettings)
    of_all = dense(as_scores(scores))
    method = RESCORINGS[word]
    if method.needs_bank != (bank is not None):
        raise UsageError(f"{method.name} {'needs a' if method.needs_bank else 'takes no'} bank of other queries.")
    if method.needs_pairs != (pairs is not None):
        verb = "needs" if method.needs_pairs else "takes no"
        raise UsageError(f"{method.name} {verb} scores of the bank's captions with the bank's videos.")
    chosen = method.chosen(settings or RescoringSettings())
    banks = {
        name: None if one is None else as_matrix(one, name, f"The scores of the {name}")
        for name, one in {"bank": bank, "pairs": pairs}.items()
    }
    offered = {"direction": None if method.serves_both else direction, **banks}
    return method.function(of_all, **{name: one for name, one in offered.items() if one is not None}, **chosen)
