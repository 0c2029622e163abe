"""Vectors of a snapshot that are too many for the cache: read where they were published, in blocks with checksums."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import numpy as np

from evenreel.arrays import Indices
from evenreel.errors import LibraryError
from evenreel.library.snapshot.holding import SnapshotMarker, marker_of
from evenreel.library.snapshot.opening import CHECKSUMS, open_table, vectors_of_column
from evenreel.library.snapshot.place import SNAPSHOTS, SnapshotPlace
from evenreel.library.snapshot.tables import BLOCK_ROWS, MOMENTS, VECTOR
from evenreel.library.store.codes import HalfArray
from evenreel.library.store.vectors import ExactVectors
from evenreel.library.store.writer import open_vectors
from evenreel.types import FloatArray

CACHED_BYTES = 256 * 2**20
"""Most bytes of vectors that are kept in memory."""


def vectors_of(library: Path, meta: Mapping[str, str]) -> ExactVectors | None:
    """Open the vectors that a catalog names: of a library, or of a snapshot; None without vision."""
    marker = marker_of(library)
    if marker is None or marker.has_rows or not meta.get("dimension"):
        return open_vectors(library, meta)
    return SnapshotVectors(library, marker, int(meta["dimension"]))


class SnapshotVectors(ExactVectors):
    """Vectors of a published snapshot whose codes are in the cache; the vectors themselves are fetched when needed."""

    def __init__(self, folder: Path, marker: SnapshotMarker, dimension: int, cached_bytes: int = CACHED_BYTES) -> None:
        super().__init__(folder / "vectors.0.f16", dimension)
        self._fetched = FetchedMatrix(folder, marker, dimension, cached_bytes)

    @property
    def rows(self) -> int:
        """Number of vectors."""
        return len(self._fetched)

    def best_per_clip(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score queries (Q, D) by the best frame of each clip, given by first row and count (C,): (Q, C)."""
        self._fetched.prepare(first_rows, counts)
        return super().best_per_clip(queries, first_rows, counts)

    def _matrix(self, needed: int) -> HalfArray:
        if needed > self.rows:
            raise self._fetched.not_published("the catalog names more vectors than it has")
        return cast("HalfArray", self._fetched)


class FetchedMatrix:
    """Matrix (N, D) of a snapshot's vectors, whose rows are fetched in blocks; the latest blocks stay in memory."""

    def __init__(self, folder: Path, marker: SnapshotMarker, dimension: int, cached_bytes: int) -> None:
        self._place, self._marker, self._dimension = SnapshotPlace(marker.place), marker, dimension
        self._checksums = np.fromfile(folder / CHECKSUMS, "<u4")
        self._most = max(1, cached_bytes // (BLOCK_ROWS * 2 * dimension))
        self._blocks: OrderedDict[int, HalfArray] = OrderedDict()
        self._lock = threading.Lock()
        self._opened: Any = None

    def __len__(self) -> int:
        return self._marker.vector_rows

    def __getitem__(self, rows: slice) -> HalfArray:
        return self.take(np.arange(*rows.indices(len(self))))

    def take(self, indices: Indices, axis: int = 0, **_: object) -> HalfArray:
        """Return rows by their numbers (n,): (n, D); what `numpy.take` calls."""
        found = np.empty((len(indices), self._dimension), np.float16)
        blocks = indices // BLOCK_ROWS
        for number, rows in self._some_blocks(np.unique(blocks)):
            here = blocks == number
            found[here] = rows[indices[here] - number * BLOCK_ROWS]
        return found

    def prepare(self, first_rows: Indices, counts: Indices) -> None:
        """Fetch the rows of some clips (C,) at once, if there is room for all of them."""
        if int(counts.sum()) <= self._most * BLOCK_ROWS:
            starts = np.cumsum(counts) - counts
            rows = np.repeat(first_rows - starts, counts) + np.arange(int(counts.sum()))
            if len(blocks := np.unique(rows // BLOCK_ROWS)) <= self._most:
                for _ in self._some_blocks(blocks):
                    pass

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
                raise self.not_published("its vectors have another content")
            yield number, block

    def not_published(self, what: str) -> LibraryError:
        """Make the error for vectors that are not what was published."""
        return LibraryError(
            f"The snapshot {self._marker.id} at {self._marker.place} is not what was published: {what}; publish again."
        )
