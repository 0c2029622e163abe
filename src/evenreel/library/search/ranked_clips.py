"""Clips that the channels of a search found, as columns: one that is shown alone becomes a `RankedClip`.

`evenreel.library.search.ranking` has the rules: what a clip's state is, and in which order clips stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags, Indices
from evenreel.library.search.compact_ids import Encoded, encoded_ids
from evenreel.library.search.gallery import FrameGallery, FrameRanking
from evenreel.library.search.hits import ANSWERS, STATES
from evenreel.library.search.ranking import RANK_CONSTANT, RankedClip, words_weight
from evenreel.library.search.text_match import SignMatches, TextMatch
from evenreel.library.store.confidence import FITS, MAY_FIT

SPARE = 100
"""Further clips that are put in order, in place of damaged ones before them."""

FIT, MAY, NOTHING = range(len(STATES))


@dataclass(frozen=True, eq=False)
class ChannelColumns:
    """What one channel says of N clips.

    Attributes:
        ranks: (N,) rank of each, from 1 on; 0 for a clip that the channel did not find.
        weights: (N,) weight of each rank.
        scores: (N,) score of each.
    """

    ranks: Indices
    weights: Column
    scores: Column

    def with_more(self, clips: int) -> ChannelColumns:
        """Return the columns with further clips behind, none of which the channel found."""
        more = (0, clips)
        return ChannelColumns(np.pad(self.ranks, more), np.pad(self.weights, more), np.pad(self.scores, more))


@dataclass(frozen=True, eq=False)
class RankedClips:
    """N clips that the channels of a search found.

    Attributes:
        clip_ids: (N,) ids in UTF-8.
        channels: what each channel says of them, in the order in which their shares of a clip's score are added.
        shown: (N,) share of the query's words, rare ones weighing more, that is on screen.
        heard: (N,) share that is said.
        written: (N,) share that is on screen, said, in the clip's name or caption.
        sounds: (N,) share of nonsense that each one's sound beats; NaN where its sound did not find it.
        above_nonsense: (N,) share of nonsense that each one's frames beat; NaN without frames; None where that was not
            measured.
    """

    clip_ids: Encoded
    channels: Mapping[str, ChannelColumns]
    shown: Column
    heard: Column
    written: Column
    sounds: Column
    above_nonsense: Column | None = None

    def __len__(self) -> int:
        return len(self.clip_ids)

    def with_more(self, clip_ids: Encoded) -> RankedClips:
        """Return the clips with others behind them that no channel found."""
        more = len(clip_ids)
        return RankedClips(
            np.concatenate([self.clip_ids, clip_ids]),
            {name: columns.with_more(more) for name, columns in self.channels.items()},
            np.pad(self.shown, (0, more)),
            np.pad(self.heard, (0, more)),
            np.pad(self.written, (0, more)),
            np.pad(self.sounds, (0, more), constant_values=np.nan),
        )

    @cached_property
    def fused(self) -> Column:
        """Sums of the weighted reciprocal ranks, (N,)."""
        total = np.zeros(len(self))
        for columns in self.channels.values():
            there = columns.ranks > 0
            total[there] += columns.weights[there] / (RANK_CONSTANT + columns.ranks[there])
        return total

    @cached_property
    def states(self) -> NDArray[np.int8]:
        """Places of the clips' states in `STATES`, (N,); what was not measured counts as nothing."""
        beats = self.sounds if self.above_nonsense is None else np.fmax(self.sounds, self.above_nonsense)
        fits = (beats >= FITS) | (self.written >= FITS)
        may_fit = (beats >= MAY_FIT) | (self.written >= ANSWERS)
        return np.where(fits, FIT, np.where(may_fit, MAY, NOTHING)).astype(np.int8)

    def counted(self) -> int:
        """Count the clips that are no weaker matches."""
        return int(np.count_nonzero(self.states != NOTHING))

    def clip(self, row: int) -> RankedClip:
        """Return one of the clips with all that is known of it, but for the texts that matched."""
        found_by = {name: columns for name, columns in self.channels.items() if columns.ranks[row]}
        clip = RankedClip(
            self.clip_ids[row].decode("utf-8", "surrogateescape"),
            ranks={name: int(columns.ranks[row]) for name, columns in found_by.items()},
            weights={name: float(columns.weights[row]) for name, columns in found_by.items()},
            scores={name: float(columns.scores[row]) for name, columns in found_by.items()},
            written=float(self.written[row]),
            shown=float(self.shown[row]),
            heard=float(self.heard[row]),
            sounds=None if np.isnan(self.sounds[row]) else float(self.sounds[row]),
        )
        if self.above_nonsense is not None and not np.isnan(above := float(self.above_nonsense[row])):
            clip.above_nonsense = above
        return clip

    def first_ids(self, k: int) -> Encoded:
        """Return the ids of the N clips among the first `k` of a channel, at most `2 * k` of them, (N,) in UTF-8."""
        near = np.zeros(len(self), np.bool_)
        for columns in self.channels.values():
            near |= (columns.ranks > 0) & (columns.ranks <= k)
        return self.clip_ids[np.flatnonzero(near)[: 2 * k]]

    def best(self, wanted: int) -> Indices:
        """Find the rows of the first clips, at least `wanted` and all that equal the last of them, in any order."""
        if wanted >= len(self):
            return np.arange(len(self))
        merit = self.states - self.fused  # rounded: what is equal stays so, and nothing changes places
        rows: Indices = np.flatnonzero(merit <= np.partition(merit, wanted - 1)[wanted - 1])
        return rows

    def in_order(self, wanted: int, paths_of: Callable[[Sequence[str]], Mapping[str, str]]) -> Iterator[int]:
        """Yield rows best first; equal ones go by the share of the query that is written, then by path."""
        rows = self.best(wanted + SPARE)
        first = self._sorted(rows)
        columns = np.stack([column[first] for column in (self.states, self.fused, self.written)])
        starts = np.flatnonzero((columns[:, 1:] != columns[:, :-1]).any(axis=0)) + 1
        for start, stop in pairwise([0, *starts.tolist(), len(first)]):
            equal = first[start:stop]
            if len(equal) > 1:
                ids = [clip_id.decode() for clip_id in self.clip_ids[equal].tolist()]
                paths = paths_of(ids)
                equal = equal[sorted(range(len(ids)), key=lambda place: paths.get(ids[place], ""))]
            yield from equal.tolist()
        rest = np.ones(len(self), np.bool_)
        rest[rows] = False
        yield from self._sorted(np.flatnonzero(rest)).tolist()

    def _sorted(self, rows: Indices) -> Indices:
        return rows[np.lexsort((-self.written[rows], -self.fused[rows], self.states[rows]))]


