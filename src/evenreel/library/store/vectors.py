"""Frame vectors of a library: one append-only float16 matrix in a flat file, searched exactly.

Layout: a header line padded to 64 bytes, then the rows, little-endian float16, without gaps. The catalog
says which rows count; what lies beyond the last row that it names was left by a crash and is written over.
Exact search has recall 1 and nothing to corrupt; a store for larger libraries implements `VectorIndex`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.errors import LibraryError
from evenreel.files import sync_folder
from evenreel.types import FloatArray

HEADER_BYTES = 64
TILE_ROWS = 512
"""Rows that are float32 at one time: a megabyte at 512 dimensions, which a core's own cache holds."""

WIDENED = np.float32(2.0**112)
"""What `widened` leaves to be multiplied: the difference of the exponents' offsets, 127 - 15."""

MANY_QUERIES = 8
"""Number of queries from which it pays to multiply a tile by `WIDENED`: very small float32 numbers are slow."""

HalfArray = NDArray[np.float16]


class VectorIndex(Protocol):
    """Protocol of a store of frame vectors; similarity is the dot product of unit vectors."""

    @property
    def dimension(self) -> int:
        """D, the length of a vector."""

    def best_per_clip(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score queries (Q, D) by the best frame of each clip, (Q, C); clips are given by first row and count, (C,)."""

    def frame_scores(self, query: FloatArray, first_row: int, count: int) -> FloatArray:
        """Score one query (D,) on the frames of one clip: (count,)."""

    def read(self, first_row: int, count: int) -> HalfArray:
        """Read the stored vectors of one clip: (count, D)."""

    def weighted_sum(self, weights: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Sum the clips' mean vectors times weights (G, C) over the clips: (G, D)."""


@dataclass(frozen=True)
class _Tile:
    """Neighbouring pieces of clips that are scored together; no clip has two pieces in one tile."""

    clips: Indices  # (P,) which clip of the request each piece belongs to
    first_rows: Indices  # (P,)
    counts: Indices  # (P,)

    @property
    def starts(self) -> Indices:
        """Where each piece begins inside the tile."""
        return np.cumsum(self.counts) - self.counts


class ExactVectors:
    """Vectors of a library in one flat file; readers go on while a writer appends.

    Args:
        path: the file; it is created by the first `append`.
        dimension: D, the length of a vector.
    """

    def __init__(self, path: Path, dimension: int) -> None:
        self._path = path
        self._dimension = dimension
        self._mapped: HalfArray = np.empty((0, dimension), np.float16)

    @property
    def dimension(self) -> int:
        """D, the length of a vector."""
        return self._dimension

    @property
    def rows(self) -> int:
        """Number of complete rows in the file now, also those that the catalog does not name."""
        size = self._path.stat().st_size if self._path.exists() else 0
        return max(0, size - HEADER_BYTES) // self._row_bytes

    def append(self, vectors: FloatArray, at_row: int | None = None) -> int:
        """Write vectors; they are on the disk when this returns.

        Args:
            vectors: (n, D) vectors of unit length.
            at_row: first row to write, over what a crash left there; None for the end.

        Returns:
            The first row written.

        Raises:
            LibraryError: the vectors are not (n, D) of unit length, or rows before `at_row` are missing.
            OSError: the disk is full or cannot be written; nothing that the catalog names has changed.
        """
        self._check_new(vectors)
        first = self.rows if at_row is None else at_row
        if first > self.rows:
            raise self._short(first)
        if first:
            self._check_header()
        created = not self._path.exists()
        with self._path.open("wb" if created else "r+b") as file:
            if not first:
                file.write(self._header)
            file.seek(HEADER_BYTES + first * self._row_bytes)
            file.write(np.ascontiguousarray(vectors, "<f2").tobytes())
            file.flush()
            os.fsync(file.fileno())
        if not first:  # also where an append that failed had made the file: its name may not be durable yet
            sync_folder(self._path.parent)
        return first

    def best_per_clip(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score every query by the best frame of every clip.

        Works in tiles of `TILE_ROWS` rows, so that memory holds (Q, C) and one tile whatever the size.

        Args:
            queries: (Q, D) float32, unit length.
            first_rows: (C,) first row of each clip.
            counts: (C,) rows of each clip, at least 1.

        Returns:
            (Q, C) largest dot product over the clip's rows.

        Raises:
            LibraryError: the file is shorter than the rows required, of another dimension, or damaged.
        """
        best = np.full((len(queries), len(counts)), -np.inf, np.float32)
        if not len(counts):
            return best
        matrix = self._matrix(int((first_rows + counts).max()))
        for tile in _tiles(first_rows, counts):
            similarity = self._similarity(queries, _rows_of(matrix, tile))
            here = np.maximum.reduceat(similarity, tile.starts, axis=1)
            best[:, tile.clips] = np.maximum(best[:, tile.clips], here)
        return best

    def frame_scores(self, query: FloatArray, first_row: int, count: int) -> FloatArray:
        """Compute the dot products of one query (D,) with `count` rows from `first_row` on: (count,).

        Raises:
            LibraryError: the file is too short, of another dimension, or damaged.
        """
        matrix = self._matrix(first_row + count)
        scores: FloatArray = self._similarity(query[None], matrix[first_row : first_row + count])[0]
        return scores

    def read(self, first_row: int, count: int) -> HalfArray:
        """Read `count` stored vectors from `first_row` on: (count, D) float16.

        Raises:
            LibraryError: the file is too short, of another dimension, or damaged.
        """
        return self._matrix(first_row + count)[first_row : first_row + count]

    def weighted_sum(self, weights: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Sum the mean vector of every clip times its weights over the clips, in tiles as `best_per_clip`.

        Args:
            weights: (G, C) float32; clips whose weights are all zero are not read.
            first_rows: (C,) first row of each clip.
            counts: (C,) rows of each clip, at least 1.

        Returns:
            (G, D).

        Raises:
            LibraryError: the file is too short, of another dimension, or damaged.
        """
        used = np.flatnonzero(weights.any(axis=0))
        total = np.zeros((len(weights), self._dimension), np.float64)
        if not len(used):
            return total.astype(np.float32)
        first_rows, counts = first_rows[used], counts[used]
        per_row = weights[:, used] / counts
        matrix = self._matrix(int((first_rows + counts).max()))
        for tile in _tiles(first_rows, counts):
            rows = widened(_rows_of(matrix, tile)) * WIDENED
            total += np.repeat(per_row[:, tile.clips], tile.counts, axis=1) @ rows
        if not np.isfinite(total).all():
            raise self._damaged()
        return total.astype(np.float32)

    @property
    def _row_bytes(self) -> int:
        return 2 * self._dimension

    @property
    def _header(self) -> bytes:
        return f"evenreel vectors 1 float16 {self._dimension}\n".encode().ljust(HEADER_BYTES, b" ")

    def _matrix(self, needed: int) -> HalfArray:
        """The mapped rows, at least `needed` of them; mapped again when a writer has added some."""
        if needed > len(self._mapped):
            rows = self.rows
            if needed > rows:
                raise self._short(needed)
            self._check_header()
            # A plain array over the map: slicing a memmap costs more than scoring a short clip.
            self._mapped = np.asarray(np.memmap(self._path, "<f2", "r", HEADER_BYTES, (rows, self._dimension)))
        return self._mapped

    def _check_new(self, vectors: FloatArray) -> None:
        if vectors.ndim != 2 or vectors.shape[1] != self._dimension:
            raise LibraryError(
                f"Vectors of shape {vectors.shape} do not fit a library of dimension {self._dimension}; "
                "index with the encoder that the library was made with."
            )
        norms = np.linalg.norm(vectors.astype(np.float32), axis=1)
        # Written so that NaN fails too.
        if not np.all(np.abs(norms - 1) < 0.01):
            raise LibraryError(
                "The encoder gave a vector that is not of unit length (zero, NaN or infinite); nothing was stored."
            )

    def _check_header(self) -> None:
        with self._path.open("rb") as file:
            found = file.read(HEADER_BYTES)
        if found != self._header:
            raise LibraryError(
                f"{self._path} does not hold vectors of dimension {self._dimension} "
                f"(it begins {found[:32]!r}); run `evenreel repair` to rebuild it from the shards."
            )

    def _short(self, needed: int) -> LibraryError:
        return LibraryError(
            f"{self._path} holds {self.rows} vectors but the catalog names {needed}; "
            "run `evenreel repair` to rebuild it from the shards."
        )

    def _similarity(self, queries: FloatArray, block: HalfArray) -> FloatArray:
        """Queries (Q, D) against float16 rows (n, D) -> (Q, n)."""
        rows = widened(block)
        if len(queries) < MANY_QUERIES:
            queries = np.multiply(queries, WIDENED, dtype=np.float32)
        else:
            rows *= WIDENED
        scores: FloatArray = queries @ rows.T
        # Written so that NaN fails too.
        if not (scores.min() > -1.1 and scores.max() < 1.1):
            raise self._damaged()
        return scores

    def _damaged(self) -> LibraryError:
        return LibraryError(
            f"{self._path} holds vectors that are not of unit length; "
            "run `evenreel repair` to rebuild it from the shards."
        )


def widened(block: HalfArray) -> FloatArray:
    """Convert finite float16 to float32, times 2**-112 (see `WIDENED`).

    Moves sign, exponent and fraction to their float32 places, 6 times as fast as numpy's own conversion and
    without torch, whose threads wait for each other at every tile when the machine is busy.
    """
    bits = np.left_shift(block.view("<i2"), np.int32(13), dtype=np.int32)
    # The shift has spread the sign over four bits; all but the first are taken back.
    bits &= np.int32(~0x70000000)
    wide: FloatArray = bits.view(np.float32)
    return wide


def _tiles(first_rows: Indices, counts: Indices) -> Iterator[_Tile]:
    """Cut clips into tiles of at most `TILE_ROWS` rows, in the order of the file."""
    pieces = _pieces(first_rows, counts)
    ends = np.cumsum(pieces.counts)
    start = 0
    while start < len(ends):
        limit = ends[start] - pieces.counts[start] + TILE_ROWS
        stop = int(np.searchsorted(ends, limit, "right"))
        chosen = slice(start, stop)
        yield _Tile(pieces.clips[chosen], pieces.first_rows[chosen], pieces.counts[chosen])
        start = stop


def _pieces(first_rows: Indices, counts: Indices) -> _Tile:
    """Every clip in pieces of `TILE_ROWS` rows (most are one piece), in the order of the file."""
    order = np.argsort(first_rows, kind="stable")
    per_clip = -(-counts[order] // TILE_ROWS)
    clips = np.repeat(order, per_clip)
    number = np.arange(len(clips)) - np.repeat(np.cumsum(per_clip) - per_clip, per_clip)
    done = number * TILE_ROWS
    return _Tile(clips, first_rows[clips] + done, np.minimum(counts[clips] - done, TILE_ROWS))


def _rows_of(matrix: HalfArray, tile: _Tile) -> HalfArray:
    """The tile's rows: a view where they lie side by side, else a copy."""
    total = int(tile.counts.sum())
    first = int(tile.first_rows[0])
    if int(tile.first_rows[-1] + tile.counts[-1]) - first == total:
        return matrix[first : first + total]
    return matrix[np.repeat(tile.first_rows - tile.starts, tile.counts) + np.arange(total)]
