"""Ranking: scores and relevance read in blocks, places of relevant items among ties, columns of each query's values.

Scores are checked where they are read, and captions are grouped by clip where a protocol asks for it. Items of equal
scores share a stretch of places, and every figure is the expected value over their orders, in closed form: a stretch
takes the places a + 1 to a + t, holds s items of degree 1 and degrees of relevance that sum to g.

A first hit is a triple: `above` items score higher than the best relevant score, `relevant` items have that score and
`others` that are not relevant have it too. Under a random order of equals, the place of the first of `relevant` among
`others + relevant` has the negative hypergeometric distribution.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import sha256
from itertools import islice, pairwise
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import digamma

from evenreel.arrays import CACHED_BYTES, SCORE_BYTES, Column, Indices, slices
from evenreel.config import check_scores, described, usable_cores
from evenreel.corpus.relevance import ClassRelevance, GradedPairs, Relevance, RelevantPairs
from evenreel.errors import ScoresError
from evenreel.evaluation.metrics import FIRST_RANK, Cutoff, EvaluationSettings, Metric, Ties
from evenreel.progress import Progress
from evenreel.types import ScoreBlocks, ScoreNotes, Scores


def as_table(values: Any, what: str = "The scores") -> NDArray[Any]:
    """Convert lists, tables and tensors to arrays; a tensor may be on any device, need gradients or be bfloat16.

    They are copied only where their form asks for it. Sparse and masked ones, and what numpy makes no array of, are
    refused, called `what` there.
    """
    if values is None:
        raise ScoresError(f"The table of {what.removeprefix('The ')} is None; give an array of numbers with two axes.")
    if hasattr(values, "toarray"):  # numpy makes one object of a sparse matrix
        raise ScoresError(
            f"The table of {what.removeprefix('The ')} is {described(values)}, which leaves numbers out; give its "
            ".toarray(), in which 0 is a score like any other."
        )
    try:
        if hasattr(values, "detach"):
            values = values.detach().cpu()
            values = values.float() if "bfloat16" in str(values.dtype) else values  # numpy has no such numbers
        return unmasked(values, what)
    except (ValueError, TypeError, RuntimeError) as error:
        why = "its rows differ in length" if "inhomogeneous" in str(error) else str(error).splitlines()[0]
        raise ScoresError(f"{what} are no table of numbers ({why}); give an array with two axes.") from error


def unmasked(values: Any, what: str) -> NDArray[Any]:
    """Convert values to a plain array; masked ones are refused, since a plain array would show what the mask hides."""
    masked = int(np.ma.getmaskarray(values).sum()) if isinstance(values, np.ma.MaskedArray) else 0
    if masked:
        raise ScoresError(
            f"{what} are a masked array with {masked:,} of {values.size:,} values masked, and a ranking has no place "
            "for these; fill them, with .filled(-numpy.inf) for what is never to be found."
        )
    return np.asarray(values)


class CheckedScores:
    """Scores of any system; each block read is checked to have the right shape and numbers that can be ranked.

    Half precision becomes single precision, with which numpy is faster. `infinite` is the caption and video of the
    first score that was plus infinity; `progress` is called with the share of captions up to the end of a block.
    """

    def __init__(self, scores: ScoreBlocks, progress: Progress | None = None) -> None:
        scores = as_blocks(scores)
        self._scores, self._progress = scores, progress
        self.infinite: tuple[str, str] | None = None
        self.about: ScoreNotes = scores.about
        self.caption_ids: Sequence[str] = scores.caption_ids
        self.video_ids: Sequence[str] = scores.video_ids
        size = (len(self.caption_ids), len(self.video_ids))
        if 0 in size:
            raise ScoresError(f"The scores are of {size[0]} captions and {size[1]} videos; give at least one of each.")
        for ids, what in ((self.caption_ids, "caption"), (self.video_ids, "clip")):
            if len(set(ids)) < len(ids):
                twice = next(one for one, times in Counter(ids).items() if times > 1)
                raise ScoresError(f"The scores name the {what} {twice!r} more than once; every {what} has one place.")

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Read and check the scores (q, v) of some captions and videos."""
        values = as_table(self._scores.block(captions, videos))
        wanted = (captions.stop - captions.start, videos.stop - videos.start)
        if values.shape != wanted:
            raise ScoresError(
                f"The scores of captions {captions.start} to {captions.stop - 1} and videos {videos.start} to "
                f"{videos.stop - 1} have the shape {values.shape}; it must be {wanted}, a caption a row."
            )
        if values.dtype.kind not in "fiub":
            raise ScoresError(f"The scores are of type {values.dtype}; they must be whole or floating-point numbers.")
        if values.dtype in (np.float16, np.bool_):
            values = values.astype(np.float32 if values.dtype == np.float16 else np.uint8)
        highest = values.max() if values.size else 0  # NaN where any is
        if not np.isfinite(highest) and not np.isneginf(highest):
            row, column = np.argwhere(np.isnan(values) if np.isnan(highest) else np.isposinf(values))[0]
            pair = self.caption_ids[captions.start + row], self.video_ids[videos.start + column]
            if np.isnan(highest):
                raise ScoresError(
                    f"The score of caption {pair[0]!r} and video {pair[1]!r} is NaN, which has no place in a ranking; "
                    "mend what calculates it, or write minus infinity for a video that is never to be found."
                )
            self.infinite = self.infinite or pair
        if self._progress is not None:
            self._progress(captions.stop / len(self.caption_ids))
        return values


