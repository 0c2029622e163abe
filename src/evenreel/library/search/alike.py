"""Clips compared with clips, by their stored moments: takes of one another, and what is unlike all the rest.

Nearly the same clips of a result, encoded anew, trimmed, cropped, or another take, stand under the best of them. Two
are compared by their moments in order, the shorter one laid along the longer at the shift that fits best, each moment
against the one that it falls on or those before and after it: their distance is 1 minus the mean cosine. How small it
has to be is measured in the library itself, as encoders spread their vectors differently: as near as moments of one
clip that follow each other usually are (`NEIGHBOURS`), and never farther apart than a small part of what lies between
any two clips (`OF_ANY_TWO`; `benchmarks/same_takes.py`). Clips in which other words are written are no takes.

The same recording, whole or a part of it, is told by how its moments change (`align`): what is left of both clips
without their means is laid along each other, at the times of both, and has to correlate (`SAME_FILM`). What another
codec, size or black border adds to all moments alike falls out, so that these may lie farther apart
(`FILM_OF_ANY_TWO`); the moments of a still camera change by chance alone, and tell nothing (`benchmarks/same_film.py`).

Highlights are chosen by farthest-first traversal (Gonzalez 1985, "Clustering to minimize the maximum intercluster
distance"): the first one is farthest from the mean of all, each further one farthest from the nearest that was chosen.
So every group of alike clips is shown once before any is shown twice, however large it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from evenreel.arrays import Column, Indices
from evenreel.errors import UsageError
from evenreel.library.search.filters import Filter, first_paths
from evenreel.library.search.result import FoldedHit, Hit, Kinship, SearchResult
from evenreel.library.search.seen import frames_of, times_of
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.store.vectors import HalfArray
from evenreel.types import FloatArray, Shown

NEIGHBOURS = 0.75  # share of all moments that follow each other in a clip which are nearer than takes may be
OF_ANY_TWO = 1 / 8  # part of the median distance of two clips, which takes may not exceed
FILM_OF_ANY_TWO = 3 / 8  # part of it that the same recording may not exceed
SAME_FILM = 0.6  # least correlation of the changes of two clips that are one recording
STILL = 1e-3  # variance of moments that counts as none
FEWEST, COVERED, PHASES = 4, 0.8, 4  # moments that are laid along, share of the shorter clip, steps of a period

SAMPLED_CLIPS, SAMPLED_MOMENTS = 256, 16
"""Most clips of a library, and moments of each, that its distances are measured on."""
MOST_MOMENTS = 128  # most moments of a clip that are compared, around its best one
MOST_SIGNS = 64  # signs of a clip whose words are compared, the surest ones
SAME_WORD = 75  # least similarity (RapidFuzz's ratio) of two readings of a word: one letter of four may be misread
MOST_COMPARED = 256  # hits that are compared with each other, the first ones; those behind stand by themselves
MOST_ASKED = 4  # times the results asked for that are searched for, where some fold

MORE = 1.25  # times more than would do if those behind fold as often as the first ones: a third search takes longer


class ClipStretch(NamedTuple):
    vectors: FloatArray  # (n, D), of unit length
    best: int | None  # the one that a search found; None where it found none
    words: frozenset[str] = frozenset()  # words that are written in the stretch, in small letters
    times_s: Column = np.empty(0)  # (n,) of its moments, rising; none where a clip has no search's moment


class Farthest(NamedTuple):
    """The largest distances of clips that fold in one library."""

    takes: float
    films: float  # of one film in another form, or in part


class Alignment(NamedTuple):
    correlation: float  # of how both change
    starts_s: float  # where the first clip begins on the clock of the second


def fold_takes(s: Snapshot, result: SearchResult) -> SearchResult:
    """Put hits that are takes of a better one under it; only the first `MOST_COMPARED` hits are compared."""
    if ("farthest",) not in s.kept:
        s.kept["farthest",] = measure_farthest(s)
    farthest: Farthest | None = s.kept["farthest",]
    if farthest is None:
        return result
    heads: list[tuple[Hit, ClipStretch | None, list[FoldedHit]]] = []
    for hit in result.hits[:MOST_COMPARED]:
        stretch, near = _stretch_of(s, hit), list[tuple[float, int]]()
        for place, (_, other, _) in enumerate(heads):
            if stretch and other and not says_otherwise(stretch.words, other.words):
                near.append((distance(stretch, other), place))
        for apart, place in sorted(near):
            head, other, under = heads[place]
            reason, from_s = ("take", None) if apart > farthest.films else _kinship(hit, stretch, head, other)
            if apart <= farthest.takes or reason != "take":
                time_s, far = hit.moments[0].time_s if hit.moments else None, round(max(0.0, apart), 5)
                under.append(FoldedHit(hit.clip_id, hit.path, hit.duration_s, time_s, far, reason, from_s))
                break
        else:
            heads.append((hit, stretch, []))
    folded = (replace(hit, folded=tuple(under)) for hit, _, under in heads)
    return replace(result, hits=(*folded, *result.hits[MOST_COMPARED:]))


def search_folded(
    search: Callable[[int], SearchResult], k: int, fold: Callable[[SearchResult], SearchResult]
) -> SearchResult:
    asked, most = k, max(k, min(MOST_ASKED * k, MOST_COMPARED))
    while True:
        found = search(asked)
        folded = fold(found)
        if len(folded.hits) >= k or len(found.hits) < asked or asked >= most:
            return replace(folded, hits=folded.hits[:k])
        asked = min(most, max(asked + 1, ceil(MORE * k * asked / len(folded.hits))))


def measure_farthest(s: Snapshot) -> Farthest | None:
    """Measure how far apart takes may be, on clips that lie evenly among all; None where none has frames."""
    if s.vectors is None or len(s.seen) < 2:
        return None
    sample = _evenly(s.seen, SAMPLED_CLIPS)
    clips = [_read(s, int(place), 0, SAMPLED_MOMENTS) for place in sample]
    stretches = [ClipStretch(clip, None) for clip in clips]
    half = (len(clips) + 1) // 2
    pairs = [distance(one, stretches[(at + half) % len(clips)]) for at, one in enumerate(stretches)]
    median = float(np.median(pairs))
    steps = np.concatenate([1 - np.sum(clip[1:] * clip[:-1], axis=1) for clip in clips])
    usual = float(np.quantile(steps, NEIGHBOURS)) if len(steps) else np.inf
    return Farthest(min(OF_ANY_TWO * median, usual), FILM_OF_ANY_TWO * median)


def distance(one: ClipStretch, other: ClipStretch) -> float:
    """Return how far apart two clips are: 1 minus the mean cosine of their moments at the shift that fits best.

    Infinite where one is over twice as long and was found for something outside of what they share.
    """
    short, long = sorted((one, other), key=lambda clip: len(clip.vectors))
    cosines = _with_neighbours(short.vectors @ long.vectors.T)
    shifts = len(long.vectors) - len(short.vectors) + 1
    means = [np.trace(cosines[:, shift : shift + len(cosines)]) / len(cosines) for shift in range(shifts)]
    shift = int(np.argmax(means))
    is_long = long.best is not None and len(long.vectors) > 2 * len(cosines)
    if is_long and not shift - 1 <= (long.best or 0) <= shift + len(cosines):
        return float("inf")
    return float(1 - means[shift])


def _kinship(
    hit: Hit, stretch: ClipStretch | None, head: Hit, other: ClipStretch | None
) -> tuple[Kinship, float | None]:
    """What a hit is to a better one, and where the shorter begins in the longer, where it is a part of it."""
    found = align(stretch, other) if stretch and other else None
    if found is None or found.correlation < SAME_FILM:
        return "take", None
    own_s, its_s = (one.duration_s or float(of.times_s[-1]) for one, of in ((hit, stretch), (head, other)) if of)
    shared_s = min(found.starts_s + own_s, its_s) - max(found.starts_s, 0.0)
    if shared_s < COVERED * min(own_s, its_s):
        return "take", None
    if abs(own_s - its_s) <= max(2.0, 0.05 * its_s):
        return "same", None
    return ("part", max(0.0, found.starts_s)) if own_s < its_s else ("whole", max(0.0, -found.starts_s))


def align(one: ClipStretch, other: ClipStretch) -> Alignment | None:
    """Find where the changes of two clips correlate best, each without its mean; None for too few moments.

    Of n moments of one at even times and those of the other at the same times, interpolated, the correlation at a shift
    is sum_i <x_i - mean(x), y_i - mean(y)> over the root of both sums of squares, with `STILL` of each moment added.
    """
    if min(len(one.times_s), len(other.times_s)) < FEWEST:
        return None
    step_s = float(max(np.median(np.diff(one.times_s)), np.median(np.diff(other.times_s))))
    longest_s = max(float(np.ptp(clip.times_s)) for clip in (one, other))
    if not 0 < longest_s <= 4 * MOST_MOMENTS * step_s:  # times of a damaged file
        return None
    best, x = None, _sampled(one, 0.0, step_s)
    for phase_s in np.arange(PHASES) * step_s / PHASES:
        y = _sampled(other, phase_s, step_s)
        least = max(FEWEST, ceil(COVERED * min(len(x), len(y))))
        shifts = np.arange(least - len(x), len(y) - least + 1)
        if not len(shifts):
            continue
        first = np.maximum(0, -shifts)  # of the moments of x that lie beside y
        end = np.minimum(len(x), len(y) - shifts)
        both, cosines = end - first, x @ y.T
        (sum_x, x_2), (sum_y, y_2) = _sums(x, first, end), _sums(y, first + shifts, end + shifts)
        products = np.array([np.trace(cosines, shift) for shift in shifts])
        changes = products - np.sum(sum_x * sum_y, axis=1) / both
        spread = np.sqrt(
            np.maximum(0, x_2 - np.sum(sum_x**2, axis=1) / both) * np.maximum(0, y_2 - np.sum(sum_y**2, axis=1) / both)
        )
        correlations = changes / (spread + STILL * both)
        at = int(np.argmax(correlations))
        if best is None or correlations[at] > best.correlation:
            starts_s = float(other.times_s[0] + phase_s + shifts[at] * step_s - one.times_s[0])
            best = Alignment(float(correlations[at]), starts_s)
    return best


def _sampled(clip: ClipStretch, from_s: float, step_s: float) -> FloatArray:
    """Moments at even times, (m, D), between those that there are."""
    times = clip.times_s
    wanted = np.arange(times[0] + from_s, times[-1] + 1e-6, step_s)
    before = np.clip(np.searchsorted(times, wanted, side="right") - 1, 0, len(times) - 2)
    share = ((wanted - times[before]) / np.maximum(times[before + 1] - times[before], 1e-6))[:, None]
    mixed = clip.vectors[before] * (1 - share) + clip.vectors[before + 1] * share
    return np.asarray(mixed, np.float32)


def _sums(moments: FloatArray, first: Indices, end: Indices) -> tuple[NDArray[np.float64], Column]:
    """Of runs of moments, from first (S,) to end (S,): their sums (S, D), and the sums of their squares (S,)."""
    sums = np.cumsum(np.pad(moments, ((1, 0), (0, 0))), axis=0, dtype=np.float64)
    squares = np.cumsum(np.pad(np.sum(moments**2, axis=1), (1, 0)), dtype=np.float64)
    return sums[end] - sums[first], squares[end] - squares[first]


def says_otherwise(one: Collection[str], other: Collection[str]) -> bool:
    """Return whether two clips have words on screen, and less than half of those of the one with fewer are the same.

    Example:
        >>> says_otherwise({"ring"}, {"rlng", "road"}), says_otherwise({"ring"}, {"bell"}), says_otherwise({"ring"}, ())
        (False, True, False)
    """
    fewer, more = sorted((one, other), key=len)
    same = sum(process.extractOne(word, more, scorer=fuzz.ratio, score_cutoff=SAME_WORD) is not None for word in fewer)
    return 2 * same < len(fewer)


def _with_neighbours(cosines: FloatArray) -> FloatArray:
    """The cosine (n, m) of each moment with another one, or with that before or after it where it is greater."""
    found = cosines.copy()
    found[:, 1:] = np.maximum(found[:, 1:], cosines[:, :-1])
    found[:, :-1] = np.maximum(found[:, :-1], cosines[:, 1:])
    return found


def _stretch_of(s: Snapshot, hit: Hit) -> ClipStretch | None:
    (place,), best = s.places([hit.clip_id]), None
    count = int(s.counts[place])
    if s.vectors is None or not count:
        return None
    times_s = times_of(s, [hit.clip_id])[hit.clip_id].spans_s[:, 0]
    if len(times_s) != count:  # its rows are damaged: it stands by itself, and the search goes on
        return None
    if hit.moments:
        best = int(np.abs(times_s - hit.moments[0].time_s).argmin())
    first = min(max(0, (best or 0) - MOST_MOMENTS // 2), max(0, count - MOST_MOMENTS))
    times_s = times_s[first : first + MOST_MOMENTS]
    signs = s.connection.execute(
        "SELECT text FROM tracks WHERE clip_id = ? AND start_s <= ? AND end_s >= ?"
        " ORDER BY confidence DESC, number LIMIT ?",
        (hit.clip_id, times_s[-1] + 1, times_s[0] - 1, MOST_SIGNS),
    )
    written = frozenset(word for (text,) in signs for word in text.casefold().split())
    return ClipStretch(_read(s, place, first, MOST_MOMENTS), None if best is None else best - first, written, times_s)


def _read(s: Snapshot, place: int, skipped: int, most: int) -> FloatArray:
    """Moments of a clip from a number on, (n, D), of unit length; float16 has rounded them."""
    found = _moments(s, place)[skipped : skipped + most].astype(np.float32)
    unit: FloatArray = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-6)
    return unit


def _moments(s: Snapshot, place: int) -> HalfArray:
    assert s.vectors is not None  # it was looked at
    return s.vectors.read(int(s.first_rows[place]), int(s.counts[place]))


def _evenly(values: Indices, most: int) -> Indices:
    return values[np.unique(np.linspace(0, len(values) - 1, min(len(values), most)).astype(np.int64))]


# Highlights ----------------------------------------------------------------------------------------------------------

MOST_LOOKED_AT = 20_000  # most clips that are looked at; of more, so many that lie evenly among them
MOST_IN_MEAN = 512  # most moments of a clip that its mean is of, evenly spread
ALIKE = 1e-4  # cosine distance below which two clips are one to float16 vectors


@dataclass(frozen=True)
class UnlikeClip:
    """A clip that is unlike those before it and the rest."""

    clip_id: str
    path: str  # its first file by path, among those that pass the filter
    duration_s: float | None
    time_s: float  # the moment that is nearest to its mean
    apart: float  # cosine distance to the mean of all clips, or to the nearest clip before it

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class UnlikeClips(Shown):
    """Highlights, in the order in which they were chosen; `compared` of `total` clips were looked at."""

    clips: tuple[UnlikeClip, ...]
    compared: int
    total: int


def unlike_clips(s: Snapshot, where: Filter, k: int) -> UnlikeClips:
    """Choose at most k clips that pass a filter and are unlike the rest; clips alike are chosen once."""
    if k < 1:
        raise UsageError(f"{k} highlights cannot be shown; ask for 1 or more.")
    every = s.seen[s.passing(where)[s.seen]]
    if not len(every):
        return UnlikeClips((), 0, 0)
    places = _evenly(every, MOST_LOOKED_AT)
    means = np.stack([_some_moments(s, int(place)).mean(axis=0) for place in places])
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-6)
    chosen, apart = farthest_first(means, k)
    ids = s.ids(places[chosen])
    paths, times = first_paths(s.connection, where, ids, there=True), times_of(s, ids)
    lengths = dict(s.connection.execute("SELECT clip_id, duration_s FROM clips").fetchall())
    clips = []
    for clip_id, row, far in zip(ids, chosen.tolist(), apart, strict=True):
        place = int(places[row])
        frames_of(s, place, times[clip_id])  # as many as it has times
        nearest = int(np.argmax(_some_moments(s, place) @ means[row]))
        time_s = float(_spread(times[clip_id].spans_s)[nearest, 0])
        clips.append(UnlikeClip(clip_id, paths[clip_id], lengths[clip_id], time_s, round(far, 5)))
    return UnlikeClips(tuple(clips), len(places), len(every))


def _some_moments(s: Snapshot, place: int) -> FloatArray:
    return _spread(_moments(s, place)).astype(np.float32)


def _spread(rows: NDArray[Any]) -> NDArray[Any]:
    return rows[:: -(-len(rows) // MOST_IN_MEAN)]


def farthest_first(vectors: FloatArray, k: int) -> tuple[Indices, list[float]]:
    """Choose rows by farthest-first traversal; of equal ones the first, and none that is like one before it."""
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
