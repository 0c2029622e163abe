"""The channel `seen`: clips by their best frame, and the stretches of a clip that answer.

The channel `sounds` is the same over another matrix, whose rows are windows of sound (`Snapshot.of`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags
from evenreel.errors import LibraryError
from evenreel.library.search.hits import MomentHit
from evenreel.library.search.moments import high_stretches
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.store.vectors import FRAMES
from evenreel.types import FloatArray

DECIMALS = 5
"""Decimals of a similarity: those of float16 vectors have no more that mean something, and equal frames score alike."""


class ClipTimes(NamedTuple):
    """Times of a clip's frames, (T, 3): each and the stretch that it stands for; and of its shots, all in seconds."""

    spans_s: NDArray[np.float64]
    shots: Sequence[tuple[float, float]]


def score(s: Snapshot, vector: FloatArray, allowed: Flags) -> FloatArray:
    """Score the clips that are allowed (C,) by their best frame under a query (D,): (C,), -inf of all others."""
    found = np.full(len(s.there), -np.inf, np.float32)
    places = s.seen[allowed[s.seen]]
    if s.vectors is not None and len(places):
        best = s.vectors.best_per_clip(vector[None], s.first_rows[places], s.counts[places])[0]
        found[places] = np.round(best, DECIMALS)
    return found


def above(s: Snapshot, scores: FloatArray) -> Column | None:
    """Return the share of nonsense that clips beat, (C,), NaN of those not scored; None where it was not measured."""
    if not s.measured:
        return None
    scored = np.isfinite(scores)
    found = np.full(len(scores), np.nan)
    z = (scores[scored] - s.means[scored]) / s.deviations[scored]
    found[scored] = np.searchsorted(s.null_best, z, "left") / len(s.null_best)
    return found


def times_of(s: Snapshot, clip_ids: Sequence[str]) -> dict[str, ClipTimes]:
    """Read the times of clips."""
    spans: dict[str, list[tuple[float, float, float]]] = {clip_id: [] for clip_id in clip_ids}
    shots: dict[str, list[tuple[float, float]]] = {clip_id: [] for clip_id in clip_ids}
    sql = "SELECT clip_id, {} FROM json_each(?) AS wanted CROSS JOIN {} ON clip_id = wanted.value ORDER BY number"
    wanted = (json.dumps(list(clip_ids)),)
    for clip_id, *span in s.connection.execute(sql.format("time_s, start_s, end_s", s.of.moments), wanted):
        spans[clip_id].append(tuple(span))
    for clip_id, *shot in s.connection.execute(sql.format("start_s, end_s", "shots"), wanted) if s.of is FRAMES else ():
        shots[clip_id].append(tuple(shot))
    return {
        clip_id: ClipTimes(np.array(spans[clip_id], np.float64).reshape(-1, 3), shots[clip_id]) for clip_id in clip_ids
    }


def frames_of(s: Snapshot, place: int, times: ClipTimes) -> NDArray[np.float16]:
    """Read the vectors (T, D) of a clip; none of one without.

    Raises:
        LibraryError: it has another number of times than of vectors.
    """
    count = int(s.counts[place])
    if s.vectors is None or not count:
        return np.empty((0, 0), np.float16)
    if len(times.spans_s) != count:
        (clip_id,) = s.ids([place])
        raise LibraryError(
            f"The catalog has {len(times.spans_s)} moments of clip {clip_id} but {count} vectors; "
            "run `evenreel verify --repair`."
        )
    return s.vectors.read(int(s.first_rows[place]), count)


def stretches(s: Snapshot, vector: FloatArray, place: int, times: ClipTimes) -> list[MomentHit]:
    """Find the stretches of a clip that answer best; none of a clip without vectors."""
    if not len(frames_of(s, place, times)) or s.vectors is None:
        return []
    scores = s.vectors.frame_scores(vector, int(s.first_rows[place]), int(s.counts[place]))
    return high_stretches(scores, times.spans_s, times.shots)


def clip_vector(s: Snapshot, clip_id: str, time_s: float | None) -> FloatArray | None:
    """Return the vector (D,) of a clip's frame or window that is nearest to a time, or the mean of all."""
    (place,) = s.places([clip_id])
    times = times_of(s, [clip_id])[clip_id]
    frames = frames_of(s, place, times).astype(np.float32)
    if not len(frames):
        return None
    found: FloatArray = frames.mean(axis=0) if time_s is None else frames[np.abs(times.spans_s[:, 0] - time_s).argmin()]
    return found