def as_blocks(scores: ScoreBlocks) -> ScoreBlocks:
    """Check that scores can be read in blocks: ids are texts, and a table of values has the shape that they ask for."""
    check_scores(scores)
    if not isinstance(scores, Scores):
        return scores
    table, size = as_table(scores.values), (len(scores.caption_ids), len(scores.video_ids))
    if table.shape != size:
        raise ScoresError(
            f"The scores have the shape {table.shape}, but there are {size[0]} caption ids and {size[1]} video ids; it "
            "must be a caption a row and a video a column."
        )
    return replace(scores, values=table)


def aligned(scores: ScoreBlocks, like: ScoreBlocks) -> ScoreBlocks:
    """Reorder scores to the captions and videos of other scores (`like`); further ones are left out.

    A table of values is not copied; scores that are computed block by block are computed once, and kept.
    """
    same = list(scores.caption_ids) == list(like.caption_ids) and list(scores.video_ids) == list(like.video_ids)
    return scores if same else _Moved(scores, like)


class _Moved:
    """Scores whose rows and columns are had in another order; it is a `ScoreBlocks`."""

    def __init__(self, scores: ScoreBlocks, like: ScoreBlocks) -> None:
        scores = as_blocks(scores)
        self.caption_ids: Sequence[str] = like.caption_ids
        self.video_ids: Sequence[str] = like.video_ids
        self.about: ScoreNotes = scores.about
        every = slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids))
        self._values = np.asarray(scores.values if isinstance(scores, Scores) else scores.block(*every))
        sides = ((scores.caption_ids, like.caption_ids, "caption"), (scores.video_ids, like.video_ids, "clip"))
        self._rows, self._columns = (self._places(*side) for side in sides)

    @staticmethod
    def _places(there: Sequence[str], wanted: Sequence[str], what: str) -> NDArray[np.int64]:
        place = {one: number for number, one in enumerate(there)}
        missing = [one for one in wanted if one not in place]
        if missing:
            raise ScoresError(
                f"Scores lack {len(missing):,} of {len(wanted):,} {what}s of those that they go with, {missing[0]!r} "
                "for example; both must be of the same split."
            )
        return np.array([place[one] for one in wanted], np.int64)

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        return unmasked(self._values[np.ix_(self._rows[captions], self._columns[videos])], "The scores")


@dataclass(frozen=True, eq=False)
class CaptionGroups:
    """Q captions in G groups, one group for each clip."""

    clip_ids: Sequence[str]  # G ids, in the order of their first captions
    order: NDArray[np.int64]  # (Q,) indices of the captions, those of a group side by side
    starts: NDArray[np.int64]  # (G,) index in `order` at which each group begins

    @classmethod
    def of(cls, clip_ids: Sequence[str]) -> CaptionGroups:
        """Group captions by the clip (`clip_ids`) of each.

        >>> groups = CaptionGroups.of(["b", "a", "b"])
        >>> list(groups.clip_ids), groups.order.tolist(), groups.starts.tolist()
        (['b', 'a'], [0, 2, 1], [0, 2])
        """
        places: dict[str, int] = {}
        numbers = np.array([places.setdefault(clip, len(places)) for clip in clip_ids], dtype=np.int64)
        sizes = np.bincount(numbers)
        return cls(tuple(places), np.argsort(numbers, kind="stable"), np.cumsum(sizes) - sizes)

    def best(self, values: NDArray[Any]) -> NDArray[Any]:
        """Compute the largest value of each group of captions: (Q, b) to (G, b)."""
        return np.asarray(np.maximum.reduceat(values[self.order], self.starts, axis=0))