def found_by_words(signs: SignMatches, named: Sequence[TextMatch], speech: SignMatches | None = None) -> RankedClips:
    """Put the matches of the channels of words together, each sorted best first; equal scores share a rank."""
    ids, shares = encoded_ids(match.clip_id for match in named), np.array([match.score for match in named], np.float64)
    clip_ids, heard_rows, rows = signs.clip_ids, np.empty(0, np.int64), signs.places(ids)
    if speech is not None:
        heard_rows, clip_ids = _rows_among(clip_ids, signs.places(speech.clip_ids), speech.clip_ids)
        there = speech.places(ids)
        rows[(rows < 0) & (there >= 0)] = heard_rows[there[(rows < 0) & (there >= 0)]]
    rows, clip_ids = _rows_among(clip_ids, rows, ids)
    clips = len(clip_ids)
    shown, heard, about = np.zeros(clips), np.zeros(clips), np.zeros(clips)
    shown[: len(signs)] = signs.coverage
    np.maximum.at(about, rows, shares)
    channels = {"on_screen": _of_words(np.arange(len(signs)), signs.scores, signs.coverage, clips)}
    if speech is not None:
        heard[heard_rows] = speech.coverage
        channels["said"] = _of_words(heard_rows, speech.scores, speech.coverage, clips)
    channels["about"] = _of_words(rows, shares, shares, clips)
    written = np.maximum(np.maximum(shown, heard), about)
    return RankedClips(clip_ids, channels, shown, heard, written, np.full(clips, np.nan))


def _rows_among(clip_ids: Encoded, rows: Indices, ids: Encoded) -> tuple[Indices, Encoded]:
    """The rows of some clips (N,), those that have none (-1) behind the others, and the ids of all."""
    new = rows < 0
    rows[new] = len(clip_ids) + np.arange(np.count_nonzero(new))
    return rows, np.concatenate([clip_ids, ids[new]])


def _of_words(rows: Indices, scores: Column, coverage: Column, clips: int) -> ChannelColumns:
    """What a channel of words says of clips that it found, in these rows, the best first."""
    columns = ChannelColumns(np.zeros(clips, np.int64), np.zeros(clips), np.zeros(clips))
    columns.ranks[rows] = np.searchsorted(-scores, -scores, "left") + 1
    columns.weights[rows], columns.scores[rows] = words_weight(coverage), scores
    return columns


def nothing_found() -> RankedClips:
    """Return no clips."""
    none = np.empty(0)
    return RankedClips(encoded_ids(()), {}, none, none, none, none)


def add_seen(found: RankedClips, gallery: FrameGallery, seen: FrameRanking, k: int) -> tuple[RankedClips, int]:
    """Add the matches of the frames' channel: its first k, the first k of each state, and the clips of other channels.

    No other clip can be among the first k of the whole, since k added clips rank above it.
    """
    before = gallery.clip_ids.places(found.clip_ids)
    with_frames = np.flatnonzero(before >= 0)
    chosen, states = [before[with_frames], seen.first(k)], list[Flags]()
    if seen.above_nonsense is not None:
        fits = seen.searched & (seen.above_nonsense >= FITS)
        states = [fits, seen.searched & (seen.above_nonsense >= MAY_FIT) & ~fits]
        for which in states:
            which[chosen[0]] = False  # they are there already
            chosen.append(seen.first(k + SPARE, which))
    places = np.unique(np.concatenate(chosen))
    rows = np.full(len(places), -1)
    rows[np.searchsorted(places, before[with_frames])] = with_frames
    new = rows < 0
    rows[new] = len(found) + np.arange(np.count_nonzero(new))
    added = _with_seen(found.with_more(gallery.clip_ids.encoded[places[new]]), seen, rows, places)
    return added, sum(int(which.sum() - which[places].sum()) for which in states)


def _with_seen(found: RankedClips, seen: FrameRanking, rows: Indices, places: Indices) -> RankedClips:
    """The clips with what their frames say of those in some rows, which have these places in the gallery."""
    columns = ChannelColumns(np.zeros(len(found), np.int64), np.ones(len(found)), np.zeros(len(found)))
    columns.ranks[rows], columns.scores[rows] = seen.ranks_of(places), seen.scores[places]
    above = None
    if seen.above_nonsense is not None:
        above = np.full(len(found), np.nan)
        above[rows] = seen.above_nonsense[places]
    return replace(found, channels={**found.channels, "seen": columns}, above_nonsense=above)
