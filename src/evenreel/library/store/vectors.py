"""Vectors of a library, and how high nonsense scores on them.

One append-only float16 matrix of its frames, one of its sounds and one of what its texts mean, each a flat file: a
header line padded to 64 bytes, then the rows, little-endian float16, without gaps. The catalog says which rows count;
what lies beyond the last row that it names was left by a crash and is written over.

Raw similarities have no common scale: they depend on the model, the library and the length of the clip. So a bank of
nonsense (`null_queries.txt`) is scored against every clip. A query's score on a clip becomes z = (score - mean) /
deviation over the bank's scores on that clip; and the best z that each nonsense query reaches anywhere in the library
is the yardstick for the best z of a real one: the share of nonsense that stays below (`above_nonsense`).

The rule `above_nonsense >= MAY_FIT` puts a clip before the line of weaker matches. It does so for a query from the
bank's own distribution with probability (1 + N - ceil(0.9 N)) / (1 + N), 10.4 % for N = 200 (5.5 % with FITS): the new
query and the N of the bank are exchangeable, so every rank of it among them is equally likely (split conformal
prediction; Vovk et al. 2005, section 2.2). For that, a bank query's own score is left out of the mean and the deviation
that it is measured with. This is a false alarm rate of nonsense, and not how likely an answer is to be right.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numkong as nk
import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.errors import LibraryError
from evenreel.files import replacing, sync_folder
from evenreel.library.store.catalog import get_meta, set_meta
from evenreel.library.store.fulltext import note_clips
from evenreel.types import FloatArray, TextEncoder

HEADER_BYTES = 64
TILE_ROWS = 2048
"""Rows that are float32 at one time: 4 MB at 512 dimensions; fewer cost calls, more leave the cache (measured)."""
SCANNED_ROWS = 16_384  # rows of one call for a single query, which are read as they are
EXACT_ROWS = 10_000  # rows up to which what float16 cuts off a single query counts too: it takes as long again

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
MEANINGS = Matrix("meanings", "meaning_", "", "meaning_rows", "meaning_null_scores")
"""Of windows of text, which the texts themselves say again (`evenreel.library.store.meanings`)."""
MATRICES = (FRAMES, SOUNDS, MEANINGS)


class ExactVectors:
    """Vectors of a library in one flat file; readers go on while a writer appends."""

    def __init__(self, path: Path, dimension: int) -> None:
        self.dimension = dimension  # D, the length of a vector
        self._path, self._row_bytes = path, 2 * dimension
        self._header = f"evenreel vectors 1 float16 {dimension}\n".encode().ljust(HEADER_BYTES, b" ")
        self._mapped: HalfArray = np.empty((0, dimension), np.float16)
        self._scanned = self._mapped  # a map of the first rows whose pages are there: a new one has each looked up anew

    @property
    def rows(self) -> int:
        """Number of complete rows in the file now, also those that the catalog does not name."""
        size = self._path.stat().st_size if self._path.exists() else 0
        return max(0, size - HEADER_BYTES) // self._row_bytes

    def append(self, vectors: FloatArray, at_row: int | None = None) -> int:
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise LibraryError(
                f"Vectors of shape {vectors.shape} do not fit a library of dimension {self.dimension}; "
                "index with the encoder that the library was made with."
            )
        norms = np.linalg.norm(vectors.astype(np.float32), axis=1)
        if not np.all(np.abs(norms - 1) < 0.01):  # so written that NaN fails too
            raise LibraryError(
                "The encoder gave a vector that is not of unit length (zero, NaN or infinite); nothing was stored."
            )
        first = self.rows if at_row is None else at_row
        if first:
            self._check_holds(first)
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
        most = TILE_ROWS if several else SCANNED_ROWS
        for clips, rows, edges in _tiles(self._scanned, matrix, first_rows, counts, most):
            found = queries @ widened(rows).T if several else _products(queries[0], rows, exact=exact)[None]
            within = edges[:-1] if edges[-1] == len(rows) else edges  # the last clip may end where the rows do
            best[:, clips] = np.maximum.reduceat(found, within, axis=1)[:, ::2]
        self._check(best)
        return best

    def frame_scores(self, query: FloatArray, first_row: int, count: int) -> FloatArray:
        scores = _products(query, self._matrix(first_row + count)[first_row : first_row + count])
        self._check(scores)
        return scores

    def read(self, first_row: int, count: int) -> HalfArray:
        return self._matrix(first_row + count)[first_row : first_row + count]

    def _matrix(self, needed: int) -> HalfArray:
        """The mapped rows, at least `needed` of them; mapped again when a writer has added some."""
        if needed > len(self._mapped):
            self._check_holds(needed)
            if len(self._mapped) > len(self._scanned) + SCANNED_ROWS or not len(self._scanned):
                self._scanned = self._mapped
            # A plain array over the map: slicing a memmap costs more than scoring a short clip.
            self._mapped = np.asarray(np.memmap(self._path, "<f2", "r", HEADER_BYTES, (self.rows, self.dimension)))
        return self._mapped

    def _check_holds(self, needed: int) -> None:
        if needed > self.rows:
            raise self._broken(f"holds {self.rows} vectors but the catalog names {needed}")
        with self._path.open("rb") as file:
            found = file.read(HEADER_BYTES)
        if found != self._header:
            what = f"does not hold vectors of dimension {self.dimension} (it begins {found[:32]!r})"
            raise self._broken(what)

    def _check(self, scores: FloatArray) -> None:
        """Refuse scores that vectors of unit length cannot have; so written that NaN fails too."""
        if scores.size and not (scores.min() > -1.1 and scores.max() < 1.1):
            raise self._broken("holds vectors that are not of unit length")

    def _broken(self, what: str) -> LibraryError:
        return LibraryError(f"{self._path} {what}; run `evenreel verify --repair` to rebuild it from the shards.")


def _tiles(
    known: HalfArray, matrix: HalfArray, first_rows: Indices, counts: Indices, most: int
) -> Iterator[tuple[Indices, HalfArray, Indices]]:
    """Cut clips, given by first row and count (C,), (C,), into tiles of at most `most` rows or one clip.

    Yields the places of neighbouring clips (P,), rows (N, D) with theirs, of `known` where that has them, and where
    each begins and ends there (2 P,): a view where they have most of the rows in between, else a copy.
    """
    order = np.argsort(first_rows, kind="stable")
    first_rows, counts = first_rows[order], counts[order]
    ends, start = np.cumsum(counts), 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] - counts[start] + most, "right")))
        first, count = first_rows[start:stop], counts[start:stop]
        low, high, last = int(first[0]), int(first[-1] + count[-1]), np.cumsum(count)
        source = known if high <= len(known) else matrix
        if 2 * count.sum() > high - low:
            yield order[start:stop], source[low:high], np.stack([first, first + count], 1).ravel() - low
        else:
            rows = np.repeat(first - (last - count), count) + np.arange(last[-1])
            yield order[start:stop], np.take(source, rows, axis=0), np.stack([last - count, last], 1).ravel()
        start = stop


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


# How high nonsense scores --------------------------------------------------------------------------------------------

FITS = 0.95
MAY_FIT = 0.90  # shares of nonsense that a clip has to beat: to stand before others, and to be no weaker match

DEVIATION_FLOOR = 1e-3
DECIMALS = 9  # cosines of float16 vectors that differ by less are equal; z stays finite where all nonsense is alike

CLIPS_AT_ONCE = 4096
KEPT_FROM_S = 1.0  # processor time of encoding the bank from which it is kept for other libraries


@cache
def null_queries() -> tuple[str, ...]:
    """Return the bank of nonsense queries: N captions that no video answers, to compare scores of real queries with."""
    text = resources.files("evenreel.library.store").joinpath("null_queries.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def update_null_scores(
    connection: sqlite3.Connection, vectors: ExactVectors, encoder: TextEncoder | None, of: Matrix = FRAMES
) -> bool:
    """Update the scores of nonsense queries on the clips of a matrix, and their best z, in the caller's transaction.

    Only new clips are scored, and all anew where one went (the best of the rest is not known) or the encoder changed.
    Without an encoder it is done by what the library's own has encoded; returns False where there is none.
    """
    meta = of.own(get_meta(connection))
    weights_hash = meta.get("weights_hash", "") if encoder is None else encoder.weights_hash
    queries = _stored_bank(meta, weights_hash, vectors.dimension)
    if queries is None:
        if encoder is None:
            return False
        encoded = _encoded_bank(encoder)
        noted = {
            "null_bank": _bank_digest(encoder.weights_hash),
            "null_vectors": base64.b64encode(encoded.tobytes()).decode(),
            "null_clips": "unknown",
        }
        set_meta(connection, of.named(noted))
        queries = encoded.astype(np.float32)
    _measure(connection, vectors, queries, of)
    return True


def _measure(connection: sqlite3.Connection, vectors: ExactVectors, queries: FloatArray, of: Matrix) -> None:
    """Score encoded nonsense queries on the library's clips that are not scored yet, and store scores and best z."""
    connection.execute(f"DELETE FROM {of.nulls} WHERE clip_id NOT IN (SELECT clip_id FROM {of.rows})")
    meta, known = of.own(get_meta(connection)), connection.execute(f"SELECT count(*) FROM {of.nulls}").fetchone()[0]
    best = np.array(json.loads(meta.get("null_best", "[]")), np.float32)
    if not known or meta.get("null_clips") != str(known) or len(best) != len(queries):  # for the clips that are left
        connection.execute(f"DELETE FROM {of.nulls}")
        best = np.full(len(queries), -np.inf, np.float32)
    todo = connection.execute(
        f"SELECT clip_id, first_row, count FROM {of.rows}"
        f" WHERE clip_id NOT IN (SELECT clip_id FROM {of.nulls}) ORDER BY first_row"
    ).fetchall()
    for start in range(0, len(todo), CLIPS_AT_ONCE):
        ids, first_rows, counts = zip(*todo[start : start + CLIPS_AT_ONCE], strict=True)
        scores = vectors.best_per_clip(queries, np.array(first_rows), np.array(counts)).astype(np.float64)
        best = np.maximum(best, left_out_z(scores).max(1).astype(np.float32))
        means, deviations = scores.mean(0), np.maximum(scores.std(0), DEVIATION_FLOOR)
        connection.executemany(
            f"INSERT INTO {of.nulls} (clip_id, mean, deviation) VALUES (?, ?, ?)",
            zip(ids, means.tolist(), deviations.tolist(), strict=True),
        )
        note_clips(connection, ids)
    measured = connection.execute(f"SELECT count(*) FROM {of.nulls}").fetchone()[0]
    # In the bank's order, so that a later run can go on from it.
    stored = best.astype(float).tolist() if measured else []
    set_meta(connection, of.named({"null_best": json.dumps(stored), "null_clips": str(measured)}))