class GroupedScores:
    """Scores (G, V) of groups of captions with videos, each that of the best caption; implements `ScoreBlocks`.

    The scores of every caption are read for any block.
    """

    def __init__(self, scores: ScoreBlocks, groups: CaptionGroups) -> None:
        self._scores, self._groups = scores, groups
        self.caption_ids: Sequence[str] = groups.clip_ids
        self.video_ids: Sequence[str] = scores.video_ids
        self.about: ScoreNotes = scores.about
        self.captions = len(groups.order)

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Return the scores (g, v) of some groups and videos."""
        return self._groups.best(self._scores.block(slice(0, self.captions), videos))[captions]


class _GroupedRelevance:
    """Relevance (G, V) of groups of captions, the highest among a group's captions; implements `Relevance`."""

    def __init__(self, relevance: Relevance, groups: CaptionGroups) -> None:
        self._relevance, self._groups = relevance, groups

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._groups.starts), self._relevance.shape[1]

    def block(self, captions: slice, videos: slice) -> NDArray[np.float64]:
        return self._groups.best(self._relevance.block(slice(0, len(self._groups.order)), videos))[captions]


def group_relevance(relevance: Relevance, groups: CaptionGroups) -> Relevance:
    """Return the relevance of groups of captions, the highest among a group's; 0-or-1 relevance stays so."""
    if not isinstance(relevance, RelevantPairs):
        return _GroupedRelevance(relevance, groups)
    ends = np.append(groups.starts, len(groups.order))
    members = sparse.csr_array((np.ones(len(groups.order), np.int64), groups.order, ends))
    return RelevantPairs((members @ relevance.matrix.astype(np.int64)).astype(np.bool_))


@dataclass(frozen=True, eq=False)
class Items:
    """Relevant items of a band of b queries: each pair with a degree of relevance above 0, query by query."""

    query: NDArray[np.int64]  # (m,) index of the query in the band, ascending
    item: NDArray[np.int64]  # (m,) index of the item in the gallery
    degree: NDArray[np.float64]  # (m,) degree of relevance, above 0 and at most 1

    def where(self, kept: NDArray[Any]) -> Items:
        """Select some of the pairs of query and relevant item, by a mask (m,) or by indices."""
        return Items(self.query[kept], self.item[kept], self.degree[kept])


@dataclass(frozen=True, eq=False)
class Search:
    """Scores and relevance of one direction of search: queries (rows) that are ranked against a gallery (columns)."""

    scores: ScoreBlocks  # scores and relevance of captions (rows) and videos (columns)
    relevance: Relevance
    turned: bool  # whether videos are the queries and captions the gallery

    @property
    def query_ids(self) -> Sequence[str]:
        """Ids of the n queries."""
        return self.scores.video_ids if self.turned else self.scores.caption_ids

    @property
    def gallery_ids(self) -> Sequence[str]:
        """Ids of the items that each query is ranked against."""
        return self.scores.caption_ids if self.turned else self.scores.video_ids

    @property
    def gallery_size(self) -> int:
        """Number of items in the gallery."""
        return len(self.gallery_ids)

    @property
    def gallery_digest(self) -> str:
        """Digest of the gallery's ids, independent of their order."""
        return sha256("\0".join(sorted(self.gallery_ids)).encode()).hexdigest()

    @property
    def row_scores(self) -> int:
        """Number of scores that are read for one query: more than the gallery has items where captions are grouped."""
        return self.scores.captions if isinstance(self.scores, GroupedScores) else self.gallery_size

    def read(self, queries: slice) -> NDArray[Any]:
        """Read the (b, gallery) scores of some queries."""
        everything = slice(0, self.gallery_size)
        return self.scores.block(everything, queries).T if self.turned else self.scores.block(queries, everything)

    def items(self, queries: slice) -> Items:
        """Return the relevant items of some queries."""
        everything = slice(0, self.gallery_size)
        block = (everything, queries) if self.turned else (queries, everything)
        if self._pairs is not None or isinstance(self.relevance, (ClassRelevance, GradedPairs)):
            if self._pairs is not None:
                degrees = self._pairs[queries]
            else:
                degrees = self.relevance.above_zero(*block)  # type: ignore[attr-defined]
                degrees = sparse.csr_array(degrees.T) if self.turned else degrees
            query = np.repeat(np.arange(degrees.shape[0]), np.diff(degrees.indptr))
            return Items(query, degrees.indices.astype(np.int64), degrees.data.astype(np.float64))
        table = self.relevance.block(*block)
        table = table.T if self.turned else table
        lowest, highest = table.min(), table.max()
        if not (lowest >= 0 and highest <= 1):  # NaN too
            raise ScoresError(f"Degrees of relevance lie between 0 and 1; these range from {lowest} to {highest}.")
        # numpy finds the places that are set in one long row of booleans far faster than in a table of numbers.
        query, item = np.divmod(np.flatnonzero(np.ascontiguousarray(table > 0)), table.shape[1])
        return Items(query, item, table[query, item])

    @cached_property
    def _pairs(self) -> sparse.csr_array | None:
        """Plain relevance with a query a row: no table of it is ever made."""
        if not isinstance(self.relevance, RelevantPairs):
            return None
        matrix = self.relevance.matrix
        turned = sparse.csr_array(matrix.T if self.turned else matrix, dtype=np.bool_)
        turned.sum_duplicates()
        turned.eliminate_zeros()
        return turned


