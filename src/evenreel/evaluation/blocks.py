"""Scores and relevance as the evaluation reads them: checked, and with captions grouped by clip where required."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from evenreel.config import check_scores
from evenreel.corpus.relevance import ClassRelevance, GradedPairs, Relevance, RelevantPairs
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.matrices import as_table, unmasked
from evenreel.progress import Progress
from evenreel.types import ScoreBlocks, ScoreNotes, Scores


class CheckedScores:
    """Scores of any system; each block read is checked to have the right shape and numbers that can be ranked.

    Half precision becomes single precision, with which numpy is faster.

    Args:
        scores: scores of any system.
        progress: called with the share of captions up to the end of the last block.

    Attributes:
        infinite: caption and video of the first score that was plus infinity; None while none has been read.
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
        values = _rankable(values)
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


def _rankable(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype == np.float16:
        return values.astype(np.float32)
    if values.dtype == np.bool_:
        return values.astype(np.uint8)
    if values.dtype.kind not in "fiu":
        raise ScoresError(f"The scores are of type {values.dtype}; they must be whole or floating-point numbers.")
    return values


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
        self._rows = _places(scores.caption_ids, like.caption_ids, "caption")
        self._columns = _places(scores.video_ids, like.video_ids, "clip")

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        return unmasked(self._values[np.ix_(self._rows[captions], self._columns[videos])], "The scores")


def _places(there: Sequence[str], wanted: Sequence[str], what: str) -> NDArray[np.int64]:
    place = {one: number for number, one in enumerate(there)}
    missing = [one for one in wanted if one not in place]
    if missing:
        raise ScoresError(
            f"Scores lack {len(missing):,} of {len(wanted):,} {what}s of those that they go with, {missing[0]!r} for "
            "example; both must be of the same split."
        )
    return np.array([place[one] for one in wanted], np.int64)


@dataclass(frozen=True, eq=False)
class CaptionGroups:
    """Q captions in G groups, one group for each clip.

    Attributes:
        clip_ids: G ids, in the order of their first captions.
        order: (Q,) indices of the captions, those of a group side by side.
        starts: (G,) index in `order` at which each group begins.
    """

    clip_ids: Sequence[str]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]

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


@dataclass(frozen=True, eq=False)
class GroupedScores:
    """Scores (G, V) of groups of captions with videos, each that of the best caption; implements `ScoreBlocks`."""

    scores: ScoreBlocks
    groups: CaptionGroups

    @property
    def caption_ids(self) -> Sequence[str]:
        """Ids of the rows: the clip of each group of captions."""
        return self.groups.clip_ids

    @property
    def video_ids(self) -> Sequence[str]:
        """Ids of the columns, the videos."""
        return self.scores.video_ids

    @property
    def about(self) -> ScoreNotes:
        """Notes of the captions' scores."""
        return self.scores.about

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Return the scores (g, v) of some groups and videos; the scores of every caption of these groups are read."""
        return self.groups.best(self.scores.block(slice(0, len(self.groups.order)), videos))[captions]


class GivenRelevance:
    """Degrees of relevance (Q, V) from a table in memory; implements `Relevance`.

    Raises:
        UsageError: the table has other values than numbers from 0 to 1.
    """

    def __init__(self, table: NDArray[Any]) -> None:
        if table.ndim != 2 or table.dtype.kind not in "fiub":
            raise UsageError(
                f"The relevance is an array of {table.dtype} with the shape {table.shape}; it must be numbers, a "
                "caption a row and a video a column."
            )
        if table.size and not (table.min() >= 0 and table.max() <= 1):  # NaN too
            raise UsageError(
                f"Degrees of relevance lie between 0 and 1; these range from {table.min()} to {table.max()}."
            )
        self._table = table

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of captions and videos, (Q, V)."""
        rows, columns = self._table.shape
        return rows, columns

    def block(self, captions: slice, videos: slice) -> NDArray[np.float64]:
        """Return the relevance (q, v) of some captions and videos."""
        return self._table[captions, videos].astype(np.float64)


