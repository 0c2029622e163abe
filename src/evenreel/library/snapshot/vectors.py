"""Vectors of a snapshot that are too many for the cache: read where they were published, in blocks with checksums."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from evenreel.arrays import Indices
from evenreel.errors import LibraryError
from evenreel.library.snapshot.holding import SnapshotMarker, marker_of
from evenreel.library.snapshot.opening import CHECKSUMS, open_table, vectors_of_column
from evenreel.library.snapshot.place import SNAPSHOTS, SnapshotPlace
from evenreel.library.snapshot.tables import BLOCK_ROWS, MOMENTS, VECTOR
from evenreel.library.store.vectors import HalfArray, VectorIndex
from evenreel.library.store.writer import open_vectors
from evenreel.types import FloatArray

CACHED_BYTES = 256 * 2**20
"""Most bytes of vectors that are kept in memory."""
MOST_ROWS = 32_768
"""Vectors that are scored together."""


def vectors_of(library: Path, meta: Mapping[str, str]) -> VectorIndex | None:
    """Open the vectors that a catalog names: of a library, or of a snapshot; None without vision.

    Args:
        library: folder of the library, or of a snapshot in the cache.
        meta: entries of its catalog.
    """
    marker = marker_of(library)
    if marker is None or marker.has_rows or not meta.get("dimension"):
        return open_vectors(library, meta)
    return SnapshotVectors(library, marker, int(meta["dimension"]))


class SnapshotVectors:
    """Vectors of a published snapshot, fetched in blocks as they are needed and checked against their checksums.

    Args:
        folder: folder of the snapshot in the cache.
        marker: the snapshot that it was made of.
        dimension: D, the length of a vector.
        cached_bytes: most bytes of vectors that are kept in memory.
    """

    def __init__(
        self, folder: Path, marker: SnapshotMarker, dimension: int, cached_bytes: int = CACHED_BYTES
    ) -> None:
        self._place, self._marker, self._dimension = SnapshotPlace(marker.place), marker, dimension
        self._checksums = np.fromfile(folder / CHECKSUMS, "<u4")
        self._most = max(1, cached_bytes // (BLOCK_ROWS * 2 * dimension))
        self._blocks: OrderedDict[int, HalfArray] = OrderedDict()
        self._lock = threading.Lock()
        self._opened: Any = None

    @property
    def dimension(self) -> int:
        """D, the length of a vector."""
        return self._dimension

    def best_per_clip(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score queries (Q, D) by the best frame of each clip, given by first row and count (C,): (Q, C).

        Raises:
            LibraryError: the vectors cannot be fetched, or are not what was published.
        """
        best = np.empty((len(queries), len(counts)), np.float32)
        for clips in _groups(first_rows, counts):
            rows = self._rows(first_rows[clips], counts[clips]).astype(np.float32)
            starts = np.cumsum(counts[clips]) - counts[clips]
            best[:, clips] = np.maximum.reduceat(queries @ rows.T, starts, axis=1)
        return best

    def frame_scores(self, query: FloatArray, first_row: int, count: int) -> FloatArray:
        """Compute the dot products of a query (D,) with `count` vectors from `first_row` on: (count,).

        Raises:
            LibraryError: the vectors cannot be fetched, or are not what was published.
        """
        scores: FloatArray = self.read(first_row, count).astype(np.float32) @ query
        return scores

    def read(self, first_row: int, count: int) -> HalfArray:
        """Read the vectors of one clip: (count, D).

        Raises:
            LibraryError: the vectors cannot be fetched, or are not what was published.
        """
        return self._rows(np.array([first_row]), np.array([count]))

    def weighted_sum(self, weights: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Sum the clips' mean vectors times weights (G, C) over the clips: (G, D).

        Raises:
            LibraryError: the vectors cannot be fetched, or are not what was published.
        """
        total = np.zeros((len(weights), self._dimension), np.float64)
        used = np.flatnonzero(weights.any(axis=0))
        for group in _groups(first_rows[used], counts[used]):
            clips = used[group]
            rows = self._rows(first_rows[clips], counts[clips]).astype(np.float32)
            total += np.repeat(weights[:, clips] / counts[clips], counts[clips], axis=1) @ rows
        return total.astype(np.float32)

    def _rows(self, first_rows: Indices, counts: Indices) -> HalfArray:
        """The vectors of some clips, one clip after the other."""
        starts = np.cumsum(counts) - counts
        wanted = np.repeat(first_rows - starts, counts) + np.arange(int(counts.sum()))
        found = np.empty((len(wanted), self._dimension), np.float16)
        if not len(wanted):
            return found
        if int(wanted.max()) >= self._marker.vector_rows:
            raise self._not_published("the catalog names more vectors than it has")
        blocks = wanted // BLOCK_ROWS
        for number, rows in self._some_blocks(np.unique(blocks)):
            here = blocks == number
            found[here] = rows[wanted[here] - number * BLOCK_ROWS]
        return found

    def _some_blocks(self, numbers: Indices) -> Iterator[tuple[int, HalfArray]]:
        """Blocks by their numbers; those that are not in memory are fetched together."""
        with self._lock:
            known = {number: self._blocks[number] for number in numbers.tolist() if number in self._blocks}
            for number in known:
                self._blocks.move_to_end(number)
        missing = np.array([number for number in numbers.tolist() if number not in known], np.int64)
        fetched = dict(self._fetch(missing)) if len(missing) else {}
        with self._lock:
            self._blocks.update(fetched)
            while len(self._blocks) > self._most:
                self._blocks.popitem(last=False)
        yield from {**known, **fetched}.items()

    def _fetch(self, numbers: Indices) -> Iterator[tuple[int, HalfArray]]:
        starts = numbers * BLOCK_ROWS
        sizes = np.minimum(BLOCK_ROWS, self._marker.vector_rows - starts)
        rows = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
        with self._place.telling("read"):
            if self._opened is None:
                name = f"{self._marker.part}/{MOMENTS}.lance" if self._marker.part else f"{MOMENTS}.lance"
                self._opened = open_table(self._place, f"{SNAPSHOTS}/{self._marker.id}/{name}")
            table = self._opened.take(rows.tolist(), columns=[VECTOR])
        vectors = vectors_of_column(table[VECTOR].combine_chunks(), self._dimension)
        for number, block in zip(numbers.tolist(), np.split(vectors, np.cumsum(sizes)[:-1]), strict=True):
            if crc32(np.ascontiguousarray(block, "<f2").tobytes()) != int(self._checksums[number]):
                raise self._not_published("its vectors have another content")
            yield number, block

    def _not_published(self, what: str) -> LibraryError:
        return LibraryError(
            f"The snapshot {self._marker.id} at {self._marker.place} is not what was published: {what}; publish again."
        )


def _groups(first_rows: Indices, counts: Indices) -> Iterator[Indices]:
    """Clips in the order of their rows, in groups of about `MOST_ROWS` rows."""
    order = np.argsort(first_rows, kind="stable")
    if len(order):
        cuts = np.flatnonzero(np.diff(np.cumsum(counts[order]) // MOST_ROWS)) + 1
        yield from np.split(order, cuts)