def mean_of(group: NDArray[np.int64], values: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """Compute the mean (groups,) of values (m,) by their group (m,), from 0, leaving out NaN; NaN without values."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        sums = np.bincount(group[known], values[known], minlength=groups)
        return np.asarray(sums / np.bincount(group[known], minlength=groups), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Places:
    """Stretches of equal scores that hold relevant items, best first, query by query.

    A stretch takes the places `above` + 1 to `above` + `size` of its query's ranking, its items in random order.
    """

    queries: int  # b, number of queries
    query: Indices  # (s,) query of each stretch, ascending
    above: Indices  # (s,) items of the query with a higher score, ascending within a query
    size: Indices  # (s,) items in the stretch, relevant or not
    strict: Indices  # (s,) items of full relevance (degree 1)
    degrees: NDArray[np.float64]  # (s,) sum of the degrees of relevance in the stretch
    # (s,) False where the score is minus infinity: such items have places, since a rank must exist, but count as not
    # found
    retrieved: NDArray[np.bool_]

    @property
    def starts(self) -> Indices:
        """Return, for b queries, the index (b + 1,) of each one's first stretch, and at last their number."""
        return np.searchsorted(self.query, np.arange(self.queries + 1))

    def sums_before(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum values (s,) of stretches over those above each in its query's ranking: (s,)."""
        before = np.zeros_like(values)
        for start, stop in pairwise(self.starts):  # a running sum a query; one over all of them would lose digits
            np.cumsum(values[start : max(start, stop - 1)], out=before[start + 1 : max(start + 1, stop)])
        return before


def find_places(scores: NDArray[Any], items: Items, ties: Ties = "expected") -> Places:
    """Find the places of relevant items in the rankings of their queries, as stretches of equal scores.

    >>> items = Items(np.array([0, 0]), np.array([1, 2]), np.array([1.0, 0.5]))
    >>> places = find_places(np.array([[9, 5, 5, 5, 1]]), items)
    >>> places.above.tolist(), places.size.tolist(), places.strict.tolist(), places.degrees.tolist()
    ([1], [3], [1], [1.5])
    >>> find_places(np.array([[9, 5, 5, 5, 1]]), items, "pessimistic").above.tolist()
    [2, 3]
    """
    values, degrees = _best_first(scores, items)
    above, size = _above_and_equal(scores, items.query, values)
    each = Places(len(scores), items.query, above, size, (degrees == 1).astype(np.int64), degrees, values > -np.inf)
    return _stretches(each) if ties == "expected" else _break_ties(each, ties)


def best_items(scores: NDArray[Any], items: Items) -> Items:
    """Select the items of full relevance that have the best score of their query, on which the first hit depends."""
    strict = items.where(items.degree == 1)
    values = scores[strict.query, strict.item]
    starts = np.flatnonzero(np.diff(strict.query, prepend=-1))
    best = np.maximum.reduceat(values, starts) if len(starts) else values
    return strict.where(values == np.repeat(best, np.diff(starts, append=len(values))))


def _best_first(scores: NDArray[Any], items: Items) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Scores and degrees of the items, those of each query by falling score."""
    values = scores[items.query, items.item]
    order = np.arange(len(values))
    for start, stop in pairwise(np.searchsorted(items.query, np.arange(len(scores) + 1))):
        if stop - start > 1:
            order[start:stop] = start + np.argsort(values[start:stop])[::-1]
    return values[order], items.degree[order]


def _above_and_equal(scores: NDArray[Any], query: Indices, values: NDArray[Any]) -> tuple[Indices, Indices]:
    """Count, for each item, the gallery's scores above it and equal to it, itself among them."""
    if ((query[1:] == query[:-1]) & (values[1:] != values[:-1])).any():
        return _looked_up(scores, query, values)
    level = np.zeros((len(scores), 1), scores.dtype)  # one score a query: comparing it with all is cheaper than a sort
    level[query, 0] = values
    return (scores > level).sum(axis=1)[query], (scores == level).sum(axis=1)[query]


def _looked_up(scores: NDArray[Any], query: Indices, values: NDArray[Any]) -> tuple[Indices, Indices]:
    """Many scores a query: sort its row once, without any index, and look each of them up."""
    ordered = np.sort(scores, axis=1)
    stop = _search(ordered, query, values, "right")
    begin = stop - 1
    tied = np.flatnonzero((begin > 0) & (ordered[query, begin - 1] == values))
    begin[tied] = _search(ordered, query[tied], values[tied], "left")
    return scores.shape[1] - stop, stop - begin


def _search(ordered: NDArray[Any], query: Indices, values: NDArray[Any], side: Literal["left", "right"]) -> Indices:
    places = np.empty(len(query), np.int64)
    ends = np.searchsorted(query, np.arange(len(ordered) + 1))
    for row, start, stop in zip(ordered, ends, ends[1:], strict=False):
        places[start:stop] = row.searchsorted(values[start:stop], side)
    return places


def _stretches(each: Places) -> Places:
    """Items of one score joined."""
    if len(each.query) == 0:
        return each
    first = np.ones(len(each.query), np.bool_)
    first[1:] = (each.query[1:] != each.query[:-1]) | (each.above[1:] != each.above[:-1])
    if first.all():
        return each
    starts = np.flatnonzero(first)
    return Places(
        each.queries, each.query[starts], each.above[starts], each.size[starts],
        np.add.reduceat(each.strict, starts), np.add.reduceat(each.degrees, starts), each.retrieved[starts],
    )  # fmt: skip


def _break_ties(each: Places, ties: Ties) -> Places:
    """Items of one score in a row, the more relevant nearer to the end that the rule favours."""
    favoured = -each.degrees if ties == "optimistic" else each.degrees
    order = np.lexsort((favoured, each.above, each.query))
    each = replace(each, strict=each.strict[order], degrees=each.degrees[order])
    stretch = each.query * (each.above.max(initial=0) + 1) + each.above
    starts = np.searchsorted(stretch, stretch)
    after = np.arange(len(stretch)) - starts
    if ties == "pessimistic":
        relevant = np.searchsorted(stretch, stretch, "right") - starts
        after += each.size - relevant
    return replace(each, above=each.above + after, size=np.ones_like(each.size))


@dataclass(frozen=True, eq=False)
class Hits:
    """First relevant items of h rankings, as counts of items above them and of items with the same score."""

    query: Indices  # (h,) index of the query
    above: Indices  # (h,) number of items with a higher score
    others: Indices  # (h,) number of irrelevant items with the same score
    relevant: Indices  # (h,) number of relevant items with that score
    retrieved: NDArray[np.bool_]  # (h,) False where that score is minus infinity: a rank exists, but nothing is found

    def chance(self, k: int) -> Column:
        """Compute the probability (h,) that a relevant item is among the first k, ties being broken at random."""
        return self.retrieved * hit_chance(self.above, self.others, self.relevant, k)

    def renumbered(self, numbers: Indices) -> Hits:
        """Return the hits with the query index i changed to `numbers[i]`."""
        return replace(self, query=numbers[self.query])

    @classmethod
    def joined(cls, parts: Sequence[Hits]) -> Hits:
        """Concatenate the hits of several bands of queries; their query indices stay."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def first_hits(places: Places) -> Hits:
    """Find the first hit of each query, its best-scored item of full relevance; a query without one is left out."""
    holds = np.flatnonzero(places.strict)
    holds = holds[np.diff(places.query[holds], prepend=-1) > 0]
    strict = places.strict[holds]
    return Hits(places.query[holds], places.above[holds], places.size[holds] - strict, strict, places.retrieved[holds])


def every_hit(places: Places) -> Hits:
    """Return a hit for each item of full relevance, ranked without the query's other items of full relevance."""
    times = places.strict
    above = places.above - places.sums_before(times.astype(np.float64)).astype(np.int64)
    others = places.size - times
    alone = np.ones(times.sum(), np.int64)
    query, above, others, retrieved = (
        np.repeat(values, times) for values in (places.query, above, others, places.retrieved)
    )
    return Hits(query, above, others, alone, retrieved)


def hit_columns(hits: Hits, metrics: tuple[Metric, ...]) -> dict[str, Column]:
    """Compute the columns (h,) that metrics of the first hit read, and always the rank; shares in percent."""
    columns = {FIRST_RANK: expected_rank(hits.above, hits.others, hits.relevant)}
    for metric in metrics:
        for column in metric.columns:
            if column == "MRR":
                columns[column] = 100 * hits.retrieved * expected_reciprocal(hits.above, hits.others, hits.relevant)
            elif column.startswith("R@"):
                columns[column] = 100 * hits.chance(int(column[2:]))
    return columns


def expected_rank(above: Indices, others: Indices, relevant: Indices) -> Column:
    """Compute the expected rank (h,) of the first relevant item, from 1: above + 1 + others / (relevant + 1).

    Two items that tie with the relevant one, none above:

    >>> expected_rank(np.array([0]), np.array([2]), np.array([1]))
    array([2.])
    """
    return np.asarray(above + 1 + others / (relevant + 1), dtype=np.float64)


def hit_chance(above: Indices, others: Indices, relevant: Indices, k: int) -> Column:
    """Compute the probability (h,) of a hit in the first k: 1 - C(others, m) / C(others + relevant, m), m = k - above.

    Args:
        above: (h,) number of items with a higher score.
        others: (h,) number of irrelevant items with the same score.
        relevant: (h,) number of relevant items with that score.
        k: number of first places.

    >>> hit_chance(np.array([0, 3]), np.array([2, 0]), np.array([1, 1]), 1).round(4).tolist()
    [0.3333, 0.0]
    """
    drawn = np.clip(k - above, 0, others + 1)
    # C(o, m) / C(o + r, m) is symmetric: the product of (o - m + i) / (o + i) for i = 1..r, of whole numbers only.
    miss = np.where(drawn > others, 0.0, 1.0)
    chance = (drawn > 0) & (miss > 0)
    for i in range(1, int(relevant[chance].max(initial=0)) + 1):
        factor = (others - drawn + i) / (others + i)
        miss = np.where(chance & (i <= relevant), miss * factor, miss)
    return 1 - miss


def expected_reciprocal(above: Indices, others: Indices, relevant: Indices) -> Column:
    """Compute the expected value (h,) of 1 / rank of the first relevant item, ties being broken at random.

    >>> expected_reciprocal(np.array([0]), np.array([2]), np.array([1])).round(4)
    array([0.6111])
    """
    reciprocal = 1 / (above + 1.0)
    single = (others > 0) & (relevant == 1)
    reciprocal[single] = (digamma(above + others + 2.0) - digamma(above + 1.0))[single] / (others + 1)[single]
    several = np.flatnonzero((others > 0) & (relevant > 1))
    if len(several):
        triples = np.stack([above, others, relevant], axis=1)[several]
        distinct, which = np.unique(triples, axis=0, return_inverse=True)
        means = np.array([_mean_reciprocal(*(int(part) for part in triple)) for triple in distinct])
        reciprocal[several] = means[which.reshape(-1)]
    return reciprocal


def _mean_reciprocal(above: int, others: int, relevant: int) -> float:
    """The sum over every place: the chance that the first relevant item stands there, times 1 / place."""
    drawn = np.arange(others + 1)
    later = np.concatenate([[1.0], np.cumprod((others - drawn) / (others + relevant - drawn))])
    return float(((later[:-1] - later[1:]) / (above + 1 + drawn)).sum())


@dataclass(frozen=True, eq=False)
class Discounts:
    """Discounts by place in a ranking, and their sums, for a gallery of n items."""

    each: Column  # (n + 1,) discount of the places 1 to n, then 0
    sums: Column  # (n + 1,) sum of the discounts before each place

    @classmethod
    def of(cls, values: Column) -> Discounts:
        """Make discounts from the value (n,) of each place."""
        return cls(np.append(values, 0.0), np.append(0.0, np.cumsum(values)))

    def between(self, above: Indices, stop: Indices) -> Column:
        """Sum (m,) the discounts of the places `above` (m,) + 1 to `stop` (m,) of m stretches of places."""
        # A single place needs no difference of sums, which would cost it digits.
        found = self.each[above]
        other = np.flatnonzero(stop - above != 1)
        found[other] = self.sums[stop[other]] - self.sums[above[other]]
        return found


@dataclass(frozen=True, eq=False)
class DiscountTables:
    """Discounts by place for a gallery of one size: `gain` is 1 / log2(place + 1), `inverse` is 1 / place."""

    gain: Discounts
    inverse: Discounts

    @classmethod
    def of(cls, gallery: int) -> DiscountTables:
        """Make the discounts for a gallery of this number of items."""
        places = np.arange(1, gallery + 1, dtype=np.float64)
        return cls(Discounts.of(1 / np.log2(places + 1)), Discounts.of(1 / places))


def ndcg(places: Places, items: Items, cutoff: Cutoff, tables: DiscountTables) -> Column:
    """Compute nDCG: the gain discounted by 1 / log2(place + 1), divided by that of the best order; see `Metric.cutoff`.

    The gain of an item is its degree of relevance. Every place of a stretch of t equal scores has the expected gain g /
    t, with g the sum of their degrees. Items that are not retrieved gain nothing, but are in the best order, which is
    cut where the ranking is. (Järvelin and Kekäläinen 2002; ties as McSherry and Najork 2008; the cut at R is that of
    EPIC-KITCHENS-100 multi-instance retrieval.)

    Returns:
        (b,) between 0 and 1, NaN for a query without an item.
    """
    found = np.bincount(items.query, minlength=places.queries)
    last = len(tables.gain.each) - 1
    cuts = found if cutoff == "R" else np.full(places.queries, last if cutoff is None else min(cutoff, last))
    cut = cuts[places.query]
    reached = tables.gain.between(np.minimum(places.above, cut), np.minimum(places.above + places.size, cut))
    gained = _sums(places.retrieved * places.degrees / places.size * reached, places.query, places.queries)
    with np.errstate(invalid="ignore"):
        return gained / _best_gain(items, found, cuts, tables)


def average_precision(places: Places, tables: DiscountTables, *, graded: bool = False) -> Column:
    """Compute average precision: the mean precision at the items of degree 1, 0 at one that is not retrieved.

    Precision at a place is the share of items up to there that are relevant. Strictly, those are the items of degree
    1. The form of the EPIC-KITCHENS-100 code (`graded`) sums the degrees of all items up to the place instead, while it
    still averages over the items of degree 1, and so scores higher: a random order there has 5.7 % and not 0.4 %.

    Given that place a + i of a stretch is relevant, the i - 1 items of the stretch before it are a random draw of its
    other t - 1, so precision there has the mean (C + 1 + (i - 1) (g - 1) / (t - 1)) / (a + i), with C the degrees above
    the stretch. (McSherry and Najork 2008 for the strict form.)

    Returns:
        (b,) between 0 and 1, NaN for a query without an item of degree 1.
    """
    held = places.degrees if graded else places.strict.astype(np.float64)
    inverse = tables.inverse.between(places.above, places.above + places.size)
    precision = (places.sums_before(held) + 1) * inverse
    tied = np.flatnonzero(places.size > 1)
    size = places.size[tied]
    delayed = size - (places.above[tied] + 1) * inverse[tied]  # the sum of (i - 1) / (a + i)
    precision[tied] += (held[tied] - 1) / (size - 1) * delayed
    terms = places.retrieved * places.strict / places.size * precision
    with np.errstate(invalid="ignore"):
        return _sums(terms, places.query, places.queries) / _sums(places.strict, places.query, places.queries)


def precision(places: Places, cutoff: int) -> Column:
    """Compute precision: items of degree 1 among the first `cutoff` places, divided by their number.

    The divisor stays the same where fewer items are retrieved, or are in the gallery, as in trec_eval.

    Returns:
        (b,) between 0 and 1, NaN for a query without an item of degree 1.
    """
    reached = np.minimum(places.above + places.size, cutoff) - np.minimum(places.above, cutoff)
    found = _sums(places.retrieved * places.strict / places.size * reached, places.query, places.queries)
    return np.where(_sums(places.strict, places.query, places.queries) > 0, found / cutoff, np.nan)


def _best_gain(items: Items, found: Indices, cuts: Indices, tables: DiscountTables) -> Column:
    """Gain of the order in which no lower degree stands before a higher one."""
    starts = np.cumsum(found) - found
    best = np.empty_like(items.degree)
    for start, count in zip(starts, found, strict=True):
        best[start : start + count] = np.sort(items.degree[start : start + count])[::-1]
    place = np.arange(len(best)) - starts[items.query]
    counted = place < cuts[items.query]
    return _sums(best * tables.gain.each[place] * counted, items.query, len(found))


def _sums(values: NDArray[np.float64] | Indices, query: Indices, queries: int) -> Column:
    return np.bincount(query, values, minlength=queries).astype(np.float64)


_FORMS: dict[str, Callable[[Metric, Places, Items, DiscountTables], Column]] = {
    "nDCG": lambda metric, places, items, tables: ndcg(places, items, metric.cutoff, tables),
    "mAP": lambda metric, places, items, tables: average_precision(places, tables),
    "mAP-EPIC": lambda metric, places, items, tables: average_precision(places, tables, graded=True),
    "P": lambda metric, places, items, tables: precision(places, cast("int", metric.cutoff)),
}


@dataclass(frozen=True, eq=False)
class Ranked:
    """Ranked queries (n,): whether each has a relevant item, values by the column's name, and the first hits."""

    found: NDArray[np.bool_]
    columns: dict[str, Column]
    hits: Hits


def rank_all(search: Search, settings: EvaluationSettings, progress: Progress, *, every: bool) -> Ranked:
    """Rank every query of a direction, and compute the columns of the metrics.

    Scores and relevance are read in this thread alone, each pair once; blocks are copied, so they may share a buffer.
    With `every`, each relevant item is ranked alone, without the query's other relevant items (`every_hit`).
    """
    threads, tables = settings.threads or usable_cores(), DiscountTables.of(search.gallery_size)
    ordered = any(metric.needs_order for metric in settings.metrics)

    def calculate(scores: NDArray[Any], items: Items) -> Ranked:
        """Rank b queries by their scores (b, gallery) and compute the columns of the metrics."""
        scores = query_by_query(scores)
        found = np.bincount(items.query, minlength=len(scores)) > 0
        counted = items if ordered else items.where(items.degree == 1) if every else best_items(scores, items)
        places = find_places(scores, counted, settings.ties)
        hits = every_hit(places) if every else first_hits(places)
        own = hit_columns(hits, settings.metrics)
        columns = {name: mean_of(hits.query, values, len(scores)) for name, values in own.items()}
        for metric in settings.metrics:  # of the whole order, in percent; NaN for queries without relevant items
            if metric.name in _FORMS:
                columns[str(metric)] = 100 * _FORMS[metric.name](metric, places, items, tables)
        return Ranked(found, columns, hits)

    waiting: deque[Future[Ranked]] = deque()
    done: list[Ranked] = []
    finished = 0
    with ThreadPoolExecutor(threads) as pool:
        pieces = score_pieces(search, settings.band_bytes)
        while waiting or not done:
            for scores, items in islice(pieces, 2 * threads - len(waiting)):
                waiting.append(pool.submit(calculate, scores, items))
            done.append(waiting.popleft().result())
            finished += len(done[-1].found)
            progress(finished / len(search.query_ids))
    starts = np.cumsum([0] + [len(part.found) for part in done])
    numbers = np.arange(starts[-1])
    return Ranked(
        np.concatenate([part.found for part in done]),
        {name: np.concatenate([part.columns[name] for part in done]) for name in done[0].columns},
        Hits.joined([part.hits.renumbered(numbers[start:]) for part, start in zip(done, starts, strict=False)]),
    )


def score_pieces(search: Search, band_bytes: int) -> Iterator[tuple[NDArray[Any], Items]]:
    """Yield scores (b, gallery) and relevant items of a few queries at a time, in order."""
    queries, row_bytes = len(search.query_ids), search.row_scores * SCORE_BYTES
    for band in slices(queries, band_bytes // row_bytes):
        scores = search.read(band)
        for piece in slices(band.stop, min(band_bytes, CACHED_BYTES) // row_bytes, band.start):
            yield scores[piece.start - band.start : piece.stop - band.start].copy(order="K"), search.items(piece)


def query_by_query(scores: NDArray[Any]) -> NDArray[Any]:
    """Copy scores so that those of a query lie side by side in memory."""
    if scores.flags.c_contiguous:
        return scores
    turned = np.empty(scores.shape, scores.dtype)
    # Some items at a time: numpy's own copy strides through all of memory for each query, at thrice the cost.
    for items in slices(scores.shape[1], 256):
        turned[:, items] = scores[:, items]
    return turned
