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
from evenreel.library.search.allowed import read_allowed, shown_paths
from evenreel.library.search.filters import Filter
from evenreel.library.search.gallery import Opened
from evenreel.library.search.shown_clips import ShownClips
from evenreel.library.store.rows import clip_times
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


def unlike_clips(opened: Opened, where: Filter, k: int) -> UnlikeClips:
    """Choose at most k clips, of those that pass a filter, that are unlike the rest; clips alike are chosen once.

    Memory holds a vector of each of at most `MOST_COMPARED` clips.
    """
    if k < 1:
        raise UsageError(f"{k} highlights cannot be shown; ask for 1 or more.")
    if opened.vectors is None:  # no clip with pictures
        return UnlikeClips((), 0, 0)
    places = np.flatnonzero(read_allowed(opened.connection, opened.gallery.clip_ids, where).mask)
    total = len(places)
    if total > MOST_COMPARED:
        places = places[np.linspace(0, total - 1, MOST_COMPARED).astype(np.int64)]
    if not total:
        return UnlikeClips((), 0, 0)
    means = np.stack([_mean(opened, int(place)) for place in places])
    chosen, apart = farthest_first(means, k)
    ids = [opened.gallery.clip_ids[int(places[row])] for row in chosen]
    sound, _ = ShownClips(opened.connection).first_sound(iter(ids), len(ids))
    paths, shown = shown_paths(opened.connection, where, sound), ShownClips(opened.connection).of(sound)
    far = dict(zip(ids, zip(chosen.tolist(), apart, strict=True), strict=True))
    clips = tuple(
        UnlikeClip(
            clip_id=clip_id,
            path=paths[clip_id],
            duration_s=about.duration_s,
            time_s=_typical_s(opened, clip_id, means[far[clip_id][0]]),
            apart=round(far[clip_id][1], 5),
        )
        for clip_id, about in zip(sound, shown, strict=True)
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


def _mean(opened: Opened, place: int) -> FloatArray:
    """The mean vector of a clip, (D,), of unit length."""
    frames = _frames(opened, place)
    mean: FloatArray = frames.mean(axis=0)
    return mean / max(float(np.linalg.norm(mean)), 1e-6)


def _frames(opened: Opened, place: int) -> FloatArray:
    assert opened.vectors is not None  # there are means
    count = int(opened.gallery.counts[place])
    frames = opened.vectors.read(int(opened.gallery.first_rows[place]), count)
    step = -(-count // MOST_MOMENTS)
    return frames[::step].astype(np.float32)


def _typical_s(opened: Opened, clip_id: str, mean: FloatArray) -> float:
    place = opened.gallery.place[clip_id]
    count = int(opened.gallery.counts[place])
    (times,) = clip_times(opened.connection, [clip_id])
    times.check(clip_id, count)
    step = -(-count // MOST_MOMENTS)
    return float(times.spans_s[::step, 0][int(np.argmax(_frames(opened, place) @ mean))])
