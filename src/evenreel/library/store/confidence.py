"""Confidence of a similarity in one library, measured against queries that no video answers.

Raw similarities have no common scale: nonsense scores 0.21 where a good query scores 0.26, and both depend
on the model, the library and the length of the clip. So a bank of nonsense (`null_queries.txt`) is scored
against every clip. A query's score on a clip becomes z = (score - mean) / deviation over the bank's scores on
that clip; and the best z that each nonsense query reaches anywhere in the library is the yardstick for the
best z of a real one: `above_nonsense` is the share of nonsense that stays below.

The rule `above_nonsense >= MAY_FIT` puts a clip before the line of weaker matches. It does so for a query from
the bank's own distribution with probability (1 + N - ceil(0.9 N)) / (1 + N), 10.4 % for N = 200: the new query and
the N of the bank are exchangeable, so every rank of it among them is equally likely (split conformal prediction;
Vovk et al. 2005, section 2.2). For that, a bank query's own score is left out of the mean and the deviation that it
is measured with. With FITS, from which a clip stands before all others, it is 5.5 %. Either is
a false alarm rate of nonsense; neither says how likely an answer is to be right.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
from collections.abc import Mapping
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.library.store.catalog import get_meta, set_meta
from evenreel.library.store.fulltext import note_clips
from evenreel.library.store.vectors import FRAMES, ExactVectors, Matrix
from evenreel.types import Encoder, FloatArray

FITS = 0.95
MAY_FIT = 0.90
"""Shares of nonsense that a clip has to beat: to stand before others, and to be no weaker match."""

DEVIATION_FLOOR = 1e-3
DECIMALS = 9
"""Cosines of float16 vectors that differ by less are equal; z stays finite where all nonsense is alike."""

CLIPS_AT_ONCE = 4096

NOTED = {"null_bank", "null_vectors", "null_best", "null_clips"}
"""Entries of `meta`: which queries were encoded by which model, their vectors, their best z, on how many clips."""

UNIT_TOLERANCE = 0.01
"""How far the length of an encoded query may be from 1."""


@cache
def null_queries() -> tuple[str, ...]:
    """Return the bank of nonsense queries: N captions that no video answers, to compare scores of real queries with."""
    text = resources.files("evenreel.library.store").joinpath("null_queries.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def above_nonsense(z: FloatArray, null_best: FloatArray) -> NDArray[np.float64]:
    """Return the share of nonsense queries whose best z in the library is below z.

    Example:
        >>> above_nonsense(np.array([0.5, 2.5, 9.0]), np.array([1.0, 2.0, 3.0, 4.0])).tolist()
        [0.0, 0.5, 1.0]
    """
    below: NDArray[np.float64] = np.searchsorted(null_best, z, "left") / max(1, len(null_best))
    return below


def update_null_scores(
    connection: sqlite3.Connection, vectors: ExactVectors, encoder: Encoder, of: Matrix = FRAMES
) -> None:
    """Update the scores of nonsense queries on the clips of a matrix (such as table `null_scores`), and their best z.

    Only clips that are new are scored; everything is measured anew after a clip was removed (the best of the rest is
    not known), or when the bank or the encoder has changed. The caller's transaction holds it all.
    """
    measure_nonsense(connection, vectors, _null_vectors(connection, encoder, of), of)


def measure_nonsense(
    connection: sqlite3.Connection, vectors: ExactVectors, queries: FloatArray, of: Matrix = FRAMES
) -> None:
    """Score encoded nonsense queries on the library's clips that are not scored yet, and store scores and best z."""
    best = _known_best(connection, of)
    if best is None:
        connection.execute(f"DELETE FROM {of.nulls}")
        best = np.full(len(queries), -np.inf, np.float32)
    todo = connection.execute(
        f"SELECT clip_id, first_row, count FROM {of.rows}"
        f" WHERE clip_id NOT IN (SELECT clip_id FROM {of.nulls}) ORDER BY first_row"
    ).fetchall()
    for start in range(0, len(todo), CLIPS_AT_ONCE):
        best = np.maximum(best, _measure(connection, vectors, queries, todo[start : start + CLIPS_AT_ONCE], of))
    measured = connection.execute(f"SELECT count(*) FROM {of.nulls}").fetchone()[0]
    # In the bank's order, so that a later run can go on from it.
    stored = best.astype(float).tolist() if measured else []
    set_meta(connection, of.named({"null_best": json.dumps(stored), "null_clips": str(measured)}))


def null_scores_hold(connection: sqlite3.Connection, of: Matrix = FRAMES) -> bool:
    """Return whether the stored scores of nonsense queries are of exactly the clips in the library now.

    The encoded nonsense queries must be stored too, for clips that are added.
    """
    (clips,) = connection.execute(f"SELECT count(*) FROM {of.rows}").fetchone()
    (measured,) = connection.execute(f"SELECT count(*) FROM {of.rows} JOIN {of.nulls} USING (clip_id)").fetchone()
    meta = of.own(get_meta(connection))
    if clips != measured or meta.get("null_clips", "0") != str(clips):
        return False
    return not clips or meta.keys() >= NOTED


