"""Clips that are unlike the rest, of a library or of one of its folders: its highlights.

They are chosen by farthest-first traversal (Gonzalez 1985, "Clustering to minimize the maximum intercluster distance"):
the first one is farthest from the mean of all, each further one farthest from the nearest that was chosen. So every
group of alike clips is shown once before any is shown twice, however large it is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenreel.arrays import Indices
from evenreel.errors import UsageError
from evenreel.library.search.filters import Filter, first_paths
from evenreel.library.search.seen import ClipTimes, frames_of, times_of
from evenreel.library.search.snapshot import Snapshot
from evenreel.types import FloatArray

MOST_COMPARED = 20_000
"""Most clips that are looked at; of more, so many that lie evenly among them."""
MOST_MOMENTS = 512
"""Most moments of a clip that its mean is of, evenly spread."""
ALIKE = 1e-4
"""Cosine distance below which two clips are one to float16 vectors."""


@dataclass(frozen=True)
class UnlikeClip:
    """A clip that is unlike those before it and the rest.

    Attributes:
        clip_id: its id.
        path: its first file by path, among those that pass the filter.
        duration_s: its length in seconds; None where it is not known.
        time_s: the moment that is nearest to its mean.
        apart: cosine distance to the mean of all clips, or to the nearest clip before it.
    """

    clip_id: str
    path: str
    duration_s: float | None
    time_s: float
    apart: float

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data, as `--json` prints it."""
        return asdict(self)


@dataclass(frozen=True)
class UnlikeClips:
    """Highlights, in the order in which they were chosen; `compared` of `total` clips were looked at."""

    clips: tuple[UnlikeClip, ...]
    compared: int
    total: int


def unlike_clips(s: Snapshot, where: Filter, k: int) -> UnlikeClips:
    """Choose at most k clips, of those that pass a filter, that are unlike the rest; clips alike are chosen once.

    Memory holds a vector of each of at most `MOST_COMPARED` clips.
    """
    if k < 1:
        raise UsageError(f"{k} highlights cannot be shown; ask for 1 or more.")
    if s.vectors is None:  # no clip with pictures
        return UnlikeClips((), 0, 0)
    places = s.seen[s.passing(where)[s.seen]]
    total = len(places)
    if total > MOST_COMPARED:
        places = places[np.linspace(0, total - 1, MOST_COMPARED).astype(np.int64)]
    if not total:
        return UnlikeClips((), 0, 0)
    means = np.stack([_mean(s, int(place)) for place in places])
    chosen, apart = farthest_first(means, k)
    ids = s.ids(places[chosen])
    paths, times = first_paths(s.connection, where, ids, there=True), times_of(s, ids)
    lengths = dict(s.connection.execute("SELECT clip_id, duration_s FROM clips").fetchall())
    clips = tuple(
        UnlikeClip(
            clip_id=clip_id,
            path=paths[clip_id],
            duration_s=lengths[clip_id],
            time_s=_typical_s(s, int(places[row]), times[clip_id], means[row]),
            apart=round(far, 5),
        )
        for clip_id, row, far in zip(ids, chosen.tolist(), apart, strict=True)
    )
    return UnlikeClips(clips, len(places), total)


def farthest_first(vectors: FloatArray, k: int) -> tuple[Indices, list[float]]:
    """Choose rows by farthest-first traversal; of equal ones the first, and none that is like one before it.

    Example:
        >>> rows, apart = farthest_first(np.array([[1, 0], [1, 0], [1, 0], [0, 1]], np.float32), 3)
        >>> rows.tolist(), round(apart[1], 3)
        ([3, 0], 1.0)
    """
    mean = vectors.mean(axis=0)
    mean /= max(float(np.linalg.norm(mean)), 1e-6)
    away, rows, apart = 1 - vectors @ mean, list[int](), list[float]()
    nearest = np.full(len(vectors), np.inf, np.float32)
    while len(rows) < min(k, len(vectors)):
        row = int(np.argmax(np.round(away, 6)))
        if rows and away[row] < ALIKE:
            break
        rows.append(row)
        apart.append(max(0.0, float(away[row])))
        nearest = np.minimum(nearest, 1 - vectors @ vectors[row])
        away = nearest
    return np.array(rows, np.int64), apart


def _mean(s: Snapshot, place: int) -> FloatArray:
    """The mean vector of a clip, (D,), of unit length."""
    frames = _frames(s, place)
    mean: FloatArray = frames.mean(axis=0)
    return mean / max(float(np.linalg.norm(mean)), 1e-6)


def _frames(s: Snapshot, place: int) -> FloatArray:
    assert s.vectors is not None  # there are means
    count = int(s.counts[place])
    return s.vectors.read(int(s.first_rows[place]), count)[:: -(-count // MOST_MOMENTS)].astype(np.float32)


def _typical_s(s: Snapshot, place: int, times: ClipTimes, mean: FloatArray) -> float:
    frames_of(s, place, times)  # as many as it has times
    step = -(-int(s.counts[place]) // MOST_MOMENTS)
    return float(times.spans_s[::step, 0][int(np.argmax(_frames(s, place) @ mean))])
