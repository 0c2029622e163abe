"""Fusion of the search channels: where each clip stands, and which are weaker matches.

A clip is in one of three states:

- `fits`: its frames or its sound do better than a share of `FITS` of nonsense queries does on any clip of the library,
  or a share of `FITS` of the query's words, rare ones weighing more, is written on the clip, said in it, in its name or
  in its caption;
- `may_fit`: its frames or its sound do better than a share of `MAY_FIT`, or a share of `ANSWERS` of the words is
  written there;
- `nothing`: neither. These are the weaker matches, behind a line that is all that is told of the states.

A query of nonsense finds a clip before the line in 10.4 % of cases, whatever the model and the library
(`evenreel.library.store.vectors` says why). That says nothing of how likely a clip is right.

Clips stand by their state, then by their ranks in the channels, which are fused by

    score(clip) = sum over channels of weight / (60 + rank of the clip in the channel),

equal scores of a channel sharing a rank (Cormack, Clarke and Büttcher, 'Reciprocal Rank Fusion outperforms Condorcet
and individual Rank Learning Methods', SIGIR 2009, with its k = 60 and all weights 1). The frames' channel, which ranks
every clip, has weight 1. A channel of words ranks the clips it finds, and the first of them may have one word of the
query by chance: its weight is 1 where all of the query is written, 0 where half of it or less is, and goes straight
between. So words that are exactly on screen are never pushed out by frames that merely look somewhat alike, and 'a blue
square' is not looked for on a blue carpet. What a clip sounds like weighs 1 where it fits, 0 where it hardly may.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags, Indices
from evenreel.library.search import filters
from evenreel.library.search.hits import ANSWERS, STATES, Channel
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.search.words import WordMatches
from evenreel.library.store.vectors import FITS, MAY_FIT
from evenreel.types import FloatArray

RANK_CONSTANT = 60
FIT, MAY, NOTHING = range(len(STATES))


@dataclass(frozen=True, eq=False)
class ChannelColumns:
    """What one channel says of clips, (C,): ranks from 1 on, 0 where it did not find a clip; their weights; scores."""

    ranks: Indices
    weights: Column | float
    scores: Column


@dataclass(frozen=True, eq=False)
class Ranked:
    """What all channels say of clips; arrays are (C,)."""

    # what each says, in the order in which their shares of a clip's score are added
    channels: Mapping[Channel, ChannelColumns]
    texts: Mapping[Channel, Column]  # share of the query's words, rare ones weighing more, in each channel of words
    sounds: Column  # share of nonsense that each one's sound beats; NaN where its sound did not find it
    # share of nonsense that each one's frames beat; NaN without frames; None where that was not measured
    above: Column | None

    @cached_property
    def written(self) -> Column:
        """Share of the query's words that is on screen, said, in the clip's name or caption."""
        found: Column = np.max([*self.texts.values(), np.zeros(len(self.sounds))], axis=0)
        return found

    @cached_property
    def fused(self) -> Column:
        """Sums of the weighted reciprocal ranks."""
        total = np.zeros(len(self.sounds))
        for columns in self.channels.values():
            share = columns.weights / (RANK_CONSTANT + columns.ranks)
            total += np.where(columns.ranks > 0, share, 0.0)
        return total

    @cached_property
    def found(self) -> Flags:
        """Which clips any channel found."""
        found = np.zeros(len(self.sounds), np.bool_)
        for columns in self.channels.values():
            found |= columns.ranks > 0
        return found

    @cached_property
    def states(self) -> NDArray[np.int8]:
        """Places of the clips' states in `STATES`; what was not measured counts as nothing."""
        beats = self.sounds if self.above is None else np.fmax(self.sounds, self.above)
        fits = (beats >= FITS) | (self.written >= FITS)
        may_fit = (beats >= MAY_FIT) | (self.written >= ANSWERS)
        return np.where(fits, FIT, np.where(may_fit, MAY, NOTHING)).astype(np.int8)

    def matches(self) -> int:
        """Count the clips that are no weaker matches."""
        return int(np.count_nonzero(self.found & (self.states != NOTHING)))

    def best(self, s: Snapshot, k: int, where: str | None) -> list[int]:
        """Find the first k clips; equal ones go by the share of the query that is written, then by path."""
        places = np.flatnonzero(self.found)
        merit = self.states[places] - self.fused[places]
        if k < len(places):  # rounded: what is equal stays so, and nothing changes places
            places = places[merit <= np.partition(merit, k - 1)[k - 1]]
        keys = self.states[places], -self.fused[places], -self.written[places]
        order = np.lexsort(keys[::-1])
        equal = np.ones(max(0, len(order) - 1), np.bool_)
        for key in keys:
            equal &= np.diff(key[order]) == 0
        if equal[:k].any():
            ids = s.ids(places)
            paths = filters.first_paths(s.connection, s.read_filter(where), ids)
            by_path = np.array([paths.get(clip_id, "") for clip_id in ids], object).argsort(kind="stable").argsort()
            order = np.lexsort((by_path, *keys[::-1]))
        found: list[int] = places[order][:k].tolist()
        return found

    def with_seen_ranks(self, places: Indices, ranks: Indices) -> Ranked:
        """Return the same with other ranks of some clips by what is seen."""
        seen = self.channels["seen"]
        changed = seen.ranks.copy()
        changed[places] = ranks
        return replace(self, channels={**self.channels, "seen": replace(seen, ranks=changed)})

    def found_in(self, channel: Channel, place: int) -> bool:
        """Return whether a channel found a clip."""
        return channel in self.channels and bool(self.channels[channel].ranks[place])

    def beats(self, place: int) -> float | None:
        """Return the share of nonsense that a clip's frames beat; None without frames, or where it was not measured."""
        found = np.nan if self.above is None else float(self.above[place])
        return None if np.isnan(found) else found

    def sounds_of(self, place: int) -> float | None:
        """Return the share of nonsense that a clip's sound beats; None where its sound did not find it."""
        return None if np.isnan(self.sounds[place]) else float(self.sounds[place])

    def weaker(self, place: int) -> bool | None:
        """Return whether a clip is a weaker match; None where no nonsense was scored to compare its frames with."""
        beats, sounds = self.beats(place), self.sounds_of(place)
        if self.written[place] >= ANSWERS or max(beats or 0.0, sounds or 0.0) >= MAY_FIT:
            return False
        measured: dict[Channel, float | None] = {"seen": beats, "sounds": sounds}
        return None if any(self.found_in(name, place) and one is None for name, one in measured.items()) else True

    def scores(self, place: int) -> dict[str, float]:
        """Return a clip's score in each channel that found it."""
        return {name: float(one.scores[place]) for name, one in self.channels.items() if one.ranks[place]}

    def answers_by(self, channel: Channel, place: int) -> bool:
        """Return whether a clip would be in the answer by one channel alone."""
        if channel == "seen":
            return (self.beats(place) or 0.0) >= MAY_FIT
        if channel == "sounds":
            return (self.sounds_of(place) or 0.0) >= MAY_FIT
        return channel in self.texts and bool(self.texts[channel][place] >= ANSWERS)

    def found_by(self, place: int) -> Channel:
        """Return the channel that is the best reason for a clip.

        A name or a caption, which says nothing of when, is one only where frames would not have found the clip.
        """
        seen = (self.beats(place) or 0.0) if self.found_in("seen", place) else -1.0
        written = float(self.written[place])
        if self.found_in("sounds", place):
            alone = not self.found_in("seen", place) and not written
            if alone or (self.sounds_of(place) or 0.0) > max(seen, written):
                return "sounds"
        for channel in ("on_screen", "said"):
            share = float(self.texts[channel][place]) if channel in self.texts else 0.0
            if share and share >= max(seen, written):
                return channel
        by_name = self.found_in("about", place) and written > seen and not self.answers_by("seen", place)
        return "about" if by_name else "seen"


