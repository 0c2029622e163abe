"""Frame vectors of a library: one append-only float16 matrix in a flat file, and codes of it that are scanned first.

Layout: a header line padded to 64 bytes, then the rows, little-endian float16, without gaps. The catalog
says which rows count; what lies beyond the last row that it names was left by a crash and is written over.
The matrix is the truth and gives exact scores; `evenreel.library.store.codes` says which clips are worth them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import numkong as nk
import numpy as np

from evenreel.arrays import Indices
from evenreel.errors import LibraryError
from evenreel.files import sync_folder
from evenreel.library.store.codes import HEADER_BYTES, Codes, HalfArray, clip_tiles
from evenreel.types import FloatArray

TILE_ROWS = 2048
"""Rows that are float32 at one time: 4 MB at 512 dimensions; fewer cost calls, more leave the cache (measured)."""


class VectorIndex(Protocol):
    """Protocol of a store of frame vectors; similarity is the dot product of unit vectors."""

    @property
    def dimension(self) -> int:
        """D, the length of a vector."""

    def best_per_clip(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score queries (Q, D) by the best frame of each clip, (Q, C); clips are given by first row and count, (C,)."""

    def scan(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score as `best_per_clip`, (Q, C), faster and to within `scan_error`."""

    def scan_error(self, queries: FloatArray) -> FloatArray:
        """How far `scan` may be from `best_per_clip` for each of some queries (Q, D): (Q,)."""

    def frame_scores(self, query: FloatArray, first_row: int, count: int) -> FloatArray:
        """Score one query (D,) on the frames of one clip: (count,)."""

    def read(self, first_row: int, count: int) -> HalfArray:
        """Read the stored vectors of one clip: (count, D)."""


class ExactVectors:
    """Vectors of a library in one flat file, and their codes beside it; readers go on while a writer appends."""

    def __init__(self, path: Path, dimension: int) -> None:
        self._path = path
        self._dimension = dimension
        self._mapped: HalfArray = np.empty((0, dimension), np.float16)
        self._codes = Codes(codes_path(path), dimension)

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
        """Write vectors and their codes; both are on the disk when this returns."""
        self._check_new(vectors)
        first = self.rows if at_row is None else at_row
        if first > self.rows:
            raise self._short(first)
        if first:
            self._check_header()
        rows, created = np.ascontiguousarray(vectors, "<f2"), not self._path.exists()
        with self._path.open("wb" if created else "r+b") as file:
            if not first:
                file.write(self._header)
            file.seek(HEADER_BYTES + first * self._row_bytes)
            file.write(rows.tobytes())
            file.flush()
            os.fsync(file.fileno())
        if not first:  # also where an append that failed had made the file: its name may not be durable yet
            sync_folder(self._path.parent)
        if self._codes.rows < first:  # a library of before there were codes
            self._codes.rewrite(self._matrix(first)[:first])
        self._codes.write(rows, first)
        return first

    def complete_codes(self, rows: int) -> bool:
        """Make the codes of the first `rows` rows where they are missing or not usable; tell whether that was so."""
        if not rows or self._codes.covers(rows):
            return False
        self._codes.rewrite(self._matrix(rows)[:rows])
        return True

    def has_codes(self, rows: int) -> bool:
        """Tell whether there are codes of the first `rows` rows that a scan can use."""
        return self._codes.covers(rows)

    def codes_agree(self, first_row: int, count: int) -> bool:
        """Tell whether the codes of `count` rows from `first_row` on are those of the stored vectors."""
        return self._codes.agree(self.read(first_row, count), first_row)

    def best_per_clip(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score every query by the best frame of every clip.

        Works in tiles of `TILE_ROWS` rows, so that memory holds (Q, C) and one tile or clip whatever the size.
        """
        best = np.full((len(queries), len(counts)), -np.inf, np.float32)
        if not len(counts):
            return best
        matrix = self._matrix(int((first_rows + counts).max()))
        for tile in clip_tiles(first_rows, counts, TILE_ROWS):
            similarity = self._similarity(queries, tile.rows_of(matrix))
            best[:, tile.clips] = np.maximum.reduceat(similarity, tile.starts, axis=1)
        return best

    def scan(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score every query by the best frame of every clip, by codes."""
        if not len(counts) or not self._codes.covers(int((first_rows + counts).max())):
            return self.best_per_clip(queries, first_rows, counts)
        return self._codes.scan(queries, first_rows, counts)

    def scan_error(self, queries: FloatArray) -> FloatArray:
        """How far `scan` may be from `best_per_clip` for queries (Q, D): (Q,); see `codes.Codes.error`."""
        return self._codes.error(queries)

    def frame_scores(self, query: FloatArray, first_row: int, count: int) -> FloatArray:
        """Compute the dot products of one query (D,) with `count` rows from `first_row` on: (count,)."""
        matrix = self._matrix(first_row + count)
        scores: FloatArray = self._similarity(query[None], matrix[first_row : first_row + count])[0]
        return scores

    def read(self, first_row: int, count: int) -> HalfArray:
        """Read `count` stored vectors from `first_row` on: (count, D) float16."""
        return self._matrix(first_row + count)[first_row : first_row + count]

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
                f"(it begins {found[:32]!r}); run `evenreel verify --repair` to rebuild it from the shards."
            )

    def _short(self, needed: int) -> LibraryError:
        return LibraryError(
            f"{self._path} holds {self.rows} vectors but the catalog names {needed}; "
            "run `evenreel verify --repair` to rebuild it from the shards."
        )

    def _similarity(self, queries: FloatArray, block: HalfArray) -> FloatArray:
        """Queries (Q, D) against float16 rows (n, D) -> (Q, n)."""
        scores: FloatArray = queries @ widened(block).T
        # Written so that NaN fails too.
        if not (scores.min() > -1.1 and scores.max() < 1.1):
            raise self._damaged()
        return scores

    def _damaged(self) -> LibraryError:
        return LibraryError(
            f"{self._path} holds vectors that are not of unit length; "
            "run `evenreel verify --repair` to rebuild it from the shards."
        )


def codes_path(vectors: Path) -> Path:
    """Return the file of the codes that belong to a file of vectors."""
    return vectors.with_suffix(".i8")


def widened(block: HalfArray) -> FloatArray:
    """Convert float16 (n, D) to float32, ten times as fast as numpy (measured with numpy 2.4 and numkong 7.8)."""
    wide: FloatArray = np.asarray(nk.astype(np.ascontiguousarray(block), "float32"))
    return wide
