"""Tracking of signs: from readings in single frames to signs followed over time.

A reading joins a sign that was shown at most `MISSED_FRAMES` frames (or `MISSED_S` seconds) before it, if it is
written in the same place and reads alike, or if it reads nearly the same, has the same size and has not moved
too far (a ticker, a panning camera). A sign that goes away for longer and comes back is two tracks, so that the
times of a track are times at which it can be seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz

from evenreel.types import TextTrack, Word

MISSED_FRAMES = 1
MISSED_S = 2.0
SAME_PLACE = 0.3  # intersection over union from which two boxes are the same place
ALIKE = 50.0
NEARLY_SAME = 75.0
"""Similarities (0 to 100, share of characters in common order) from which readings are of one sign: in the same place,
and elsewhere."""

CERTAIN = 0.9  # confidence from which two readings with different numbers in them are two signs, not one misread
REACH = 0.3  # longest way, in pictures, that a sign may move between two frames
SAME_SIZE = 1.6  # largest factor by which the height of a moving sign may change between two frames


@dataclass
class _Trail:
    """The readings of one sign so far, in time order; the most confident one; the frame of the last one."""

    words: list[Word]
    best: Word
    last_frame: int

    def add(self, word: Word, frame: int) -> None:
        self.words.append(word)
        self.best = max(self.best, word, key=_authority)
        self.last_frame = frame


def follow(words: Sequence[Word], frame_times: Sequence[float] = ()) -> list[TextTrack]:
    """Track every sign, ordered by the time at which it appears, then by its place."""
    tracks = [track_of(group) for group in grouped(words, frame_times)]
    return sorted(tracks, key=lambda track: (track.start_s, track.box[1], track.box[0], track.text))


def grouped(words: Sequence[Word], frame_times: Sequence[float] = ()) -> list[list[Word]]:
    """Group readings by sign; every word is in exactly one group, in time order."""
    numbers = {time: number for number, time in enumerate(sorted({*frame_times, *(w.time_s for w in words)}))}
    closed: list[_Trail] = []
    live: list[_Trail] = []
    ordered = sorted(words, key=lambda word: (word.time_s, word.box, word.text, word.confidence))
    for time_s, in_frame in groupby(ordered, key=lambda word: word.time_s):
        frame, before, live = numbers[time_s], live, []
        for trail in before:
            missed = frame - trail.last_frame - 1
            goes_on = missed <= MISSED_FRAMES or time_s - trail.words[-1].time_s <= MISSED_S
            (live if goes_on else closed).append(trail)
        _extend(live, list(in_frame), frame)
    return [trail.words for trail in closed + live]


def track_of(group: Sequence[Word]) -> TextTrack:
    """Make one track from its readings, each distinct one kept, the most confident first."""
    ranked = sorted(group, key=_authority, reverse=True)
    best = ranked[0]
    return TextTrack(
        text=best.text,
        confidence=best.confidence,
        start_s=min(word.time_s for word in group),
        end_s=max(word.time_s for word in group),
        box=best.box,
        readings=tuple(dict.fromkeys(word.text for word in ranked)),
    )


def _authority(word: Word) -> tuple[float, int, str, tuple[float, float, float, float]]:
    """The most confident reading speaks for a sign; of equally confident ones the longer."""
    return word.confidence, len(word.text), word.text, word.box


def _extend(live: list[_Trail], words: list[Word], frame: int) -> None:
    """Give each trail at most one word of the frame, the best fits first; the rest begin new trails."""
    taken_trails: set[int] = set()
    taken_words: set[int] = set()
    for _, trail, word in sorted(_fits(live, words)):
        if trail not in taken_trails and word not in taken_words:
            taken_trails.add(trail)
            taken_words.add(word)
            live[trail].add(words[word], frame)
    live += [_Trail([word], word, frame) for number, word in enumerate(words) if number not in taken_words]


def _fits(live: Sequence[_Trail], words: Sequence[Word]) -> Iterator[tuple[float, int, int]]:
    """(cost, trail, word) of every pair that may be one sign; the lower the cost, the better the fit."""
    if not live or not words:
        return
    before, now = _boxes([trail.words[-1] for trail in live]), _boxes(words)
    overlap = overlaps(before, now)
    distance = distances(before, now)
    height = _heights(before)[:, None] / _heights(now)[None, :]
    may_move = (distance <= REACH) & (np.maximum(height, 1 / height) <= SAME_SIZE)
    for trail, word in np.argwhere((overlap >= SAME_PLACE) | may_move).tolist():
        in_place = bool(overlap[trail, word] >= SAME_PLACE)
        likeness = _likeness(live[trail], words[word])
        if likeness >= (ALIKE if in_place else NEARLY_SAME):
            yield float(distance[trail, word]) - likeness / 100 - in_place, trail, word


def _likeness(trail: _Trail, word: Word) -> float:
    """Similarity to the last or the best reading, 0 to 100; 0 where a certain number says that it is another."""
    readings = (trail.words[-1], trail.best)
    if any(different_numbers(reading, word) for reading in readings):
        return 0.0
    return max(fuzz.ratio(reading.text.casefold(), word.text.casefold()) for reading in readings)


def different_numbers(first: Word, second: Word) -> bool:
    """Return whether two readings are both certain, and of different numbers: gate 12 is not gate 15 misread."""
    certain = min(first.confidence, second.confidence) >= CERTAIN
    return certain and re.findall(r"\d+", first.text) != re.findall(r"\d+", second.text)


def overlaps(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute intersection over union of (N, 4) and (M, 4) boxes x0, y0, x1, y1: (N, M); 0 for boxes without area."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (first, second)]
    union = areas[0][:, None] + areas[1][None, :] - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def distances(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the distances of the centres of (N, 4) and (M, 4) boxes: (N, M), in pictures."""
    centres = [(boxes[:, :2] + boxes[:, 2:]) / 2 for boxes in (first, second)]
    return np.asarray(np.linalg.norm(centres[0][:, None] - centres[1][None, :], axis=2))


def _boxes(words: Sequence[Word]) -> NDArray[np.float64]:
    return np.array([word.box for word in words], dtype=np.float64)


def _heights(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(boxes[:, 3] - boxes[:, 1], 1e-6)
