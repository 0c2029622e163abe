"""Scores of clips by the words of a query on their tracks, all clips at a time.

A clip's score is the share of the query's weight that it covers, each word by its best track: similarity x recognition
confidence x closeness in time to the track that the others are measured from, its centre. The tracks that have most of
the query by themselves are tried as the centre, at most `MAX_ANCHORS`, and the best is kept. For a clip that has a
single word of the query none is tried: its best track is the centre.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags, Indices, slices
from evenreel.library.search.sign_tracks import ClipTracks, WordTracks

MAX_ANCHORS = 32
"""Most tracks of a clip that are tried as its centre: a ticker may repeat a word thousands of times."""

CLIPS_AT_ONCE = 8192
FAR_S = 30.0


@dataclass(frozen=True, eq=False)
class WordRows:
    """Tracks that have one word of the query, by their numbers (n,), with the similarity (n,)."""

    rows: Indices
    alike: Column


@dataclass(frozen=True, eq=False)
class ClipScores:
    """Scores of C clips under a query.

    Attributes:
        scores: (C,) by which they are ordered, 0 to 1.
        coverage: (C,) share of the query's weight that is on screen.
        centre: (C,) number of the track that the others are measured from; -1 for the one that has most by itself.
        own: (N,) share of the query that each track has by itself, times its confidence and the query's weight.
    """

    scores: Column
    coverage: Column
    centre: Indices
    own: Column


def score_clips(tracks: ClipTracks, words: Sequence[WordRows], weights: Sequence[float]) -> ClipScores:
    """Score clips by the tracks that have words of a query."""
    clips = len(tracks.clip_ids)
    confidence = tracks.read(np.arange(len(tracks.tracks)), "confidence")
    share, several = _coverage(tracks, words, weights)
    own = np.zeros(len(tracks.tracks))
    for weight, word in zip(weights, words, strict=True):
        own[word.rows] += weight * word.alike
    own *= confidence
    centre = np.full(clips, -1)
    scores = np.zeros(clips)
    for weight, word in zip(weights, words, strict=True):
        best = np.zeros(clips)
        np.maximum.at(best, tracks.clips[word.rows], word.alike * confidence[word.rows])
        np.maximum(scores, weight * best / math.fsum(weights), out=scores)
    for part in _Several.cut(tracks, words, several, confidence, own):
        scores[part.clips], centre[part.clips] = part.scored(weights)
    return ClipScores(scores, share, centre, own)


def _coverage(tracks: ClipTracks, words: Sequence[WordRows], weights: Sequence[float]) -> tuple[Column, Flags]:
    """The share of the query's weight that each clip has (C,), and which have more than one word."""
    clips = len(tracks.clip_ids)
    count = np.zeros(clips, np.int64)

    def alike() -> Iterator[Column]:
        for word in words:
            best = np.zeros(clips)
            np.maximum.at(best, tracks.clips[word.rows], word.alike)
            np.add(count, best > 0, out=count)
            yield best

    return weighted_share(weights, alike(), clips), count > 1


def weighted_share(weights: Sequence[float], found: Iterable[Column], clips: int) -> Column:
    """Compute the weighted mean of what was found of each word, (C,); exactly 1 where all of all was."""
    total, lost = np.zeros(clips), np.zeros(clips)
    for weight, column in zip(weights, found, strict=True):
        # Knuth's exact sum of two numbers: the order of the words must not make equal clips differ.
        term = weight * column
        new = total + term
        part = new - total
        lost += (total - (new - part)) + (term - part)
        total = new
    return (total + lost) / math.fsum(weights)


def gap_between(one: NDArray[np.float64], other: NDArray[np.float64]) -> Column:
    """Compute the seconds between stretches, 0 where they overlap."""
    gap: Column = np.maximum(0.0, np.maximum(one[0] - other[1], other[0] - one[1]))
    return gap


def closeness(gap_s: Column) -> Column:
    """Return 1 for tracks shown together, 3/4 at half a minute, 1/2 however far: it is still the same clip."""
    return 0.5 + 0.5 / (1 + gap_s / FAR_S)


