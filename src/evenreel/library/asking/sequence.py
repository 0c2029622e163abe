"""Search for one moment after another: clips by the best pair of moments that stand in the order asked for.

A clip stands by the worse of the states of its two moments, then by the sum of how far both are above nonsense
(`evenreel.library.store.confidence`). A frame is a moment where it lies in a stretch that stands out in its clip
(`evenreel.library.search.stretches`) and the clip answers by its frames; words on screen and words that are said are
moments of their own, and a share of the query that is written counts as frames do that beat such a share of nonsense.
Names and captions have no time, so they find no pair.

Each half is asked as a query of its own. No clip can be better than its two best moments in any order of other frames,
so the clips that are first by that are looked into until no other can be among the first.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Indices
from evenreel.library.asking.half import ClipEvidence, FramesOfClip, Half, HalfInClip
from evenreel.library.asking.order import NOTHING, OrderedPair, best_pair, highest_in_order
from evenreel.library.asking.steps import Then
from evenreel.library.search.allowed import shown_paths
from evenreel.library.search.channels import AskedChannels, left_out, other_paths, united
from evenreel.library.search.compact_ids import Encoded
from evenreel.library.search.hits import Hit, SearchResult
from evenreel.library.search.query import readable
from evenreel.library.search.shown_clips import ShownClip, ShownClips
from evenreel.types import FloatArray

MOST_CANDIDATES = 512
"""Most clips whose frames are scored one by one, but for those that are to be shown."""
MOST_ROWS = 20_000
"""Most frames of these together, but for those that are to be shown."""
MOST_LOOKED_INTO = 256
"""Most clips beside those that are shown of which moments are found: many may show both in the wrong order."""


@dataclass(frozen=True, eq=False)
class _Candidates:
    """N clips that may show both; those without frames are last.

    Attributes:
        ids: (N,) their ids.
        counts: (N,) frames of each.
        told: of each half, what it says of these clips.
        scores: of each half, (R,) similarities of the clips' frames; None where its query does not ask frames.
        values: of each half, (R,) how far these are above nonsense.
    """

    ids: Encoded
    counts: Indices
    told: list[ClipEvidence]
    scores: list[FloatArray | None]
    values: list[Column | None]

    @property
    def states(self) -> NDArray[np.int8]:
        """(N,) The best state that a pair of each clip can have."""
        return np.asarray(np.maximum(*(one.states for one in self.told)))

    @property
    def bounds(self) -> Column:
        """(N,) The highest sum that a pair of each clip can have."""
        (one, other), (first, second) = self.told, self.values
        bounds = np.maximum(one.others + other.values, one.values + other.others)
        seen = self.counts > 0
        if first is not None and second is not None and seen.any():
            bounds[seen] = np.maximum(bounds[seen], highest_in_order(first, second, self.counts[seen]))
        return bounds

    def frames(self, half: int, clip: int) -> FramesOfClip | None:
        """Return the frames of a clip under the query of a half."""
        scores, values = self.scores[half], self.values[half]
        if scores is None or values is None or not self.counts[clip]:
            return None
        first = int(self.counts[:clip].sum())
        rows = slice(first, first + int(self.counts[clip]))
        return FramesOfClip(scores[rows], values[rows], int(self.told[half].seen_states[clip]))


@dataclass(frozen=True, eq=False)
class _FoundPair:
    """A clip with the best pair of its moments, and what is shown of it."""

    clip_id: str
    about: ShownClip
    pair: OrderedPair
    halves: tuple[HalfInClip, HalfInClip]

    def hit(self, path: str, weaker: bool | None) -> Hit:
        """Return the clip as it is shown."""
        (one, other), (first, second) = self.halves, (self.pair.first, self.pair.second)
        steps = (one.moment(first), other.moment(second))
        values = float(one.evidence.values[first]), float(other.evidence.values[second])
        return Hit(
            clip_id=self.clip_id,
            path=path,
            score=self.pair.value,
            weaker=weaker,
            above_nonsense=None,
            written=0.0,
            scores={"first": values[0], "then": values[1]},
            moments=steps,
            on_screen=tuple(dict.fromkeys(text for half in self.halves for text in half.on_screen)),
            said=tuple(dict.fromkeys(text for half in self.halves for text in half.said)),
            duration_s=self.about.duration_s,
            metadata=self.about.metadata_of(path),
            other_paths=other_paths(self.about, path),
            steps=steps,
        )


def answer_in_order(asked: Then, k: int, channels: Sequence[AskedChannels], shown: ShownClips) -> SearchResult:
    """Put what the channels say under both halves of a question together."""
    halves = [Half(one) for one in channels]
    looking = _Looking(halves, _candidates(halves, k), shown, asked.within_s)
    found = looking.first(k)
    notices = united([one.notices for one in channels])
    notices += [left_out(looking.spoilt)] if looking.spoilt else []
    ids = [one.clip_id for one in found]
    paths = shown_paths(channels[0].opened.connection, channels[0].allowed.where, ids)
    found.sort(key=lambda one: (one.pair.state, -round(one.pair.value, 5), paths[one.clip_id]))
    measured = all(one.measured for one in channels)
    hits = tuple(one.hit(paths[one.clip_id], one.pair.state == NOTHING if measured else None) for one in found[:k])
    return SearchResult(
        query=f"{readable(asked.first)}, then {readable(asked.second)}",
        hits=hits,
        matches=sum(hit.weaker is False for hit in hits),
        notices=tuple(notices),
        steps=(readable(asked.first), readable(asked.second)),
    )


def _candidates(halves: Sequence[Half], k: int) -> _Candidates:
    """The clips that are the likeliest to show both, with their frames under both queries."""
    gallery = halves[0].asked.opened.gallery
    beyond = np.unique(np.concatenate([half.beyond_frames for half in halves]))
    others = beyond[gallery.clip_ids.places(beyond) < 0]
    own, frames = len(gallery.counts), np.pad(gallery.counts, (0, len(others)))
    told = [half.clips(_places(half.beyond_frames, halves[0], others), len(frames)) for half in halves]
    chosen = _likeliest(told, frames, k)
    seen = chosen[chosen < own]
    ids = np.concatenate([gallery.clip_ids.encoded[seen], others[chosen[len(seen) :] - own]])
    counts = gallery.counts[seen]
    rows = np.repeat(gallery.first_rows[seen] - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    scores = [_frame_scores(half, rows) for half in halves]
    values = [
        None if found is None else half.deviations(found, np.repeat(seen, counts))
        for half, found in zip(halves, scores, strict=True)
    ]
    return _Candidates(ids, frames[chosen], [one.of(chosen) for one in told], scores, values)


def _places(ids: Encoded, half: Half, others: Encoded) -> Indices:
    """Places of clips in the gallery, or behind it among others, which are sorted."""
    gallery = half.asked.opened.gallery
    places = gallery.clip_ids.places(ids)
    return np.where(places >= 0, places, len(gallery.clip_ids) + np.searchsorted(others, ids))


def _likeliest(told: Sequence[ClipEvidence], counts: Indices, k: int) -> Indices:
    """Places of the clips, rising, that may show both, as many as there is time to look into."""
    sums, states = sum(one.values for one in told), np.maximum(*(one.states for one in told))
    able = np.flatnonzero(np.isfinite(sums))
    merit = states[able] * 1e6 - np.asarray(sums)[able]
    most = max(MOST_CANDIDATES, k)
    if len(able) > most:
        near = np.argpartition(merit, most)[:most]
        able, merit = able[near], merit[near]
    order = able[np.argsort(merit, kind="stable")]
    within = np.cumsum(counts[order]) <= MOST_ROWS
    within[:k] = True
    return np.sort(order[within])


def _frame_scores(half: Half, rows: Indices) -> FloatArray | None:
    """Similarities of single frames to the query of a half, (R,)."""
    vectors = half.asked.opened.vectors
    if half.sight is None or vectors is None:
        return None
    found: FloatArray = vectors.best_per_clip(half.sight.vector[None], rows, np.ones(len(rows), np.int64))[0]
    return found


@dataclass(frozen=True, eq=False)
class _Looking:
    """Looks for pairs of moments in candidates."""

    halves: Sequence[Half]
    candidates: _Candidates
    shown: ShownClips
    within_s: float
    spoilt: list[str] = field(default_factory=list)  # clips whose rows in the catalog are damaged

    def first(self, k: int) -> list[_FoundPair]:
        """Find the first clips: the likeliest is looked into until it is better than any other can be."""
        states, bounds = self.candidates.states, self.candidates.bounds
        clips = np.flatnonzero(np.isfinite(bounds)).tolist()
        waiting: list[tuple[int, float, int, _FoundPair | None]] = [
            (int(states[clip]), -float(bounds[clip]), clip, None) for clip in clips
        ]
        heapq.heapify(waiting)
        found, left = list[_FoundPair](), k + MOST_LOOKED_INTO
        while waiting and len(found) < k and left:
            _, _, clip, known = heapq.heappop(waiting)
            if known is not None:
                found.append(known)
                continue
            left -= 1
            if (pair := self._in_clip(clip)) is not None:
                heapq.heappush(waiting, (pair.pair.state, -pair.pair.value, clip, pair))
        return found + [pair for *_, pair in sorted(waiting, key=lambda one: one[:3]) if pair][: k - len(found)]

    def _in_clip(self, clip: int) -> _FoundPair | None:
        """The best pair in a clip; None without one, or where its rows are damaged."""
        clip_id = self.candidates.ids[clip].decode("utf-8", "surrogateescape")
        for about in self.shown.of([clip_id]):
            frames = [self.candidates.frames(half, clip) for half in range(2)]
            for own in frames:
                about.times.check(clip_id, len(about.times.spans_s) if own is None else len(own.scores))
            one, other = (HalfInClip(half, clip_id, about, own) for half, own in zip(self.halves, frames, strict=True))
            pair = best_pair(one.evidence, other.evidence, self.within_s)
            return None if pair is None else _FoundPair(clip_id, about, pair, (one, other))
        self.spoilt.append(clip_id)
        return None
