"""Vectors of a library: one append-only float16 matrix of its frames, and one of its sounds, each a flat file.

Layout: a header line padded to 64 bytes, then the rows, little-endian float16, without gaps. The catalog says which
rows count; what lies beyond the last row that it names was left by a crash and is written over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numkong as nk
import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.errors import LibraryError
from evenreel.files import sync_folder
from evenreel.types import FloatArray

HEADER_BYTES = 64
TILE_ROWS = 2048
"""Rows that are float32 at one time: 4 MB at 512 dimensions; fewer cost calls, more leave the cache (measured)."""
SCANNED_ROWS = 16_384
"""Rows of one call for a single query, which are read as they are."""
EXACT_ROWS = 10_000
"""Rows up to which what float16 cuts off a single query counts too: it takes as long again."""

HalfArray = NDArray[np.float16]


class Matrix(NamedTuple):
    """Where a library has the vectors of one of its models."""

    file: str  # name of its file, before the generation
    prefix: str  # how its entries of `meta` begin: encoder_id, weights_hash, dimension, vectors_*, null_*
    moments: str  # tables of the catalog: what each row stands for,
    rows: str  # which rows are a clip's,
    nulls: str  # and how nonsense scores on it

    def own(self, meta: Mapping[str, str]) -> Mapping[str, str]:
        """Return its entries of `meta`, under their names without the prefix."""
        start = self.prefix
        return {key.removeprefix(start): value for key, value in meta.items() if key.startswith(start)}

    def named(self, entries: Mapping[str, str]) -> dict[str, str]:
        """Return entries under the names that they have in `meta`, the inverse of `own`."""
        return {f"{self.prefix}{key}": value for key, value in entries.items()}


FRAMES = Matrix("vectors", "", "moments", "vector_rows", "null_scores")
SOUNDS = Matrix("sounds", "sounds_", "sound_moments", "sound_rows", "sound_null_scores")


class ClipTile(NamedTuple):
    """Neighbouring clips that are scored together: their places in a request, first rows and numbers of rows, (P,)."""

    clips: Indices
    first_rows: Indices
    counts: Indices

    def rows_of(self, matrix: HalfArray) -> tuple[HalfArray, Indices]:
        """Return rows of a matrix (N, D) with those of the clips, and where each clip begins and ends there, (2 P,).

        They are a view where the clips have most of the rows between their first and their last, else a copy.
        """
        first, stop = int(self.first_rows[0]), int(self.first_rows[-1] + self.counts[-1])
        if 2 * self.counts.sum() > stop - first:
            return matrix[first:stop], np.stack([self.first_rows, self.first_rows + self.counts], 1).ravel() - first
        ends = np.cumsum(self.counts)
        rows = np.repeat(self.first_rows - (ends - self.counts), self.counts) + np.arange(ends[-1])
        return np.take(matrix, rows, axis=0), np.stack([ends - self.counts, ends], 1).ravel()


def clip_tiles(first_rows: Indices, counts: Indices, most: int) -> Iterator[ClipTile]:
    """Cut clips, given by first row and number of rows (C,), (C,), into tiles of at most `most` rows or one clip."""
    order = np.argsort(first_rows, kind="stable")
    first_rows, counts = first_rows[order], counts[order]
    ends = np.cumsum(counts)
    start = 0
    while start < len(ends):
        stop = int(np.searchsorted(ends, ends[start] - counts[start] + most, "right"))
        chosen = slice(start, max(stop, start + 1))
        yield ClipTile(order[chosen], first_rows[chosen], counts[chosen])
        start = chosen.stop


class ExactVectors:
    """Vectors of a library in one flat file; readers go on while a writer appends."""

    def __init__(self, path: Path, dimension: int) -> None:
        self._path = path
        self._dimension = dimension
        self._mapped: HalfArray = np.empty((0, dimension), np.float16)
        self._scanned = self._mapped  # a map of the first rows whose pages are there: a new one has each looked up anew

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
        """Write vectors; they are on the disk when this returns."""
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
        return first

    def best_per_clip(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score queries (Q, D) by the best frame of every clip, given by first row and count (C,): (Q, C).

        Works in tiles, so that memory holds (Q, C) and one tile or clip whatever the size. A single query is compared
        with the rows as they are: from `EXACT_ROWS` rows on to within 5e-5, since it becomes float16 too.
        """
        best = np.full((len(queries), len(counts)), -np.inf, np.float32)
        if not len(counts):
            return best
        matrix = self._matrix(int((first_rows + counts).max()))
        several, exact = len(queries) > 1, counts.sum() <= EXACT_ROWS
        for tile in clip_tiles(first_rows, counts, TILE_ROWS if several else SCANNED_ROWS):
            is_old = tile.first_rows[-1] + tile.counts[-1] <= len(self._scanned)
            rows, edges = tile.rows_of(self._scanned if is_old else matrix)
            found = queries @ widened(rows).T if several else _products(queries[0], rows, exact=exact)[None]
            if edges[-1] == len(rows):  # the last clip ends where its rows do
                edges = edges[:-1]
            best[:, tile.clips] = np.maximum.reduceat(found, edges, axis=1)[:, ::2]
        self._check(best)
        return best

    def frame_scores(self, query: FloatArray, first_row: int, count: int) -> FloatArray:
        """Compute the dot products of one query (D,) with `count` rows from `first_row` on: (count,)."""
        scores = _products(query, self._matrix(first_row + count)[first_row : first_row + count])
        self._check(scores)
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
            if len(self._mapped) > len(self._scanned) + SCANNED_ROWS or not len(self._scanned):
                self._scanned = self._mapped
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

    def _check(self, scores: FloatArray) -> None:
        """Refuse scores that vectors of unit length cannot have; so written that NaN fails too."""
        if scores.size and not (scores.min() > -1.1 and scores.max() < 1.1):
            raise LibraryError(
                f"{self._path} holds vectors that are not of unit length; "
                "run `evenreel verify --repair` to rebuild it from the shards."
            )


def widened(block: HalfArray) -> FloatArray:
    """Convert float16 (n, D) to float32, ten times as fast as numpy (measured with numpy 2.4 and numkong 7.8)."""
    wide: FloatArray = np.asarray(nk.astype(np.ascontiguousarray(block), "float32"))
    return wide


def _products(query: FloatArray, rows: HalfArray, *, exact: bool = True) -> FloatArray:
    """Dot products of a query (D,) with float16 rows (n, D): (n,), exactly or by the query's upper half alone."""
    upper = query.astype(np.float16)
    found: FloatArray = np.asarray(nk.dot(rows, upper[None]), np.float32)
    if exact:
        with np.errstate(invalid="ignore"):  # of damaged rows, which are told afterwards
            found = found + np.asarray(nk.dot(rows, (query - upper).astype(np.float16)[None]), np.float32)
    return found.reshape(len(rows))