def null_scores_hold(connection: sqlite3.Connection, of: Matrix = FRAMES) -> bool:
    """Return whether the bank is stored, and its scores are of exactly the clips in the library now."""
    (clips,) = connection.execute(f"SELECT count(*) FROM {of.rows}").fetchone()
    (measured,) = connection.execute(f"SELECT count(*) FROM {of.rows} JOIN {of.nulls} USING (clip_id)").fetchone()
    meta = of.own(get_meta(connection))
    is_measured = clips == measured and meta.get("null_clips", "0") == str(clips)
    return is_measured and (not clips or meta.keys() >= {"null_bank", "null_vectors", "null_best", "null_clips"})


def load_null_best(meta: Mapping[str, str]) -> FloatArray:
    """Read the best z of each nonsense query in this library, (N,), sorted; (0,) where it is not known."""
    return np.sort(np.array(json.loads(meta.get("null_best", "[]")), np.float32))


def _encoded_bank(encoder: TextEncoder) -> HalfArray:
    """The bank (N, D) as a model encodes it; of a slow one kept in the cache folder, for all libraries of a person."""
    from platformdirs import user_cache_path

    path = user_cache_path("evenreel") / "nonsense" / _bank_digest(encoder.weights_hash)
    with suppress(OSError, ValueError):
        seal, stored = (held := path.read_bytes())[:32], held[32:]
        if seal == hashlib.sha256(stored).digest():
            return np.frombuffer(stored, "<f2").reshape(len(null_queries()), encoder.dimension)
    began_s = time.process_time()
    encoded: HalfArray = encoder.encode_text(null_queries()).sentence.astype("<f2")
    if time.process_time() - began_s >= KEPT_FROM_S:
        with suppress(OSError), replacing(path) as part:
            part.write_bytes(hashlib.sha256(encoded.tobytes()).digest() + encoded.tobytes())
    return encoded


