"""Scores of captions with pairs of a clip and its twin, which has the frames of the clip in another order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import CACHED_BYTES, SCORE_BYTES, Flags, Indices, slices
from evenreel.audits.edits.perturbed import Version
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.order_twins import ORDER_OF, order_twins
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.intervals import clusters_of, numbered
from evenreel.evaluation.ranking import CheckedScores
from evenreel.types import Corpus, ScoreBlocks


@dataclass(frozen=True, eq=False)
class OrderPairs:
    """Scores of Q captions with n pairs of a clip and its twin of another order, and with what else is in the gallery.

    Attributes:
        clips: scores with V clips as they were shot, of which the first n are those of the pairs.
        twins: scores with T twins, of the first T of these clips; the first n are those of the pairs.
        clip_ids: (n,) ids of the clips of the pairs.
        pair: (Q,) index of the pair that each caption is of.
        tells_clip: (Q,) True where a caption describes the clip, False where it describes the twin.
        cluster: (n,) numbers from 0, equal for pairs that are resampled together, such as those of one video.
        chosen: whether nobody has said which pair a caption is of, so that the scores chose it.
        notices: sentences on what was left out.
    """

    clips: Version
    twins: Version
    clip_ids: tuple[str, ...]
    pair: Indices
    tells_clip: Flags
    cluster: Indices
    chosen: bool = False
    notices: tuple[str, ...] = ()

    @property
    def drawn_with(self) -> Indices:
        """Number (Q,) of the cluster that each caption is resampled with."""
        return self.cluster[self.pair]

    @property
    def caption_ids(self) -> tuple[str, ...]:
        """Ids of the Q captions."""
        return tuple(self.clips.scores.caption_ids[row] for row in self.clips.rows.tolist())

    @property
    def by_both(self) -> bool:
        """Whether there are captions of both orders."""
        return not self.tells_clip.all()

    def bands(self, band_bytes: int) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any]]]:
        """Yield, band by band, a slice of the captions and their scores with all clips (b, V) and all twins (b, T)."""
        width = len(self.clips.scores.video_ids) + len(self.twins.scores.video_ids)
        for held in slices(len(self.pair), min(band_bytes, CACHED_BYTES) // (SCORE_BYTES * width)):
            yield held, self.clips.block(held), self.twins.block(held)


@dataclass(frozen=True, eq=False)
class _Given:
    """Scores with clips and with twins, which may be the same scores.

    `twin_of` has the id of each clip's twin in the scores with twins; `known` the same by the corpus, whose captions
    may describe twins that were scored under the id of their clip; `others` are clips that are in no pair.
    """

    clips: CheckedScores
    twins: CheckedScores
    twin_of: dict[str, str]
    known: dict[str, str]
    others: tuple[str, ...]
    notices: tuple[str, ...]


class _Told(NamedTuple):
    """A caption, the clip that it or whose twin it describes, and whether it is the clip that it describes."""

    caption_id: str
    clip_id: str
    tells_clip: bool


def order_pairs(
    scores: ScoreBlocks, corpus: Corpus, edited: Mapping[str, ScoreBlocks], settings: AuditSettings
) -> OrderPairs:
    """Select pairs of a clip and its twin, and the captions of these, from scores.

    Captions of both orders are taken where at least half of the pairs have them, and then only these pairs. Where the
    corpus has no captions, each is of the pair that it scores highest in both orders together, which favours neither.

    Args:
        scores: scores of captions with clips, and with their twins where these are clips of the corpus.
        corpus: corpus, whose column `order_of` says which clip is the twin of which.
        edited: scores of the same captions and clips with their frames in another order, by the name of that order;
            empty where the twins are clips of the corpus.
        settings: how much is read at once, and which clips are resampled together.

    Raises:
        CorpusError: no pair can be measured.
        ScoresError: the scores are no table of captions and videos.
        UsageError: there are scores of several other orders.
    """
    given = _given(scores, corpus, edited)
    told = _described(given, corpus) if corpus.captions.height else _favoured(given, settings)
    return _pairs(given, told, corpus, settings)


def _given(scores: ScoreBlocks, corpus: Corpus, edited: Mapping[str, ScoreBlocks]) -> _Given:
    if len(edited) > 1:
        raise UsageError(
            f"The audit order holds scores against those of one other order, and {', '.join(edited)} are given; give "
            "one --edited NAME=FILE (AuditInputs.edited)."
        )
    clips = CheckedScores(scores)
    twins = next((CheckedScores(one) for one in edited.values()), clips)
    every = order_twins(corpus)
    known = {clip: first for clip, (first, *_) in every.items()}
    made = {twin for several in every.values() for twin in several}
    shot = [clip for clip in clips.video_ids if clip not in made]
    there = set(twins.video_ids)
    twin_of = {clip: clip for clip in shot} if edited else {clip: known[clip] for clip in shot if clip in known}
    held = {clip: twin for clip, twin in twin_of.items() if twin in there}
    if not held:
        raise CorpusError(
            f"No clip is in the scores in two orders (column {ORDER_OF!r} of the corpus), so nothing tells whether "
            "they see order; score the clips also with their frames turned round (`evenreel score --frame-order "
            "reversed`) and give --edited reversed=FILE."
        )
    notices = _counted(
        {
            "Twins beside the first one of the same clip": 0 if edited else len(made) - len(known),
            "Clips without a score in the other order, which only fill the gallery": len(twin_of) - len(held),
        }
    )
    return _Given(clips, twins, held, known, tuple(clip for clip in shot if clip not in held), notices)


def _described(given: _Given, corpus: Corpus) -> list[_Told]:
    """Captions that are in the scores, of clips and twins of pairs."""
    of = {clip: (clip, True) for clip in given.twin_of}
    of |= {given.known[clip]: (clip, False) for clip in given.twin_of if clip in given.known}
    scored = set(given.clips.caption_ids).intersection(given.twins.caption_ids)
    rows = corpus.captions.select("caption_id", "clip_id").iter_rows()
    return [_Told(caption, *of[clip]) for caption, clip in rows if clip in of and caption in scored]


def _favoured(given: _Given, settings: AuditSettings) -> list[_Told]:
    """Captions with the clip that each scores highest in both orders together."""
    scored = set(given.twins.caption_ids)
    captions = [one for one in given.clips.caption_ids if one in scored]
    names, told = [*given.twin_of], []
    clips = _version(given.clips, captions, names)
    twins = _version(given.twins, captions, [*given.twin_of.values()])
    for held in slices(len(captions), min(settings.band_bytes, CACHED_BYTES) // (2 * SCORE_BYTES * len(names))):
        best = (clips.block(held).astype(np.float64) + twins.block(held)).argmax(axis=1)
        told += [_Told(one, names[at], True) for one, at in zip(captions[held], best.tolist(), strict=True)]
    return told


def _pairs(given: _Given, told: list[_Told], corpus: Corpus, settings: AuditSettings) -> OrderPairs:
    of_clip, of_twin = (Counter(one.clip_id for one in told if one.tells_clip is side) for side in (True, False))
    measured = [clip for clip in given.twin_of if of_clip[clip]]
    if not measured:
        raise CorpusError(
            f"Of the {len(given.twin_of):,} clips that are in the scores in two orders none has a caption there; score "
            "captions of the clips, too."
        )
    both = [clip for clip in measured if of_twin[clip]]
    by_both = 2 * len(both) >= len(measured)
    number = {clip: place for place, clip in enumerate(both if by_both else measured)}
    used = [one for one in told if one.clip_id in number and (by_both or one.tells_clip)]
    silent = [clip for clip in given.twin_of if clip not in number]
    in_pairs, captions = [*number, *silent], [one.caption_id for one in used]
    together, _ = numbered(clusters_of(corpus, settings.cluster).of([*number]))
    chosen = not corpus.captions.height
    lacking = "a sentence" if chosen else "captions of both orders" if by_both else "a caption of the clip"
    notices = _counted(
        {
            f"Pairs without {lacking}, which only fill the gallery": len(silent),
            "Captions of twins and of such pairs": len(told) - len(used),
        }
    )
    return OrderPairs(
        _version(given.clips, captions, [*in_pairs, *given.others]),
        _version(given.twins, captions, [given.twin_of[clip] for clip in in_pairs]),
        tuple(number),
        np.array([number[one.clip_id] for one in used], dtype=np.int64),
        np.array([one.tells_clip for one in used]),
        together,
        chosen,
        (*given.notices, *notices),
    )


def _version(scores: CheckedScores, captions: Sequence[str], clips: Sequence[str]) -> Version:
    return Version(scores, _places(scores.caption_ids, captions), _places(scores.video_ids, clips))


def _places(ids: Sequence[str], wanted: Sequence[str]) -> Indices:
    place = {one: number for number, one in enumerate(ids)}
    return np.array([place[one] for one in wanted], dtype=np.int64)


def _counted(counts: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(f"{what}: {count:,}." for what, count in counts.items() if count)
