"""Moments of a clip that answer a query: stretches of frames with high scores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenreel.features.frame_windows import within_shots
from evenreel.library.search.hits import Channel, MomentHit, TextHit
from evenreel.library.search.ranking import RankedClip
from evenreel.library.search.stretches import Range, Stretch, stretches_of
from evenreel.types import FloatArray

MAX_MOMENTS = 3


Shots = Sequence[tuple[float, float]]
"""Start and end of each shot of a clip in seconds, in order; empty where they are not known."""


def high_stretches(scores: FloatArray, spans_s: NDArray[np.float64], shots: Shots = ()) -> list[MomentHit]:
    """Find the stretches of a clip whose frames answer best, the likeliest first (`evenreel.library.search.stretches`).

    A stretch that goes on over a cut is one for each shot, that of its best frame first. Windows of frames may overlap:
    a stretch goes from the start of its first to the end of its last.

    Example:
        >>> spans = np.array([[0.5, 0, 1], [1.5, 1, 2], [2.5, 2, 3], [3.5, 3, 4]])
        >>> [(m.start_s, m.end_s, m.time_s) for m in high_stretches(np.array([0.1, 0.4, 0.5, 0.1]), spans)]
        [(1.0, 3.0, 2.5)]
    """
    if len(shots) < 2:
        edges_s, shot_of = spans_s[:, 1:], None
    else:
        edges_s, shot_of = within_shots(spans_s[:, 0], spans_s[:, 1:], [start_s for start_s, _ in shots[1:]])
    return [
        MomentHit(
            float(spans_s[one.best, 0]),
            float(edges_s[one.start, 0]),
            float(edges_s[one.stop - 1, 1]),
            float(scores[one.start : one.stop].max()),
            _seconds(edges_s[:, 0], one.starts),
            _seconds(edges_s[:, 1], (one.stops[0] - 1, one.stops[1] - 1)),
        )
        for stretch in stretches_of(scores.astype(np.float64))
        for one in ([stretch] if shot_of is None else _by_shot(stretch, scores, shot_of))
    ]


def _by_shot(stretch: Stretch, scores: FloatArray, shot_of: NDArray[np.intp]) -> list[Stretch]:
    """The parts of a stretch in each shot, the one with its best frame first, then by their best."""
    cuts = stretch.start + 1 + np.flatnonzero(np.diff(shot_of[stretch.start : stretch.stop]))
    parts = []
    for start, stop in pairwise([stretch.start, *cuts.tolist(), stretch.stop]):
        within = start <= stretch.best < stop
        best = stretch.best if within else start + int(scores[start:stop].argmax())
        first, last = np.flatnonzero(shot_of == shot_of[start])[[0, -1]].tolist()
        starts, stops = _clipped(stretch.starts, first, best), _clipped(stretch.stops, best + 1, last + 1)
        parts.append((within, Stretch(start, stop, best, float(scores[best]), starts, stops)))
    return [part for _, part in sorted(parts, key=lambda one: (not one[0], -one[1].value, one[1].start))]


def _clipped(places: Range, least: int, most: int) -> Range:
    low, high = (min(max(place, least), most) for place in places)
    return low, high


def _seconds(edges_s: NDArray[np.float64], places: Range) -> tuple[float, float]:
    """The times of two places."""
    return float(edges_s[places[0]]), float(edges_s[places[1]])


def best_moments(found: Sequence[MomentHit], others: Sequence[MomentHit] = ()) -> tuple[MomentHit, ...]:
    """Choose at most three moments, no two of which overlap, first of the channel that found the clip."""
    chosen: list[MomentHit] = []
    for moment in (*found, *others):
        if not any(_overlap(moment, other) for other in chosen):
            chosen.append(moment)
    return tuple(chosen[:MAX_MOMENTS])


def _overlap(one: MomentHit, other: MomentHit) -> bool:
    """Whether two stretches share a time; one that is read in a single frame may have no length."""
    begins, ends = max(one.start_s, other.start_s), min(one.end_s, other.end_s)
    has_point = one.start_s == one.end_s or other.start_s == other.end_s
    return begins < ends or (begins == ends and has_point)


def shown(sign: TextHit) -> MomentHit:
    """Return the stretch in which a sign's words are on screen as a moment, at its middle."""
    return MomentHit((sign.start_s + sign.end_s) / 2, sign.start_s, sign.end_s, sign.similarity)


def spoken(utterance: TextHit) -> MomentHit:
    """Return the stretch in which words are said as a moment, at its beginning."""
    return MomentHit(utterance.start_s, utterance.start_s, utterance.end_s, utterance.similarity)


def moments_of(
    clip: RankedClip, duration_s: float | None, seen: Sequence[MomentHit], sounds: Sequence[MomentHit] = ()
) -> tuple[MomentHit, ...]:
    """Return the moments of the channel that found a clip, then those of others that would have."""
    if clip.found_by == "about":
        return best_moments(whole(seen, duration_s, clip.written))
    found: dict[Channel, Sequence[MomentHit]] = {
        "seen": seen,
        "on_screen": list(map(shown, clip.on_screen)),
        "said": list(map(spoken, clip.said)),
        "sounds": sounds,
    }
    first = found.pop(clip.found_by)
    others = [moment for channel, moments in found.items() if clip.answers_by(channel) for moment in moments]
    return best_moments(first, others)


def whole(seen: Sequence[MomentHit], duration_s: float | None, score: float) -> list[MomentHit]:
    """Return a whole clip, found by its name or caption, as one moment at the frame that best matches the query."""
    end_s = max((moment.end_s for moment in seen), default=0.0) if duration_s is None else duration_s
    return [MomentHit(moment.time_s, 0.0, max(end_s, moment.end_s), score) for moment in seen[:1]]
