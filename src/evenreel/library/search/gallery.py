"""The clips of a library that have frames, and their scores under a query's vector."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Flags, Indices
from evenreel.library.search.allowed import AllowedClips
from evenreel.library.search.compact_ids import ClipIds, PlaceOf
from evenreel.library.search.hits import MomentHit
from evenreel.library.search.known_rows import ClipRows
from evenreel.library.search.moments import high_stretches
from evenreel.library.search.nearest import ComparedClips, ExactlyScored, clip_scores
from evenreel.library.store.confidence import DEVIATION_FLOOR, above_nonsense, load_null_best
from evenreel.library.store.rows import ClipTimes, clip_times
from evenreel.library.store.vectors import VectorIndex
from evenreel.types import FloatArray

DECIMALS = 5
"""Decimals of a similarity; those of float16 vectors have no more that mean something."""

RANKED_ALONE = 64
"""All clips are sorted to rank more than one of so many."""


@dataclass(frozen=True, eq=False)
class FrameGallery:
    """Every clip with frames, in the order of the vector file; arrays are (C,).

    `means` and `deviations` are of the scores of nonsense queries on each clip; `null_best` (N,), sorted, has the best
    z of each in the library, and is empty where it was not measured or is damaged.
    """

    clip_ids: ClipIds
    first_rows: Indices
    counts: Indices
    means: FloatArray
    deviations: FloatArray
    null_best: FloatArray

    @cached_property
    def place(self) -> Mapping[str, int]:
        """The place of each clip by its id."""
        return PlaceOf(self.clip_ids)

    @property
    def measured(self) -> bool:
        """True if nonsense queries, which no video answers, were scored: else no match is said to be weaker."""
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


@dataclass(frozen=True, eq=False)
class FrameRanking:
    """Scores and ranks of the clips of a gallery by their frames.

    Attributes:
        scores: (C,) each clip's best similarity, -inf for a clip that was left out.
        above_nonsense: (C,) share of nonsense queries that each clip beats; None where that says nothing.
        by_codes: (C,) which scores are to within the error of a scan; None where all are exact.
    """

    scores: FloatArray
    above_nonsense: NDArray[np.float64] | None
    by_codes: Flags | None = None

    @cached_property
    def searched(self) -> Flags:
        """Which clips were not left out, (C,)."""
        return np.isfinite(self.scores)

    @property
    def ranks(self) -> Indices:
        """The rank of every clip, (C,), see `ranks_of`."""
        return self.ranks_of(np.arange(len(self.scores)))

    def ranks_of(self, places: Indices) -> Indices:
        """Count for N clips those that are ranked before each, and one: (N,). Equal scores share a rank, from 1 on."""
        own, at = np.unique(self.scores[places], return_inverse=True)
        if len(own) * RANKED_ALONE > len(self.scores):
            at_most = np.asarray(np.searchsorted(np.sort(self.scores), own, "right"))
        else:
            at_most = np.bincount(np.searchsorted(own, self.scores, "left"), minlength=len(own) + 1).cumsum()[:-1]
        ranks: Indices = len(self.scores) - at_most[at] + 1
        return ranks

    def first(self, k: int, among: Flags | None = None) -> Indices:
        """Find the places of the first k clips, or of those among some (C,), and of all that equal the last of them."""
        places = np.flatnonzero(self.searched if among is None else among)
        if len(places) <= k:
            return places
        scores = self.scores[places]
        found: Indices = places[scores >= np.partition(scores, len(scores) - k)[len(scores) - k]]
        return found


@dataclass(frozen=True, eq=False)
class Sight:
    """What a model sees, or hears, for a query.

    Attributes:
        opened: the clips with vectors by the model.
        vector: (D,) the query, unit length.
        ranking: scores and ranks of the clips.
    """

    opened: Opened
    vector: FloatArray
    ranking: FrameRanking

    def stretches(self, clip_id: str, times: ClipTimes | None = None) -> list[MomentHit]:
        """Find the stretches of a clip that answer best; none of a clip without vectors."""
        gallery, vectors = self.opened.gallery, self.opened.vectors
        place = gallery.place.get(clip_id)
        if place is None or vectors is None:
            return []
        first, count = int(gallery.first_rows[place]), int(gallery.counts[place])
        if times is None:
            (times,) = clip_times(self.opened.connection, [clip_id])
        times.check(clip_id, count)
        return high_stretches(vectors.frame_scores(self.vector, first, count), times.spans_s, times.shots)


def load_gallery(connection: sqlite3.Connection, before: ClipRows | None = None) -> FrameGallery:
    """Read the clips with frames, the rows of their vectors, and the scores of nonsense on them."""
    rows = ClipRows() if before is None else before
    rows.refresh(connection)
    return FrameGallery(
        clip_ids=rows.clip_ids,
        first_rows=rows.first_rows,
        counts=rows.counts,
        means=_filled(rows.means.astype(np.float32), 0.0),
        deviations=_filled(rows.deviations.astype(np.float32), DEVIATION_FLOOR),
        null_best=load_null_best(connection),
    )


def look(
    gallery: FrameGallery,
    vectors: VectorIndex,
    query: FloatArray,
    allowed: AllowedClips,
    wanted: ExactlyScored,
) -> FrameRanking:
    """Score the allowed clips of a gallery under one query (D,).

    In a large gallery the scores and ranks of the nearest clips that are wanted are exact, also by z, the scores of the
    other wanted ones, and for every clip on which side of the line it stands; the scores of the others are by codes
    (see `evenreel.library.search.nearest`).
    """
    chosen = np.flatnonzero(allowed.mask_of(gallery.clip_ids))
    rows = gallery.first_rows[chosen], gallery.counts[chosen]
    clips = ComparedClips(*rows, gallery.means[chosen], gallery.deviations[chosen], gallery.null_best)
    named, places = np.zeros(len(gallery.clip_ids), np.bool_), gallery.clip_ids.places(wanted.also)
    named[places[places >= 0]] = True
    found = clip_scores(clips, vectors, query, wanted, np.flatnonzero(named[chosen]))
    scores = np.full(len(gallery.clip_ids), -np.inf, np.float32)
    scores[chosen] = _rounded(found.scores)
    by_codes = np.zeros(len(scores), np.bool_)
    by_codes[chosen] = ~found.exact
    z = (scores - gallery.means) / gallery.deviations
    return FrameRanking(scores, above_nonsense(z, gallery.null_best), by_codes)


def look_again(
    ranking: FrameRanking, gallery: FrameGallery, vectors: VectorIndex, query: FloatArray, places: Indices
) -> FrameRanking | None:
    """Score clips exactly that `look` has scored by codes."""
    if ranking.by_codes is None or not ranking.by_codes[places].any():
        return None
    again = np.unique(places[ranking.by_codes[places]])
    scores, by_codes = ranking.scores.copy(), ranking.by_codes.copy()
    scores[again] = _rounded(vectors.best_per_clip(query[None], gallery.first_rows[again], gallery.counts[again])[0])
    by_codes[again] = False
    above = ranking.above_nonsense
    if above is not None:
        z, above = (scores[again] - gallery.means[again]) / gallery.deviations[again], above.copy()
        above[again] = above_nonsense(z, gallery.null_best)
    return FrameRanking(scores, above, by_codes)


def _rounded(scores: FloatArray) -> FloatArray:
    """Equal frames must give equal scores, wherever a matrix product's blocks put them."""
    rounded: FloatArray = np.round(scores, DECIMALS)
    return rounded


def clip_vector(opened: Opened, clip_id: str, time_s: float | None) -> FloatArray | None:
    """Return the vector (D,) of a clip's frame or window that is nearest to a time, or the mean of all."""
    place = opened.gallery.place.get(clip_id)
    if place is None or opened.vectors is None:
        return None
    first, count = int(opened.gallery.first_rows[place]), int(opened.gallery.counts[place])
    (times,) = clip_times(opened.connection, [clip_id])
    times.check(clip_id, count)
    frames = opened.vectors.read(first, count).astype(np.float32)
    found: FloatArray = frames.mean(axis=0) if time_s is None else frames[np.abs(times.spans_s[:, 0] - time_s).argmin()]
    return found


def _filled(values: FloatArray, where_none: float) -> FloatArray:
    """Clips that an indexer has just added are not measured yet: they get the average of the others."""
    known = values[~np.isnan(values)]
    return np.where(np.isnan(values), known.mean() if len(known) else where_none, values).astype(np.float32)