def load_null_best(meta: Mapping[str, str]) -> FloatArray:
    """Read the best z of each nonsense query in this library, (N,), sorted; (0,) where it is not known."""
    return np.sort(np.array(json.loads(meta.get("null_best", "[]")), np.float32))


def _null_vectors(connection: sqlite3.Connection, encoder: Encoder, of: Matrix) -> FloatArray:
    """The encoded bank (N, D): kept in the library, so that a text tower runs over it once."""
    digest = _bank_digest(encoder.weights_hash)
    meta = of.own(get_meta(connection))
    if meta.get("null_bank") != digest or not len(known := _decoded(meta.get("null_vectors", ""), encoder.dimension)):
        encoded = encoder.encode_text(null_queries()).sentence.astype("<f2")
        noted = base64.b64encode(encoded.tobytes()).decode()
        set_meta(connection, of.named({"null_bank": digest, "null_vectors": noted, "null_clips": "unknown"}))
        known = encoded.astype(np.float32)
    return known


def bank_of(connection: sqlite3.Connection, of: Matrix = FRAMES) -> FloatArray | None:
    """Read the bank of nonsense queries (N, D) as the model of a matrix encoded it for this library.

    None where it must be encoded.
    """
    meta = of.own(get_meta(connection))
    known = _decoded(meta.get("null_vectors", ""), int(meta.get("dimension", "0")))
    same = meta.get("null_bank") == _bank_digest(meta.get("weights_hash", ""))
    return known if same and len(known) else None


def _bank_digest(weights_hash: str) -> str:
    return hashlib.sha256("\n".join((weights_hash, *null_queries())).encode()).hexdigest()


def _decoded(stored: str, dimension: int) -> FloatArray:
    """The bank (N, D) in text; (0, D) where that is not what was written, which the lengths of vectors tell too."""
    nothing = np.empty((0, dimension), np.float32)
    try:
        vectors = np.frombuffer(base64.b64decode(stored, validate=True), "<f2").astype(np.float32)
    except ValueError:
        return nothing
    if vectors.size != len(null_queries()) * dimension:
        return nothing
    bank = vectors.reshape(-1, dimension)
    return bank if np.all(np.abs(np.linalg.norm(bank, axis=1) - 1) < UNIT_TOLERANCE) else nothing


def _known_best(connection: sqlite3.Connection, of: Matrix) -> FloatArray | None:
    """What earlier runs found, in the bank's order; None where it no longer holds for the clips left."""
    connection.execute(f"DELETE FROM {of.nulls} WHERE clip_id NOT IN (SELECT clip_id FROM {of.rows})")
    meta = of.own(get_meta(connection))
    measured = connection.execute(f"SELECT count(*) FROM {of.nulls}").fetchone()[0]
    if not measured or meta.get("null_clips") != str(measured) or "null_best" not in meta:
        return None
    best = np.array(json.loads(meta["null_best"]), np.float32)
    return best if len(best) == len(null_queries()) else None


def _measure(
    connection: sqlite3.Connection,
    vectors: ExactVectors,
    queries: FloatArray,
    clips: list[tuple[str, int, int]],
    of: Matrix,
) -> FloatArray:
    """Score nonsense on some clips and store their means and deviations; the best z of each query (N,)."""
    ids, first_rows, counts = zip(*clips, strict=True)
    means, deviations, best = score_nonsense(vectors, queries, np.array(first_rows), np.array(counts))
    connection.executemany(
        f"INSERT INTO {of.nulls} (clip_id, mean, deviation) VALUES (?, ?, ?)",
        zip(ids, means.tolist(), deviations.tolist(), strict=True),
    )
    note_clips(connection, ids)
    return best


def as_one_of(shares: NDArray[np.float64], models: int) -> NDArray[np.float64]:
    """Return the share of nonsense that clips beat by one of M models, such that a false alarm is no more frequent.

    The share that is not beaten counts M times (Bonferroni).

    >>> as_one_of(np.array([0.975, 1.0, 0.9]), 2).tolist()
    [0.95, 1.0, 0.8]
    """
    if models == 1:
        return shares
    return np.maximum(0.0, 1 - models * (1 - shares)).round(DECIMALS)


def score_nonsense(
    vectors: ExactVectors, queries: FloatArray, first_rows: Indices, counts: Indices
) -> tuple[NDArray[np.float64], NDArray[np.float64], FloatArray]:
    """Compute mean and deviation of the scores of nonsense (N, D) on clips given by their rows (C,), (C,)."""
    scores = vectors.best_per_clip(queries, first_rows, counts).astype(np.float64)
    best: FloatArray = left_out_z(scores).max(1).astype(np.float32)
    return scores.mean(0), np.maximum(scores.std(0), DEVIATION_FLOOR), best


def left_out_z(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute each nonsense query's z on each clip, by the mean and deviation of all *other* nonsense queries."""
    n = len(scores)
    off = scores - scores.mean(0)
    # Without one of n numbers the mean moves by off / (n - 1), the sum of squares by off^2 n / (n - 1).
    squares = (off**2).sum(0) - off**2 * n / (n - 1)
    deviations = np.sqrt(np.maximum(squares / (n - 1), DEVIATION_FLOOR**2))
    z: NDArray[np.float64] = off * n / (n - 1) / deviations
    return z
