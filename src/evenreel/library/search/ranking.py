"""Fusion of the search channels: whether each clip answers the query, and the order of the clips.

A clip is in one of three states:

- `fits`: its frames answer, or a share of `FITS` of the query's words, rare ones weighing more, is written on the clip,
  in its name or in its caption;
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

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

import numpy as np

from evenreel.arrays import Column, Flags
from evenreel.library.search.gallery import FrameGallery, FrameRanking
from evenreel.library.search.hits import ANSWERS, Channel, State, TextHit
from evenreel.library.search.judging import JudgedClips
from evenreel.library.search.text_match import SignMatches, TextMatch
from evenreel.library.store.confidence import FITS, MAY_FIT

RANK_CONSTANT = 60

SPARE = 100
"""Further clips that are put in order, in place of damaged ones before them."""

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
        written: share of the query's words, rare ones weighing more, that is on screen, in the clip's name or caption.
        shown: share of the query's words, rare ones weighing more, that is on screen.
        on_screen: on-screen texts that matched.
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
    on_screen: tuple[TextHit, ...] = ()
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def state(self) -> State | None:
        """State of the clip; None where its frames may answer but no nonsense queries were scored to compare with."""
        if self.by_frames == "fits" or self.written >= FITS:
            return "fits"
        if self.by_frames == "may_fit" or self.written >= ANSWERS:
            return "may_fit"
        return None if "seen" in self.ranks and self.by_frames is None else "nothing"

    @property
    def found_by(self) -> Channel:
        """Channel that is the best reason for the clip.

        A name or a caption, which says nothing of when, is one only where frames would not have found the clip.
        """
        seen = (self.above_nonsense or 0.0) if "seen" in self.ranks else -1.0
        if self.on_screen and self.shown >= max(seen, self.written):
            return "on_screen"
        by_name = "about" in self.ranks and self.written > seen and not self.answers_by("seen")
        return "about" if by_name else "seen"

    def answers_by(self, channel: Channel) -> bool:
        """Return whether the clip would be in the answer by one channel alone, its frames or its on-screen text."""
        return self.by_frames in {"fits", "may_fit"} if channel == "seen" else self.shown >= ANSWERS

    @property
    def fused(self) -> float:
        """Sum of the weighted reciprocal ranks."""
        return sum(self.weights.get(channel, 1.0) / (RANK_CONSTANT + rank) for channel, rank in self.ranks.items())


def words_weight(coverage: float) -> float:
    """Return the weight of a rank in a channel of words, by the share of the query's weight that is written.

    >>> [words_weight(coverage) for coverage in (0.0, 0.5, 0.75, 1.0)]
    [0.0, 0.0, 0.5, 1.0]
    """
    return max(0.0, (coverage - ANSWERS) / (1 - ANSWERS))


def add_words(found: dict[str, RankedClip], signs: SignMatches, named: Sequence[TextMatch]) -> None:
    """Add the matches of the channels of words, each sorted best first; equal scores share a rank.

    Args:
        found: clips that were found before; those of the words join them.
        signs: matches on screen; which signs they are is read later, of the clips that are shown.
        named: matches in names and captions.
    """
    columns = signs.clip_ids.tolist(), signs.scores.tolist(), signs.coverage.tolist(), _shared_ranks(signs.scores)
    for clip_id, score, coverage, rank in zip(*columns, strict=True):
        _enter(found, "on_screen", TextMatch(clip_id.decode(), score, coverage), rank).shown = coverage
    for written, rank in zip(named, _shared_ranks(np.array([one.score for one in named])), strict=True):
        _enter(found, "about", written, rank)


def _enter(found: dict[str, RankedClip], channel: str, written: TextMatch, rank: int) -> RankedClip:
    clip = found.setdefault(written.clip_id, RankedClip(written.clip_id))
    clip.ranks[channel], clip.scores[channel] = rank, written.score
    clip.weights[channel] = words_weight(written.coverage)
    clip.written = max(clip.written, written.coverage)
    return clip


def _shared_ranks(scores: Column) -> list[int]:
    """Ranks of scores that fall, the best 1; equal ones share theirs."""
    ranks: list[int] = (np.searchsorted(-scores, -scores, "left") + 1).tolist()
    return ranks


def first_written(found: Mapping[str, RankedClip], k: int) -> list[str]:
    """List clips that words found among the first `k` of a channel, at most `2 * k` of them."""
    return list(islice((clip.clip_id for clip in found.values() if min(clip.ranks.values()) <= k), 2 * k))


def add_seen(
    found: dict[str, RankedClip], gallery: FrameGallery, seen: FrameRanking, k: int, judged: JudgedClips | None = None
) -> Counter[State]:
    """Add the matches of the frames' channel: its first k, the first k of each state, and the clips of other channels.

    No other clip can be among the first k of the whole, since k added clips rank above it. Which clips fit follows from
    the probabilities of `judged`, else from `seen.above_nonsense` where that was measured.

    Returns:
        How many clips fit, or may fit, beside those that were added.
    """
    above, written = seen.above_nonsense, gallery.clip_ids.places(found)
    chosen, states = [written[written >= 0], seen.first(k)], list[tuple[State, Flags]]()
    if judged is not None:
        chosen.append(np.array([place for place, state in judged.states.items() if state != "nothing"], np.int64))
    elif above is not None:
        fits = seen.searched & (above >= FITS)
        states = [("fits", fits), ("may_fit", seen.searched & (above >= MAY_FIT) & ~fits)]
        for _, which in states:
            which[chosen[0]] = False  # they are there already
            chosen.append(seen.first(k + SPARE, which))
    places = np.unique(np.concatenate(chosen))
    for place, rank in zip(places.tolist(), seen.ranks_of(places).tolist(), strict=True):
        clip_id = gallery.clip_ids[place]
        clip = found.setdefault(clip_id, RankedClip(clip_id))
        clip.ranks["seen"], clip.scores["seen"] = rank, float(seen.scores[place])
        if above is not None:
            clip.above_nonsense = float(above[place])
            clip.by_frames = _rank_state(clip.above_nonsense) if judged is None else judged.states.get(place, "nothing")
            clip.probability = None if judged is None else judged.clips.get(place)
    return Counter({state: int(which.sum() - which[places].sum()) for state, which in states})


def _rank_state(above_nonsense: float) -> State:
    """State of a clip by its rank among nonsense."""
    return "fits" if above_nonsense >= FITS else "may_fit" if above_nonsense >= MAY_FIT else "nothing"


def ordered(
    found: Iterable[RankedClip], wanted: int, paths_of: Callable[[Sequence[str]], Mapping[str, str]]
) -> list[RankedClip]:
    """Sort clips best first; equal ones go by the share of the query that is written, then by path.

    Args:
        found: the clips.
        wanted: number of clips whose order counts, but for damaged ones; equal ones behind them are left as they are.
        paths_of: function that reads the paths of some clips; called for equal ones alone.
    """
    best = sorted(found, key=_merit)
    for _, group in groupby(range(len(best)), key=lambda place: _merit(best[place])):
        places = list(group)
        if places[0] >= wanted + SPARE:
            break
        if len(places) > 1:
            equal = slice(places[0], places[-1] + 1)
            paths = paths_of([clip.clip_id for clip in best[equal]])
            best[equal] = sorted(best[equal], key=lambda clip: paths[clip.clip_id])
    return best


def _merit(clip: RankedClip) -> tuple[int, float, float]:
    return ORDER[clip.state], -clip.fused, -clip.written


def best_state(found: Iterable[RankedClip]) -> State | None:
    """Return the state of the clip that answers best; `nothing` where there is no clip."""
    return min((clip.state for clip in found), key=lambda state: (ORDER[state], state is not None), default="nothing")
