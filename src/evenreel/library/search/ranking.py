"""Fusion of the search channels: where each clip stands, and which are weaker matches.

A clip is in one of three states:

- `fits`: its frames or its sound do better than a share of `FITS` of nonsense queries does on any clip of the library,
  or a share of `FITS` of the query's words, rare ones weighing more, is written on the clip, said in it, in its name or
  in its caption;
- `may_fit`: its frames or its sound do better than a share of `MAY_FIT`, or a share of `ANSWERS` of the words is
  written there;
- `nothing`: neither. These are the weaker matches, behind a line that is all that is told of the states.

A query of nonsense finds a clip before the line in 10.4 % of cases, whatever the model and the library
(`evenreel.library.store.confidence` says why). That says nothing of how likely a clip is right.

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

from dataclasses import dataclass, field

import numpy as np

from evenreel.arrays import Column
from evenreel.library.search.hits import ANSWERS, Channel, TextHit
from evenreel.library.store.confidence import MAY_FIT

RANK_CONSTANT = 60


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
    written: float = 0.0
    shown: float = 0.0
    heard: float = 0.0
    sounds: float | None = None
    on_screen: tuple[TextHit, ...] = ()
    said: tuple[TextHit, ...] = ()
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def weaker(self) -> bool | None:
        """Whether it is a weaker match; None where no nonsense queries were scored to compare its frames with."""
        if self.written >= ANSWERS or max(self.above_nonsense or 0.0, self.sounds or 0.0) >= MAY_FIT:
            return False
        measured = {"seen": self.above_nonsense, "sounds": self.sounds}
        return None if any(name in self.ranks and share is None for name, share in measured.items()) else True

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
            return (self.above_nonsense or 0.0) >= MAY_FIT
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