@dataclass(frozen=True, eq=False)
class GroupedRelevance:
    """Relevance (G, V) of groups of captions, the highest among a group's captions; implements `Relevance`."""

    relevance: Relevance
    groups: CaptionGroups

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of groups and videos, (G, V)."""
        return len(self.groups.starts), self.relevance.shape[1]

    def block(self, captions: slice, videos: slice) -> NDArray[np.float64]:
        """Return the relevance (g, v) of some groups of captions and videos."""
        return self.groups.best(self.relevance.block(slice(0, len(self.groups.order)), videos))[captions]


@dataclass(frozen=True, eq=False)
class Items:
    """Relevant items of a band of b queries: each pair with a degree of relevance above 0, query by query.

    Attributes:
        query: (m,) index of the query in the band, ascending.
        item: (m,) index of the item in the gallery.
        degree: (m,) degree of relevance, above 0 and at most 1.
    """

    query: NDArray[np.int64]
    item: NDArray[np.int64]
    degree: NDArray[np.float64]

    def where(self, kept: NDArray[Any]) -> Items:
        """Select some of the pairs of query and relevant item, by a mask (m,) or by indices."""
        return Items(self.query[kept], self.item[kept], self.degree[kept])


@dataclass(frozen=True, eq=False)
class Search:
    """Scores and relevance of one direction of search: queries (rows) that are ranked against a gallery (columns).

    Attributes:
        scores, relevance: scores and relevance of captions (rows) and videos (columns).
        turned: whether videos are the queries and captions the gallery.
    """

    scores: ScoreBlocks
    relevance: Relevance
    turned: bool

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
        return len(self.scores.groups.order) if isinstance(self.scores, GroupedScores) else self.gallery_size

    def read(self, queries: slice) -> NDArray[Any]:
        """Read the (b, gallery) scores of some queries."""
        everything = slice(0, self.gallery_size)
        return self.scores.block(everything, queries).T if self.turned else self.scores.block(queries, everything)

    def items(self, queries: slice) -> Items:
        """Return the relevant items of some queries."""
        if self._pairs is not None:
            return _of_sparse(self._pairs[queries])
        everything = slice(0, self.gallery_size)
        block = (everything, queries) if self.turned else (queries, everything)
        if isinstance(self.relevance, (ClassRelevance, GradedPairs)):
            degrees = self.relevance.above_zero(*block)
            return _of_sparse(sparse.csr_array(degrees.T) if self.turned else degrees)
        table = self.relevance.block(*block)
        return _of_table(table.T if self.turned else table)

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


def _of_sparse(degrees: sparse.csr_array) -> Items:
    query = np.repeat(np.arange(degrees.shape[0]), np.diff(degrees.indptr))
    return Items(query, degrees.indices.astype(np.int64), degrees.data.astype(np.float64))


def _of_table(degrees: NDArray[np.float64]) -> Items:
    lowest, highest = degrees.min(), degrees.max()
    if not (lowest >= 0 and highest <= 1):  # NaN too
        raise ScoresError(f"Degrees of relevance lie between 0 and 1; these range from {lowest} to {highest}.")
    # numpy finds the places that are set in one long row of booleans far faster than in a table of numbers.
    places = np.flatnonzero(np.ascontiguousarray(degrees > 0))
    query, item = np.divmod(places, degrees.shape[1])
    return Items(query, item, degrees[query, item])


def group_relevance(relevance: Relevance, groups: CaptionGroups) -> Relevance:
    """Return the relevance of groups of captions, the highest among a group's; 0-or-1 relevance stays so."""
    if not isinstance(relevance, RelevantPairs):
        return GroupedRelevance(relevance, groups)
    ends = np.append(groups.starts, len(groups.order))
    members = sparse.csr_array((np.ones(len(groups.order), np.int64), groups.order, ends))
    return RelevantPairs((members @ relevance.matrix.astype(np.int64)).astype(np.bool_))
