"""Engines that `benchmarks/vectors.py` compares: each names the clips that are worth scoring exactly for a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.library.store.vectors import ExactVectors, HalfArray
from evenreel.types import FloatArray

CLIPS_SCORED_AGAIN = 200
ROWS_ASKED = 1_000
"""Rows asked of engines that know rows only: frames of a clip are alike, so these are of some 200 clips."""

TILE_ROWS = 512


@dataclass(frozen=True)
class Moments:
    """What is searched.

    Attributes:
        vectors: the library's store.
        frames: the rows as float32 (N, D).
        first_rows: (C,) first row of each clip.
        counts: (C,) rows of each clip.
        shown: what each clip shows (C, D), which text-like queries are near.
    """

    vectors: ExactVectors
    frames: FloatArray
    first_rows: Indices
    counts: Indices
    shown: FloatArray

    @property
    def clip_of(self) -> Indices:
        """The clip of each row, (N,)."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


class Engine(Protocol):
    """An index that is built; `bytes` are those of its codes, or 0 where all scores are exact already."""

    bytes: int

    def clips(self, query: FloatArray) -> Indices:
        """Places of the clips that are worth scoring under a query (D,)."""


class AllScores:
    """A scan that scores every row; the best of each clip counts.

    Args:
        moments: what is searched.
        scores: query (D,) -> scores of all rows (N,).
        size: bytes that are scanned.
        most: number of clips that are scored again.
    """

    def __init__(
        self,
        moments: Moments,
        scores: Callable[[FloatArray], NDArray[Any]],
        size: int,
        most: int = CLIPS_SCORED_AGAIN,
    ) -> None:
        self._starts, self._scores, self.bytes, self._most = moments.first_rows, scores, size, most

    def clips(self, query: FloatArray) -> Indices:
        best = np.maximum.reduceat(self._scores(query), self._starts)
        most = min(self._most, len(best))
        return np.sort(np.argpartition(-best, most - 1)[:most])


class BestRows:
    """An index that gives the best rows only.

    Args:
        moments: what is searched.
        rows: query (1, D) -> its best rows.
        size: bytes of the index.
    """

    def __init__(self, moments: Moments, rows: Callable[[FloatArray], Indices], size: int) -> None:
        self._clip_of, self._rows, self.bytes = moments.clip_of, rows, size

    def clips(self, query: FloatArray) -> Indices:
        found = self._clip_of[self._rows(query[None])]
        _, first = np.unique(found, return_index=True)
        return np.sort(found[np.sort(first)[:CLIPS_SCORED_AGAIN]])


def codes_of(values: FloatArray) -> NDArray[np.int8]:
    """int8 codes (n, D), each row by its own scale."""
    found = np.empty(values.shape, np.int8)
    for start in range(0, len(values), 8192):
        part = values[start : start + 8192]
        found[start : start + 8192] = np.rint(part * (127 / np.abs(part).max(axis=1, keepdims=True)))
    return found


def numkong(moments: Moments, most: int = CLIPS_SCORED_AGAIN) -> AllScores:
    """The bare kernel of NumKong on int8 codes in memory."""
    import numkong as nk

    codes = codes_of(moments.frames)
    scales = np.concatenate([np.abs(part).max(axis=1) for part in np.array_split(moments.frames, 64)])

    def scores(query: FloatArray) -> NDArray[np.float32]:
        dots = np.asarray(nk.cdist(codes_of(query[None]), codes, "dot"))[0]
        return np.multiply(dots, scales, dtype=np.float32, casting="same_kind")

    return AllScores(moments, scores, codes.nbytes, most)


def numpy_float32(moments: Moments) -> AllScores:
    """A matrix product on float32 in memory, the alternative of two lines."""
    return AllScores(moments, lambda query: moments.frames @ query, moments.frames.nbytes)


def widened_tiles(moments: Moments) -> AllScores:
    """The exact scan of before: float16 widened by hand in tiles, then a matrix product."""
    rows = moments.vectors.read(0, len(moments.frames))

    def scores(query: FloatArray) -> FloatArray:
        scaled = query * np.float32(2.0**112)
        return np.concatenate([_widened(rows[i : i + TILE_ROWS]) @ scaled for i in range(0, len(rows), TILE_ROWS)])

    return AllScores(moments, scores, rows.nbytes)


def _widened(block: HalfArray) -> FloatArray:
    """Float16 as float32, times 2**-112: sign, exponent and fraction moved to their places."""
    bits = np.left_shift(block.view("<i2"), np.int32(13), dtype=np.int32)
    bits &= np.int32(~0x70000000)
    wide: FloatArray = bits.view(np.float32)
    return wide


def faiss_sq8(moments: Moments) -> BestRows:
    import faiss

    dimension = moments.frames.shape[1]
    index = faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    return _faiss(moments, index, dimension)


def faiss_fast_scan(moments: Moments) -> BestRows:
    """FAISS, flat product quantisation of 4 bits a pair of numbers, scanned in registers."""
    import faiss

    dimension = moments.frames.shape[1]
    index = faiss.IndexPQFastScan(dimension, dimension // 2, 4, faiss.METRIC_INNER_PRODUCT)
    return _faiss(moments, index, dimension // 4)


def _faiss(moments: Moments, index: Any, row_bytes: int) -> BestRows:
    import faiss

    faiss.omp_set_num_threads(1)
    index.train(moments.frames[:: max(1, len(moments.frames) // 20_000)].copy())
    index.add(moments.frames)
    return BestRows(moments, lambda query: index.search(query, ROWS_ASKED)[1][0], row_bytes * len(moments.frames))


def turbovec(moments: Moments) -> BestRows:
    from turbovec import TurboQuantIndex

    dimension = moments.frames.shape[1]
    index = TurboQuantIndex(dimension, 4)
    index.add(moments.frames)
    index.prepare()
    return BestRows(
        moments,
        lambda query: np.asarray(index.search(query, ROWS_ASKED)[1]).astype(np.int64)[0],
        dimension // 2 * len(moments.frames),
    )


def usearch_exact(moments: Moments) -> BestRows:
    from usearch.index import search

    codes = codes_of(moments.frames)

    def rows(query: FloatArray) -> Indices:
        found = search(codes, codes_of(query), ROWS_ASKED, "ip", exact=True, threads=1)
        return np.asarray(found.keys).astype(np.int64).ravel()

    return BestRows(moments, rows, codes.nbytes)


def usearch_hnsw(moments: Moments) -> BestRows:
    from usearch.index import Index

    index = Index(ndim=moments.frames.shape[1], metric="cos", dtype="i8")
    index.add(np.arange(len(moments.frames)), moments.frames, threads=1)
    return BestRows(
        moments,
        lambda query: np.asarray(index.search(query[0], ROWS_ASKED, threads=1).keys).astype(np.int64).ravel(),
        index.memory_usage,
    )