def _bank_digest(weights_hash: str) -> str:
    return hashlib.sha256("\n".join((weights_hash, *null_queries())).encode()).hexdigest()


def _stored_bank(meta: Mapping[str, str], weights_hash: str, dimension: int) -> FloatArray | None:
    """The bank (N, D); None where it is another model's, or not what was written, which lengths of vectors tell too."""
    with suppress(ValueError):
        stored = base64.b64decode(meta.get("null_vectors", ""), validate=True)
        bank: FloatArray = np.frombuffer(stored, "<f2").astype(np.float32).reshape(len(null_queries()), dimension)
        is_unit = np.all(np.abs(np.linalg.norm(bank, axis=1) - 1) < 0.01)
        return bank if is_unit and meta.get("null_bank") == _bank_digest(weights_hash) else None
    return None


def as_one_of(shares: NDArray[np.float64], models: int) -> NDArray[np.float64]:
    """Return the share of nonsense that clips beat by one of M models, such that a false alarm is no more frequent.

    The share that is not beaten counts M times (Bonferroni).

    >>> as_one_of(np.array([0.975, 1.0, 0.9]), 2).tolist()
    [0.95, 1.0, 0.8]
    """
    if models == 1:
        return shares
    return np.maximum(0.0, 1 - models * (1 - shares)).round(DECIMALS)


def left_out_z(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute each nonsense query's z on each clip, by the mean and deviation of all *other* nonsense queries."""
    n = len(scores)
    off = scores - scores.mean(0)
    # Without one of n numbers the mean moves by off / (n - 1), the sum of squares by off^2 n / (n - 1).
    squares = (off**2).sum(0) - off**2 * n / (n - 1)
    deviations = np.sqrt(np.maximum(squares / (n - 1), DEVIATION_FLOOR**2))
    z: NDArray[np.float64] = off * n / (n - 1) / deviations
    return z
