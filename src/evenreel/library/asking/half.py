"""What one half of 'A, then B' says of clips, and of the moments of a clip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Indices
from evenreel.library.asking.order import NOTHING, TimedEvidence
from evenreel.library.search.channels import AskedChannels
from evenreel.library.search.compact_ids import Encoded
from evenreel.library.search.gallery import Sight
from evenreel.library.search.hits import ANSWERS, MomentHit, TextHit
from evenreel.library.search.moments import high_stretches, shown, spoken
from evenreel.library.search.shown_clips import ShownClip
from evenreel.library.search.sounds import sound_stretches
from evenreel.library.search.text_match import MatchedTracks, SignMatches
from evenreel.library.store.confidence import DEVIATION_FLOOR, FITS, MAY_FIT, as_one_of
from evenreel.types import FloatArray


def states_of(shares: Column, may_fit: float) -> NDArray[np.int8]:
    """Return places in `STATES`, (N,), by shares of nonsense that are beaten, or of a query that is written."""
    return np.where(shares >= FITS, 0, np.where(shares >= may_fit, 1, NOTHING)).astype(np.int8)


def as_deviations(shares: Column, null_best: FloatArray) -> Column:
    """Return shares of a query that are written, (N,), on the scale of frames: what beats so much of nonsense.

    >>> as_deviations(np.array([0.5, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [2.0, 4.0]
    """
    if not len(null_best):  # nonsense was not measured, so frames stand by similarity over the floor
        return shares / DEVIATION_FLOOR
    places = np.ceil(shares * len(null_best) - 1e-9).astype(int) - 1
    found: Column = null_best.astype(np.float64)[np.clip(places, 0, len(null_best) - 1)]
    return found


@dataclass(frozen=True, eq=False)
class ClipEvidence:
    """How well C clips answer a query by any of their moments.

    Attributes:
        seen: (C,) how far the frames of each are above nonsense, in standard deviations; -inf without frames.
        seen_states: (C,) places in `STATES` by frames.
        others: (C,) how far its words and sounds are; -inf without any.
        other_states: (C,) places in `STATES` by words and sounds.
    """

    seen: Column
    seen_states: NDArray[np.int8]
    others: Column
    other_states: NDArray[np.int8]

    @property
    def values(self) -> Column:
        """(C,) the higher of both."""
        return np.maximum(self.seen, self.others)

    @property
    def states(self) -> NDArray[np.int8]:
        """(C,) the better of both."""
        return np.minimum(self.seen_states, self.other_states)

    def of(self, places: Indices) -> ClipEvidence:
        """Return what is said of some clips."""
        return ClipEvidence(*(column[places] for column in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Half:
    """One half of the question.

    Attributes:
        asked: what the channels say of its query.
    """

    asked: AskedChannels

    @property
    def sight(self) -> Sight | None:
        """What the model sees; None where frames are not asked."""
        return self.asked.answered.sight

    @property
    def beyond_frames(self) -> Encoded:
        """Ids of clips that words or sounds find."""
        return self.asked.answered.found.clip_ids[self._shares >= ANSWERS]

    @property
    def _models(self) -> int:
        """Number of models that may say that a clip answers: that of the frames, and that of sounds."""
        sounds = self.asked.sounds
        return 1 + int(sounds is not None and sounds.opened.gallery.measured)

    @cached_property
    def _shares(self) -> Column:
        found = self.asked.answered.found
        sounds = np.where(found.sounds >= MAY_FIT, found.sounds, 0.0)  # others have no moment by sound
        return np.maximum(np.maximum(found.shown, found.heard), sounds)

    def clips(self, places: Indices, count: int) -> ClipEvidence:
        """Say how well clips answer."""
        seen, others = np.full(count, -np.inf), np.full(count, -np.inf)
        seen_states, other_states = np.full(count, NOTHING, np.int8), np.full(count, NOTHING, np.int8)
        if self.sight is not None:
            ranking, own = self.sight.ranking, len(self.asked.gallery.clip_ids)
            seen[:own] = self.deviations(ranking.scores, np.arange(own))
            if self.asked.measured and ranking.above_nonsense is not None:
                found = states_of(as_one_of(ranking.above_nonsense, self._models), MAY_FIT)
                seen_states[:own] = np.where(ranking.searched, found, NOTHING)
        shares = self._shares[self._shares >= ANSWERS]
        others[places] = as_deviations(shares, self.asked.gallery.null_best)
        other_states[places] = states_of(shares, ANSWERS)
        return ClipEvidence(seen, seen_states, others, other_states)

    def deviations(self, scores: FloatArray, places: Indices) -> Column:
        """Return how far similarities of frames (N,) to clips at places (N,) are above nonsense."""
        gallery = self.asked.gallery
        return (scores.astype(np.float64) - gallery.means[places]) / gallery.deviations[places]

    def words_in(self, clip_id: str) -> list[tuple[SignMatches, MatchedTracks]]:
        """Return the tracks and utterances of a clip that match."""
        both = (self.asked.by_words.signs, self.asked.by_words.speech)
        return [(one, tracks) for one in both if one is not None and (tracks := one.timed(clip_id)) is not None]


@dataclass(frozen=True, eq=False)
class FramesOfClip:
    """Frames of a clip: similarities (T,) to a query, how far these are above nonsense, and its state by them."""

    scores: FloatArray
    values: Column
    state: int


class HalfInClip:
    """The moments of a clip at which one half may be answered, and the words there that match."""

    def __init__(self, half: Half, clip_id: str, about: ShownClip, frames: FramesOfClip | None) -> None:
        self._spans_s = about.times.spans_s
        self._frames, self._found = frames, half.words_in(clip_id)
        self._stretches = [] if frames is None else high_stretches(frames.scores, self._spans_s, about.times.shots)
        self._speech = half.asked.by_words.speech
        self.on_screen = _texts(half.asked.by_words.signs, clip_id)
        self.said = _texts(self._speech, clip_id)
        self._sounds = _sounds(half, clip_id)
        null_best = half.asked.gallery.null_best
        parts = [] if frames is None else [self._seen(frames)]
        parts += [
            TimedEvidence(
                tracks.starts_s, tracks.ends_s, as_deviations(tracks.shares, null_best),
                np.where(tracks.shares >= ANSWERS, states_of(tracks.shares, ANSWERS), NOTHING),
            )
            for _, tracks in self._found
        ]  # fmt: skip
        share = np.array([_share_by_sound(half, clip_id)])
        parts += [_of_stretches(self._sounds, float(as_deviations(share, null_best)[0]), states_of(share, MAY_FIT)[0])]
        self.evidence = _joined(parts)

    def _seen(self, frames: FramesOfClip) -> TimedEvidence:
        """Frames as moments; those outside of the stretches that stand out answer nothing."""
        times_s = self._spans_s[:, 0]
        within = np.zeros(len(times_s), np.bool_)
        for one in self._stretches:
            within |= (one.start_s <= times_s) & (times_s <= one.end_s)
        return TimedEvidence(times_s, times_s, frames.values, np.where(within, frames.state, NOTHING))

    def moment(self, place: int) -> MomentHit:
        """Return one of the moments of `evidence` as it is shown."""
        if self._frames is not None:
            if place < len(self._spans_s):
                return self._frame(place)
            place -= len(self._spans_s)
        for matches, tracks in self._found:
            if place < len(tracks.rows):
                (text,) = matches.read(tracks.rows[[place]])
                return spoken(text) if matches is self._speech else shown(text)
            place -= len(tracks.rows)
        return self._sounds[place]

    def _frame(self, place: int) -> MomentHit:
        assert self._frames is not None
        time_s, start_s, end_s = map(float, self._spans_s[place])
        around = next((one for one in self._stretches if one.start_s <= time_s <= one.end_s), None)
        if around is not None:
            start_s, end_s = around.start_s, around.end_s
        return MomentHit(time_s, start_s, end_s, float(self._frames.scores[place]))


def _texts(matches: SignMatches | None, clip_id: str) -> tuple[TextHit, ...]:
    return () if matches is None else matches.hits_of([clip_id])[0]


def _share_by_sound(half: Half, clip_id: str) -> float:
    """Share of nonsense that the sound of a clip beats; 0 of one that is not found by its sound."""
    found = half.asked.answered.found
    (row,) = np.flatnonzero(found.clip_ids == clip_id.encode("utf-8", "surrogateescape"))[:1].tolist() or [-1]
    return float(np.nan_to_num(found.sounds[row])) if row >= 0 else 0.0


def _sounds(half: Half, clip_id: str) -> list[MomentHit]:
    """Stretches that sound like the query, of a clip that is found by its sounds."""
    sight = half.asked.sounds
    if sight is None or _share_by_sound(half, clip_id) < MAY_FIT:
        return []
    return sound_stretches(sight, clip_id, half.asked.notices)


def _of_stretches(found: Sequence[MomentHit], value: float, state: int) -> TimedEvidence:
    starts_s, ends_s = (np.array([getattr(one, name) for one in found], float) for name in ("start_s", "end_s"))
    return TimedEvidence(starts_s, ends_s, np.full(len(found), value), np.full(len(found), state, np.int8))


def _joined(parts: Sequence[TimedEvidence]) -> TimedEvidence:
    return TimedEvidence(*(np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])))
