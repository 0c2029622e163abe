"""Codes of frame vectors: a byte a number in a file beside the float16 matrix, scanned to find the clips worth scoring.

Layout: a header line padded to 64 bytes, then the rows without gaps, each D int8 codes and its scale, a little-endian
float32: a row's code is the row divided by its scale, rounded, and the scale is its largest number over 127. The file
is derived: where it is missing, short, of another version or damaged it is made anew from the matrix, and takes its
name only when it is whole, so that a reader which has mapped the old one goes on.

A similarity by codes differs from that of the float16 row by the sum of D rounding errors, each at most half a step of
the row's or the query's scale. `Codes.error` gives eight standard deviations of that sum.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numkong as nk
import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices, slices
from evenreel.errors import LibraryError
from evenreel.files import sync_folder
from evenreel.library.store.cores import share_out
from evenreel.types import FloatArray

HEADER_BYTES = 64
VERSION = 1
LARGEST = 127
"""The largest code; -128 is not used, so that codes are as many above zero as below."""

ROWS_AT_ONCE = 16_384
"""Rows of one call of the kernel: 8 MB of codes at 512 dimensions, and a share of the work of one core."""

DEVIATIONS = 8.0
"""Standard deviations of the rounding errors' sum that `Codes.error` allows: 1 in 10^15 is further off."""

FEW_QUERIES = 2
"""Number of queries up to which a pass for each is faster than one pass for all (measured)."""

HalfArray = NDArray[np.float16]