def fuse(
    texts: Mapping[Channel, WordMatches],
    sounds: tuple[ChannelColumns, Column] | None,
    seen: FloatArray | None,
    above: Column | None,
    clips: int,
) -> Ranked:
    """Put channels of words, what clips (C,) sound like, and scores of frames, -inf where not scored, together."""
    channels: dict[Channel, ChannelColumns] = {}
    for channel, one in texts.items():
        weights = np.maximum(0.0, (one.coverage - ANSWERS) / (1 - ANSWERS))
        channels[channel] = ChannelColumns(ranks_of(one.scores, one.coverage > 0), weights, one.scores)
    shares = np.full(clips, np.nan)
    if sounds is not None:
        channels["sounds"], shares = sounds
    if seen is not None:
        channels["seen"] = ChannelColumns(ranks_of(seen, np.isfinite(seen)), 1.0, seen.astype(np.float64))
    return Ranked(channels, {channel: one.coverage for channel, one in texts.items()}, shares, above)


def ranks_of(scores: Column | FloatArray, there: Flags) -> Indices:
    """Count the clips before each of those that are there, and one: (C,), 0 of others; equal scores share a rank."""
    ranks = np.zeros(len(scores), np.int64)
    ordered = np.sort(scores[there])
    ranks[there] = len(ordered) - np.searchsorted(ordered, scores[there], "right") + 1
    return ranks
