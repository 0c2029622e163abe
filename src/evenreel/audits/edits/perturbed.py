"""Ranks of captions' own clips, without and with an edit of clips or captions.

Scores after an edit are read a band at a time beside those without one, so nothing of the size Q x V is made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import CACHED_BYTES, SCORE_BYTES, Column, Indices, slices
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.intervals import AUTO, clusters_of, numbered
from evenreel.evaluation.ranking import CheckedScores, Hits
from evenreel.types import Corpus, ScoreBlocks

Block = NDArray[Any]

AS_IS = ""
"""The name of the edit that changes nothing."""

CLIP_PLACINGS = {"its clip": (True, False), "the other clips": (False, True), "all clips": (True, True)}
"""Which clips are the edited ones, where clips are edited: the caption's own, the others."""

CAPTION_PLACINGS = {"the caption": (True, True)}
"""Where captions are edited, every score of a caption is one of the edited caption."""

_ROUNDING = 1e-9
"""Scores that lie nearer together than this share of their distance to the own clip's are equal but for rounding."""


@dataclass(frozen=True, eq=False)
class Standings:
    """Ranks and score distances of the own clips of Q captions among the V - 1 other clips.

    Attributes:
        hits: ranks of the own clips; equal scores are in random order.
        distance: (Q,) score of the own clip less the mean of the others' finite scores, in their standard deviations.
            NaN where not known: the own score is minus infinity, or the others are all equal and it is not.
        others: number V - 1 of other clips.
    """

    hits: Hits
    distance: Column
    others: int

    @property
    def percentile(self) -> Column:
        """Share (Q,) of the other clips that each own clip scores above, ties half, in percent."""
        below = self.others - self.hits.above - self.hits.others / 2
        return np.asarray(100 * below / self.others)

    @classmethod
    def of(cls, own: Block, others: Block) -> Standings:
        """Compute ranks and distances of b own clips from their scores (b,) and those of the other clips (b, V - 1).

        >>> found = Standings.of(np.array([3.0]), np.array([[1.0, 3.0, 5.0, -np.inf]]))
        >>> found.distance.tolist(), found.percentile.tolist()
        ([0.0], [62.5])
        """
        column = own[:, None]
        above, equal = (np.count_nonzero(test(others, column), axis=1) for test in (np.greater, np.equal))
        hits = Hits(np.arange(len(own)), above, equal, np.ones_like(above), np.asarray(own > -np.inf))
        return cls(hits, _distance(own, others), others.shape[1])

    @classmethod
    def joined(cls, parts: Sequence[Standings]) -> Standings:
        """Concatenate standings of several bands of captions."""
        distance = np.concatenate([part.distance for part in parts])
        every, starts = np.arange(len(distance)), np.cumsum([0, *(len(part.distance) for part in parts)])
        hits = [part.hits.renumbered(every[start:]) for part, start in zip(parts, starts, strict=False)]
        return cls(Hits.joined(hits), distance, parts[0].others)


def _distance(own: Block, others: Block) -> Column:
    known = np.isfinite(others) & np.isfinite(own)[:, None]
    gaps = np.subtract(own[:, None], others, out=np.zeros(others.shape), where=known, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):  # nothing is known, or all others are equal
        mean = gaps.sum(axis=1) / known.sum(axis=1)
        variance = (known * (gaps - mean[:, None]) ** 2).sum(axis=1) / known.sum(axis=1)
        distance = mean / np.sqrt(variance)
    spread = variance > (_ROUNDING * mean) ** 2
    return np.where(spread, distance, np.where(mean == 0, 0.0, np.nan))


@dataclass(frozen=True, eq=False)
class Version:
    """Scores after one edit, with the captions and clips that all versions have, in the same order."""

    scores: CheckedScores
    rows: Indices
    columns: Indices

    def block(self, held: slice) -> Block:
        """Read the scores (b, V) of some of the Q captions."""
        rows, every = self.rows[held], slice(0, len(self.scores.video_ids))
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        parts = [self.scores.block(slice(int(run[0]), int(run[-1]) + 1), every) for run in runs]
        return np.concatenate(parts).take(self.columns, axis=1)