@dataclass(frozen=True, eq=False)
class _Several:
    """Some clips that have several words of the query.

    `clips` (c,) are their places. Their tracks (n,), those with most of the query first in each clip: number, clip as a
    place in `clips`, rank in the clip, confidence, start and end. `hits` (h, 3) has for each word on a track: the word,
    the place of the track among these, the similarity.
    """

    clips: Indices
    rows: Indices
    of: Indices
    rank: Indices
    times: NDArray[np.float64]  # (2, n) start, end
    confidence: Column
    word: Indices
    at: Indices
    alike: Column

    @classmethod
    def cut(
        cls, tracks: ClipTracks, words: Sequence[WordRows], several: Flags, confidence: Column, own: Column
    ) -> Iterator[_Several]:
        """Take the clips that have several words, some at a time."""
        rows = np.flatnonzero(several[tracks.clips])
        if not len(rows):
            return
        times = np.stack([tracks.read(rows, "start_s"), tracks.read(rows, "end_s")])
        order = np.lexsort((times[0], -own[rows], tracks.clips[rows]))  # stable: of equals the first
        rows, times = rows[order], times[:, order]
        place = np.zeros(len(tracks.tracks), np.int64)
        place[rows] = np.arange(len(rows))
        kept = [several[tracks.clips[word.rows]] for word in words]
        word = np.repeat(np.arange(len(words)), [np.count_nonzero(mask) for mask in kept])
        at = place[np.concatenate([one.rows[mask] for one, mask in zip(words, kept, strict=True)])]
        alike = np.concatenate([one.alike[mask] for one, mask in zip(words, kept, strict=True)])
        order = np.argsort(at, kind="stable")
        word, at, alike = word[order], at[order], alike[order]
        clips, first = np.unique(tracks.clips[rows], return_index=True)
        first = np.append(first, len(rows))
        of = np.repeat(np.arange(len(clips)), np.diff(first))
        for some in slices(len(clips), CLIPS_AT_ONCE):
            its = slice(first[some.start], first[some.stop])
            hits = slice(*np.searchsorted(at, [its.start, its.stop]))
            yield cls(
                clips[some],
                rows[its],
                of[its] - some.start,
                np.arange(its.start, its.stop) - first[of[its]],
                times[:, its],
                confidence[rows[its]],
                word[hits],
                at[hits] - its.start,
                alike[hits],
            )

    def scored(self, weights: Sequence[float]) -> tuple[Column, Indices]:
        """Score the clips, (c,), and find the tracks that the others are measured from, (c,)."""
        best, centre = np.full(len(self.clips), -1.0), np.zeros(len(self.clips), np.int64)
        for rank in range(min(MAX_ANCHORS, int(self.rank.max()) + 1)):
            anchors = np.flatnonzero(self.rank == rank)
            scores = self._from(anchors, weights)
            better = scores > best[self.of[anchors]]
            best[self.of[anchors[better]]] = scores[better]
            centre[self.of[anchors[better]]] = self.rows[anchors[better]]
        return best, centre

    def _from(self, anchors: Indices, weights: Sequence[float]) -> Column:
        """The share of the query found on clips, each word by its best track as seen from an anchor a clip, (a,)."""
        number = np.full(len(self.clips), -1)
        number[self.of[anchors]] = np.arange(len(anchors))
        clip = number[self.of[self.at]]
        kept = clip >= 0
        clip, at = clip[kept], self.at[kept]
        gap_s = gap_between(self.times[:, anchors[clip]], self.times[:, at])
        best = np.zeros((len(weights), len(anchors)))
        worth = self.alike[kept] * (self.confidence[at] * closeness(gap_s))
        np.maximum.at(best, (self.word[kept], clip), worth)
        return weighted_share(weights, best, len(anchors))


def rows_of(words: Sequence[WordTracks], tracks: Indices) -> list[WordRows]:
    """Find the tracks of each word among tracks (N,), rising; those that are not there are left out."""
    found = []
    for word in words:
        rows = np.searchsorted(tracks, word.tracks)
        there = rows < len(tracks)
        there[there] = tracks[rows[there]] == word.tracks[there]
        found.append(WordRows(rows[there], word.alike[there]))
    return found
