"""The clips of a library that have frames, and their scores under a query's vector."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.errors import LibraryError
from evenreel.library.search.nearest import NEAREST, ComparedClips, clip_scores
from evenreel.library.store import seals
from evenreel.library.store.confidence import DEVIATION_FLOOR, above_nonsense, load_null_best
from evenreel.library.store.vectors import VectorIndex
from evenreel.types import FloatArray

DECIMALS = 5
"""Decimals of a similarity; those of float16 vectors have no more that mean something."""


@dataclass(frozen=True)
class FrameGallery:
    """Every clip with frames, in the order of the vector file; arrays are (C,).

    `means` and `deviations` are of the scores of nonsense queries on each clip; `null_best` (N,), sorted, has the best
    z of each in the library, and is empty where it was not measured or is damaged.
    """

    clip_ids: Sequence[str]
    place: Mapping[str, int]
    first_rows: Indices
    counts: Indices
    means: FloatArray
    deviations: FloatArray
    null_best: FloatArray

    @property
    def measured(self) -> bool:
        """True if nonsense queries, which no video answers, were scored: searches need it to say which clips fit."""
        return len(self.null_best) > 0


@dataclass(frozen=True, eq=False)
class Opened:
    """Snapshot of an open library.

    Attributes:
        folder: folder of the library; None for one in memory.
        connection: connection to its catalog.
        gallery: the clips with frames.
        vectors: store of their frame vectors; None where the library has no vision.
    """

    folder: Path | None
    connection: sqlite3.Connection
    gallery: FrameGallery
    vectors: VectorIndex | None


@dataclass(frozen=True)
class FrameRanking:
    """Scores and ranks of the clips of a gallery by their frames; arrays are (C,).

    `scores` is each clip's best similarity, -inf for a clip that was left out; equal scores share a rank, the
    best is 1; `above_nonsense` is the share of nonsense queries that the clip beats, None where that says nothing.
    """

    scores: FloatArray
    ranks: NDArray[np.int64]
    above_nonsense: NDArray[np.float64] | None


def load_gallery(connection: sqlite3.Connection) -> FrameGallery:
    """Read the clips with frames, the rows of their vectors, and the scores of nonsense on them.

    Raises:
        sqlite3.DatabaseError: the table of the vectors' rows is damaged.
    """
    rows = connection.execute(
        "SELECT vector_rows.clip_id, first_row, count, mean, deviation FROM vector_rows"
        " LEFT JOIN null_scores ON null_scores.clip_id = vector_rows.clip_id ORDER BY first_row"
    ).fetchall()
    ids, first_rows, counts, means, deviations = zip(*rows, strict=True) if rows else ((),) * 5
    rows_of, scores = np.array([first_rows, counts], np.int64), np.array([means, deviations], np.float64)
    if not seals.fits(connection, "vector_rows", ids, *rows_of):
        raise sqlite3.DatabaseError("its rows of the vector matrix are not what was written")
    measured = ~np.isnan(scores[0])
    sound = seals.fits(connection, "null_scores", list(compress(ids, measured)), *scores[:, measured])
    return FrameGallery(
        clip_ids=ids,
        place={clip_id: place for place, clip_id in enumerate(ids)},
        first_rows=rows_of[0],
        counts=rows_of[1],
        means=_filled(scores[0].astype(np.float32), 0.0),
        deviations=_filled(scores[1].astype(np.float32), DEVIATION_FLOOR),
        null_best=load_null_best(connection) if sound else np.empty(0, np.float32),
    )


def look(
    gallery: FrameGallery,
    vectors: VectorIndex,
    query: FloatArray,
    allowed: Container[str],
    nearest: int = NEAREST,
) -> FrameRanking:
    """Score the allowed clips of a gallery under one query (D,).

    In a large gallery the scores and ranks of the `nearest` clips are exact, also by z, and for every clip whether it
    fits or may fit; the scores of the others are by codes (see `evenreel.library.search.nearest`).

    Raises:
        LibraryError: the vectors cannot be read.
    """
    chosen = np.flatnonzero([clip_id in allowed for clip_id in gallery.clip_ids])
    rows = gallery.first_rows[chosen], gallery.counts[chosen]
    clips = ComparedClips(*rows, gallery.means[chosen], gallery.deviations[chosen], gallery.null_best)
    found = clip_scores(clips, vectors, query, nearest)
    scores = np.full(len(gallery.clip_ids), -np.inf, np.float32)
    # Equal frames must give equal scores, wherever a matrix product's blocks put them.
    scores[chosen] = found = np.round(found, DECIMALS)
    ranks = np.searchsorted(np.sort(-found), -scores, "left") + 1
    return FrameRanking(scores, ranks, above_nonsense((scores - gallery.means) / gallery.deviations, gallery.null_best))


def spans_of(connection: sqlite3.Connection, clip_id: str, count: int) -> NDArray[np.float64]:
    """Read the time of each of a clip's frames, and start and end of the stretch it stands for: (count, 3).

    Raises:
        LibraryError: the catalog has another number of them.
    """
    spans = connection.execute(
        "SELECT time_s, start_s, end_s FROM moments WHERE clip_id = ? ORDER BY number", (clip_id,)
    ).fetchall()
    if len(spans) != count:
        raise LibraryError(
            f"The catalog has {len(spans)} moments of clip {clip_id} but {count} vectors; run `evenreel repair`."
        )
    return np.array(spans, np.float64)


def clip_vector(opened: Opened, clip_id: str, time_s: float | None) -> FloatArray | None:
    """Return the vector (D,) of a clip's frame or window that is nearest to a time, or the mean of all.

    Returns:
        None where the clip has no vectors.

    Raises:
        LibraryError: the library is damaged.
    """
    place = opened.gallery.place.get(clip_id)
    if place is None or opened.vectors is None:
        return None
    first, count = int(opened.gallery.first_rows[place]), int(opened.gallery.counts[place])
    times_s = spans_of(opened.connection, clip_id, count)[:, 0]
    frames = opened.vectors.read(first, count).astype(np.float32)
    found: FloatArray = frames.mean(axis=0) if time_s is None else frames[np.abs(times_s - time_s).argmin()]
    return found


def _filled(values: FloatArray, where_none: float) -> FloatArray:
    """Clips that an indexer has just added are not measured yet: they get the average of the others."""
    known = values[~np.isnan(values)]
    return np.where(np.isnan(values), known.mean() if len(known) else where_none, values).astype(np.float32)