@dataclass(frozen=True, eq=False)
class Perturbed:
    """Scores as they are and after edits, of the Q captions and V clips that all of them have.

    Attributes:
        versions: scores by the name of the edit, `AS_IS` (no edit) first.
        clip_ids: (V,) ids of the clips.
        own: (Q,) index of the clip that each caption describes, or looks for.
        cluster: (V,) numbers from 0, equal for clips that are resampled together, such as those of one video.
        caption_ids: (Q,) ids of the captions.
        notices: sentences on what was left out.
    """

    versions: dict[str, Version]
    clip_ids: tuple[str, ...]
    own: Indices
    cluster: Indices
    caption_ids: tuple[str, ...]
    notices: tuple[str, ...]

    @property
    def drawn_with(self) -> Indices:
        """Number (Q,) of the cluster that each caption is resampled with: its clip, or its clip's video."""
        return self.cluster[self.own]

    @cached_property
    def edits(self) -> tuple[str, ...]:
        """Names of the edits, in the order they were given."""
        return tuple(name for name in self.versions if name != AS_IS)

    @classmethod
    def of(
        cls, scores: ScoreBlocks, corpus: Corpus, edited: Mapping[str, ScoreBlocks], cluster: str = AUTO
    ) -> Perturbed:
        """Collect the scores of the captions and clips that all versions have.

        Args:
            scores: scores of the unedited captions and clips.
            corpus: corpus that names each caption's own clip.
            edited: scores after an edit, by its name.
            cluster: clips that are resampled together, see `evenreel.evaluation.intervals`.

        Raises:
            CorpusError: there is no such caption with its clip, or no other clip.
            ScoresError: scores are no table of captions and videos.
            UsageError: there are no edited scores.
        """
        if not edited:
            raise UsageError(
                "There are no scores after an edit to hold these against; give them with --edited NAME=FILE "
                "(AuditInputs.edited)."
            )
        checked = {name: CheckedScores(one) for name, one in {AS_IS: scores, **edited}.items()}
        clean = checked[AS_IS]
        clips = _in_all(clean.video_ids, (one.video_ids for one in checked.values()))
        captions = _in_all(clean.caption_ids, (one.caption_ids for one in checked.values()))
        clip_of, place = dict(corpus.captions.select("caption_id", "clip_id").rows()), _places(clips)
        asked = tuple(one for one in captions if clip_of.get(one) in place)
        if not asked or len(clips) < 2:
            raise CorpusError(
                f"The scores and the edited ones share {len(clips):,} clips, and {len(asked):,} captions whose clip is "
                "among them; score the same captions and clips before and after the edit, at least two clips."
            )
        versions = {
            name: Version(one, _places_of(one.caption_ids, asked), _places_of(one.video_ids, clips))
            for name, one in checked.items()
        }
        own = np.array([place[clip_of[one]] for one in asked], dtype=np.int64)
        together, _ = numbered(clusters_of(corpus, cluster).of(clips))
        return cls(versions, clips, own, together, asked, _left_out(checked, len(clips), len(asked)))

    def aimed(self, captions: Indices, clips: Indices) -> Perturbed:
        """Return the same scores for P captions, which may recur, each with another clip in place of its own.

        Args:
            captions: (P,) indices of the captions.
            clips: (P,) index of the clip that counts as each one's own.
        """
        versions = {name: replace(one, rows=one.rows[captions]) for name, one in self.versions.items()}
        return replace(self, versions=versions, own=clips, caption_ids=tuple(self.caption_ids[one] for one in captions))

    def standings(self, placings: Mapping[str, tuple[bool, bool]], band_bytes: int) -> dict[tuple[str, str], Standings]:
        """Compute ranks and distances of own clips, by the names of edit and placing, (`AS_IS`, `AS_IS`) first.

        Args:
            placings: pairs by name: whether the own clip's score is the edited one, and whether the others' are.
            band_bytes: about how many bytes of scores are read at once.

        Raises:
            ScoresError: a score is NaN; the sentence names caption and clip.
        """
        parts: dict[tuple[str, str], list[Standings]] = defaultdict(list)
        for held in self.bands(band_bytes):
            own, others = self._own_and_others(AS_IS, held)
            parts[AS_IS, AS_IS].append(Standings.of(own, others))
            for edit in self.edits:
                own_after, others_after = self._own_and_others(edit, held)
                for placing, (of_own, of_others) in placings.items():
                    found = Standings.of(own_after if of_own else own, others_after if of_others else others)
                    parts[edit, placing].append(found)
        return {key: Standings.joined(some) for key, some in parts.items()}

    def bands(self, band_bytes: int, width: int = 1) -> Iterator[slice]:
        """Iterate over slices of the Q captions whose scores, or `width` times as many, fit in `band_bytes`."""
        widest = max(width, *(len(one.scores.video_ids) for one in self.versions.values()))
        return slices(len(self.own), min(band_bytes, CACHED_BYTES) // (SCORE_BYTES * widest))

    def _own_and_others(self, edit: str, held: slice) -> tuple[Block, Block]:
        """(b,) scores of the own clips and (b, V - 1) of the others."""
        block, own = self.versions[edit].block(held), self.own[held]
        other = np.arange(block.shape[1]) != own[:, None]
        return block[np.arange(len(own)), own], block[other].reshape(len(own), -1)


def _in_all(first: Sequence[str], every: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Ids that all have, in the order of the first."""
    shared = set(first).intersection(*every)
    return tuple(one for one in first if one in shared)


def _places(ids: Sequence[str]) -> dict[str, int]:
    return {one: place for place, one in enumerate(ids)}


def _places_of(ids: Sequence[str], wanted: Sequence[str]) -> Indices:
    place = _places(ids)
    return np.array([place[one] for one in wanted], dtype=np.int64)


def _left_out(checked: Mapping[str, CheckedScores], clips: int, captions: int) -> tuple[str, ...]:
    every_clip = {clip for one in checked.values() for clip in one.video_ids}
    every_caption = {caption for one in checked.values() for caption in one.caption_ids}
    counts = {
        "Clips that are not in all of the scores": len(every_clip) - clips,
        "Captions that are not in all of the scores, or whose clip is not": len(every_caption) - captions,
    }
    return tuple(f"{what}: {count:,} left out." for what, count in counts.items() if count)