@dataclass(frozen=True)
class ClipTile:
    """Neighbouring clips of a request that are scored together, in the order of the file.

    Attributes:
        clips: (P,) place of each in the request.
        first_rows: (P,) first row of each in the file.
        counts: (P,) rows of each.
    """

    clips: Indices
    first_rows: Indices
    counts: Indices

    @property
    def starts(self) -> Indices:
        """Where each clip begins inside the tile, (P,)."""
        return np.cumsum(self.counts) - self.counts

    def rows_of(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Return the tile's rows of a matrix (N, ...): a view where they lie side by side, else a copy."""
        first, stop = int(self.first_rows[0]), int(self.first_rows[-1] + self.counts[-1])
        if np.array_equal(self.first_rows[1:], self.first_rows[:-1] + self.counts[:-1]):
            return matrix[first:stop]
        rows = np.repeat(self.first_rows - self.starts, self.counts) + np.arange(self.counts.sum())
        return np.take(matrix, rows, axis=0)


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


class Codes:
    """Codes of a library's vectors in one flat file; readers go on while a writer appends."""

    def __init__(self, path: Path, dimension: int) -> None:
        self.path, self._dimension = path, dimension
        self._row = np.dtype([("code", "i1", (dimension,)), ("scale", "<f4")])
        self._mapped: NDArray[Any] = np.empty(0, self._row)
        # Beside each other: read from between the codes they take half as long again.
        self._scales: FloatArray = np.empty(0, np.float32)

    @property
    def rows(self) -> int:
        """Number of whole rows in the file now; 0 where it cannot be read or has another version or dimension."""
        try:
            with self.path.open("rb") as file:
                if file.read(HEADER_BYTES) != self._header:
                    return 0
                return (os.fstat(file.fileno()).st_size - HEADER_BYTES) // self._row.itemsize
        except OSError:
            return 0

    def covers(self, needed: int) -> bool:
        """Tell whether the file can be scanned for the first `needed` rows; maps what a writer has added."""
        if needed > len(self._mapped):
            rows = self.rows
            if rows < needed:
                return False
            mapped = np.asarray(np.memmap(self.path, self._row, "r", HEADER_BYTES, (rows,)))[:needed]
            scales = mapped["scale"][len(self._scales) :]
            # Written so that NaN fails too.
            if not (scales.min() > 0 and scales.max() <= 1.01 / LARGEST):
                return False
            self._mapped, self._scales = mapped, np.concatenate([self._scales, scales])
        return True

    def write(self, rows: HalfArray, start: int) -> None:
        """Write the codes of rows (n, D) from row `start` on, which the file reaches."""
        if not start:
            self.rewrite(rows)
            return
        with self.path.open("r+b") as file:
            file.seek(HEADER_BYTES + start * self._row.itemsize)
            file.write(self.encode(rows).tobytes())
            file.flush()
            os.fsync(file.fileno())

    def rewrite(self, matrix: HalfArray) -> None:
        """Write the codes of a matrix (N, D) into a new file, which takes the place of the old one when it is whole."""
        written = self.path.with_name(f"{self.path.name}.tmp")
        try:
            with written.open("wb") as file:
                file.write(self._header)
                for part in slices(len(matrix), ROWS_AT_ONCE):
                    file.write(self.encode(matrix[part]).tobytes())
                file.flush()
                os.fsync(file.fileno())
            written.replace(self.path)
        finally:
            written.unlink(missing_ok=True)
        sync_folder(self.path.parent)
        self._mapped, self._scales = np.empty(0, self._row), np.empty(0, np.float32)

    def encode(self, rows: HalfArray) -> NDArray[np.void]:
        """Code rows (n, D) of unit length: (n,) records of `code` (D,) int8 and `scale`."""
        found = np.empty(len(rows), self._row)
        found["code"], found["scale"] = _coded(rows.astype(np.float32))
        return found

    def agree(self, rows: HalfArray, first_row: int) -> bool:
        """Tell whether the file has exactly the codes of rows (n, D) from `first_row` on."""
        stop = first_row + len(rows)
        return self.covers(stop) and self._mapped[first_row:stop].tobytes() == self.encode(rows).tobytes()

    def error(self, queries: FloatArray) -> FloatArray:
        """How far a similarity by codes may be from that of the float16 rows, for each query (Q, D): (Q,)."""
        _, scales = _coded(queries)
        deviation = np.sqrt((scales**2 + self._scales.max(initial=0) ** 2) / 12)
        bound: FloatArray = (DEVIATIONS * deviation + 1e-5).astype(np.float32)
        return bound

    def scan(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score queries (Q, D) by the best frame of each clip as `covers` has mapped them: (Q, C)."""
        best = np.full((len(queries), len(counts)), -np.inf, np.float32)
        if not best.size:
            return best
        codes, scales = _coded(queries)
        packed = nk.dots_pack(codes, "int8") if len(queries) > FEW_QUERIES else None
        # As plain bytes: picking rows out of records is three times slower.
        matrix = self._mapped.view(np.uint8).reshape(len(self._mapped), self._row.itemsize)

        def score(tile: ClipTile) -> None:
            rows = tile.rows_of(matrix).view(self._row)[:, 0]["code"]
            if packed is None:
                found = np.asarray(nk.cdist(codes, rows, "dot", out_dtype="float32"))
            else:
                found = np.asarray(nk.dots_packed(rows, packed)).T
            scales_here = tile.rows_of(self._scales)
            near = np.multiply(found, scales_here, dtype=np.float32, casting="same_kind", order="C")
            best[:, tile.clips] = np.maximum.reduceat(near, tile.starts, axis=1)

        share_out(score, list(clip_tiles(first_rows, counts, ROWS_AT_ONCE)))
        best *= scales[:, None]
        # Written so that NaN fails too.
        if not (best.min() > -1.1 and best.max() < 1.1):
            raise LibraryError(
                f"{self.path} holds codes of no vectors of unit length; "
                "run `evenreel verify --repair` to rebuild it from the shards."
            )
        return best

    @property
    def _header(self) -> bytes:
        said = f"evenreel codes {VERSION} int8 {self._dimension} and float32 scale\n"
        return said.encode().ljust(HEADER_BYTES, b" ")


def _coded(vectors: FloatArray) -> tuple[NDArray[np.int8], FloatArray]:
    """Codes (n, D) of vectors and their scales (n,)."""
    scales = np.maximum(np.abs(vectors).max(axis=1), np.float32(1e-30)) / np.float32(LARGEST)
    codes = np.rint(vectors / scales[:, None]).astype(np.int8)
    return codes, cast(FloatArray, scales)
