"""Fusion of the search channels: whether each clip answers the query, and the order of the clips.

A clip is in one of three states:

- `fits`: its frames answer, or a share of `FITS` of the query's words, rare ones weighing more, is written on the clip,
  said in it, in its name or in its caption;
- `may_fit`: its frames may answer, or a share of `ANSWERS` of the words is written there;
- `nothing`: neither.

Whether frames answer is a matter of probability where there is a calibration for the library's model
(`evenreel.library.calibration`). Where there is none, they answer if they do better than a share of `FITS` of nonsense
queries does on any clip of the library, and may answer with `MAY_FIT`: a query of nonsense then finds a clip that fits
in 5.5 % of cases, and one that may fit in 10.4 %, whatever the model and the library
(`evenreel.library.store.confidence` says why). That is no probability that the clip is right; docs/library.md says how
often it was on videos whose truth is known.

Clips stand by their state, then by their ranks in the channels, which are fused by

    score(clip) = sum over channels of weight / (60 + rank of the clip in the channel),

equal scores of a channel sharing a rank (Cormack, Clarke and Büttcher, 'Reciprocal Rank Fusion outperforms Condorcet
and individual Rank Learning Methods', SIGIR 2009, with its k = 60 and all weights 1). The frames' channel, which ranks
every clip, has weight 1. A channel of words ranks the clips it finds, and the first of them may have one word of the
query by chance: its weight is 1 where all of the query is written, 0 where half of it or less is, and goes straight
between. So words that are exactly on screen are never pushed out by frames that merely look somewhat alike, and 'a blue
square' is not looked for on a blue carpet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from evenreel.arrays import Column
from evenreel.library.search.hits import ANSWERS, Channel, State, TextHit
from evenreel.library.store.confidence import FITS, MAY_FIT

RANK_CONSTANT = 60

ORDER: Mapping[State | None, int] = {"fits": 0, "may_fit": 1, "nothing": 2, None: 2}


@dataclass
class RankedClip:
    """Ranks and scores of one clip in the channels of a search.

    Attributes:
        clip_id: id of the clip.
        ranks: rank of the clip in each channel that found it.
        weights: weight of its rank in each channel of words, 0 to 1.
        scores: score of the clip in each channel.
        above_nonsense: share of nonsense queries that its frames beat; None without frames or where it was not
            measured.
        by_frames: state by its frames alone; None where `above_nonsense` is.
        probability: how likely its frames show what was asked for; None without a calibration.
        written: share of the query's words, rare ones weighing more, that is on screen, said, in the clip's name or
            caption.
        heard: share of the query's words, rare ones weighing more, that is said.
        sounds: share of nonsense that its sound beats; None where its sound did not find it, or it was not measured.
        shown: share of the query's words, rare ones weighing more, that is on screen.
        on_screen: on-screen texts that matched.
        said: utterances that matched.
        parts: similarities that a matcher's score is the mean of.
    """

    clip_id: str
    ranks: dict[str, int] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    above_nonsense: float | None = None
    by_frames: State | None = None
    probability: float | None = None
    written: float = 0.0
    shown: float = 0.0
    heard: float = 0.0
    sounds: float | None = None
    on_screen: tuple[TextHit, ...] = ()
    said: tuple[TextHit, ...] = ()
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def state(self) -> State | None:
        """State of the clip; None where its frames may answer but no nonsense queries were scored to compare with."""
        sounds = self.sounds or 0.0
        if self.by_frames == "fits" or self.written >= FITS or sounds >= FITS:
            return "fits"
        if self.by_frames == "may_fit" or self.written >= ANSWERS or sounds >= MAY_FIT:
            return "may_fit"
        unknown = "seen" in self.ranks and self.by_frames is None, "sounds" in self.ranks and self.sounds is None
        return None if any(unknown) else "nothing"

    @property
    def found_by(self) -> Channel:
        """Channel that is the best reason for the clip.

        A name or a caption, which says nothing of when, is one only where frames would not have found the clip.
        """
        seen = (self.above_nonsense or 0.0) if "seen" in self.ranks else -1.0
        if self.sounds_best(seen):
            return "sounds"
        if self.on_screen and self.shown >= max(seen, self.written):
            return "on_screen"
        if self.said and self.heard >= max(seen, self.written):
            return "said"
        by_name = "about" in self.ranks and self.written > seen and not self.answers_by("seen")
        return "about" if by_name else "seen"

    def sounds_best(self, seen: float) -> bool:
        """Return whether its sound is a better reason for the clip than its frames, which beat this share, or words."""
        if "sounds" not in self.ranks:
            return False
        alone = "seen" not in self.ranks and not self.written
        return alone or (self.sounds or 0.0) > max(seen, self.written)

    def answers_by(self, channel: Channel) -> bool:
        """Return whether the clip would be in the answer by its frames, its on-screen text, speech or sound alone."""
        if channel == "seen":
            return self.by_frames in {"fits", "may_fit"}
        if channel == "sounds":
            return (self.sounds or 0.0) >= MAY_FIT
        return (self.heard if channel == "said" else self.shown) >= ANSWERS

    @property
    def fused(self) -> float:
        """Sum of the weighted reciprocal ranks."""
        return sum(self.weights.get(channel, 1.0) / (RANK_CONSTANT + rank) for channel, rank in self.ranks.items())


def words_weight(coverage: Column) -> Column:
    """Return the weights of ranks in a channel of words, (N,), by the shares of the query's weight that are written.

    >>> words_weight(np.array([0.0, 0.5, 0.75, 1.0])).tolist()
    [0.0, 0.0, 0.5, 1.0]
    """
    return np.maximum(0.0, (coverage - ANSWERS) / (1 - ANSWERS))


def best_state(found: Iterable[RankedClip]) -> State | None:
    """Return the state of the clip that answers best; `nothing` where there is no clip."""
    return min((clip.state for clip in found), key=lambda state: (ORDER[state], state is not None), default="nothing")
