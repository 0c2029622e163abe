"""What an audit is given: scores, corpus and settings, pairs of real clips and their mirrors, and rows in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import CACHED_BYTES, Column, Flags, Indices, row_bands
from evenreel.audits.settings import EDITED, TEXTS, AuditSettings
from evenreel.config import check_named, check_settings_kind
from evenreel.corpus.counterparts import counterparts
from evenreel.corpus.folder import CorpusLike, as_corpus
from evenreel.errors import CorpusError
from evenreel.evaluation.intervals import AUTO, clusters_of, numbered
from evenreel.evaluation.ranking import CheckedScores
from evenreel.evaluation.scores import ScoresLike, as_scores
from evenreel.report.paragraphs import page_paragraph
from evenreel.report.words import uses_sentence
from evenreel.types import Corpus, ScoreBlocks


class Audited(NamedTuple):
    """Scores with their corpus and settings, as audits work on them."""

    scores: ScoreBlocks
    corpus: Corpus
    settings: AuditSettings


def as_inputs(scores: ScoresLike, corpus: CorpusLike, settings: AuditSettings | None) -> Audited:
    """Convert what an audit was given to scores, their corpus and settings, the default ones where none are given."""
    check_settings_kind(settings, AuditSettings)
    corpus = as_corpus(corpus)
    return Audited(as_scores(scores, corpus), corpus, settings or AuditSettings())


def as_edited(edited: Mapping[str, ScoresLike], corpus: Corpus) -> dict[str, ScoreBlocks]:
    """Convert what stands for scores after edits, by the names of the edits, to scores of a corpus."""
    check_named(edited, "edited", *EDITED)
    return {name: as_scores(scores, corpus, f"edited[{name!r}]") for name, scores in edited.items()}


def as_texts(texts: Mapping[str, CorpusLike]) -> dict[str, Corpus]:
    """Convert what stands for corpora of edited captions, by the names of the edits, to corpora."""
    check_named(texts, *TEXTS)
    return {name: as_corpus(given, f"{TEXTS[0]}[{name!r}]") for name, given in texts.items()}


def score_notices(scores: ScoreBlocks, corpus: Corpus, cluster: str) -> Iterator[str]:
    """Yield notices on scores: what they use, what of a corpus they leave out, and what is resampled together."""
    if scores.about.uses:
        yield uses_sentence(scores.about.uses)
    yield from scores.about.notices
    for ids, known, what in (
        (scores.caption_ids, corpus.captions["caption_id"], "caption"),
        (scores.video_ids, corpus.clips["clip_id"], "clip"),
    ):
        scored = set(ids)
        if missing := [one for one in known if one not in scored]:
            yield (
                f"{len(missing):,} of {len(known):,} {what}s of the corpus have no scores, the first {missing[0]!r}; "
                "what is said here leaves them out, so name the split that was scored."
            )
    if notice := clusters_of(corpus, cluster).notice:
        yield notice


def paragraph(page: str, heading: str, **values: object) -> str:
    """Read a paragraph on how audits compute their figures, from `audits/words`, with values in its braces.

    >>> paragraph("shared", "Permuted clips", what="lengths are permuted")[:70]
    'Interval and p are over captions and clips: lengths are permuted, whil'
    """
    return page_paragraph("evenreel.audits", page, heading, **values)


def paragraphs(page: str, *headings: str) -> tuple[str, ...]:
    """Read several paragraphs of one page, without any braces, by their headings."""
    return tuple(paragraph(page, heading) for heading in headings)


# Pairs ---------------------------------------------------------------------------------------------------------------


_OWN = ("caption_id", "clip_id")


def scenes_of(corpus: Corpus) -> dict[str, str]:
    """Return the scene of each clip, by clip id: the id of the real clip that it mirrors, or its own.

    Clips of one scene answer the same captions.
    """
    pairs = counterparts(corpus)
    mirrored = dict(zip(pairs["generated_id"], pairs["clip_id"], strict=True))
    return {clip: mirrored.get(clip, clip) for clip in corpus.clips["clip_id"]}


@dataclass(frozen=True, eq=False)
class PairedScores:
    """Scores of Q captions with n pairs of a real clip and its mirror (the clip generated after it)."""

    scores: CheckedScores  # all scores, checked when they are read
    rows: Indices  # (Q,) rows of the captions in the scores, ascending
    pair: Indices  # (Q,) index of the pair that answers each caption
    drawn: Indices  # (Q,) index of each caption in its corpus, whatever the order of the scores
    real: Indices  # (n,) column of the real clip of each pair
    generated: Indices  # (n,) column of its mirror
    cluster: Indices  # (n,) cluster of each pair, from 0: the pair alone, or all pairs of its real clip's video
    notices: tuple[str, ...] = ()  # sentences on what was left out

    @property
    def drawn_with(self) -> Indices:
        """Number (Q,) of the cluster that each caption is resampled with."""
        return self.cluster[self.pair]

    def bands(self, band_bytes: int) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any]]]:
        """Yield, band by band, a slice of the captions and their scores (b, n) with real clips and with mirrors."""
        for rows, block in row_bands(self.scores, min(band_bytes, CACHED_BYTES), self.rows):
            held = slice(*np.searchsorted(self.rows, [rows.start, rows.stop]).tolist())
            asked = block[self.rows[held] - rows.start]
            yield held, asked.take(self.real, axis=1), asked.take(self.generated, axis=1)


def paired_groups(scores: ScoreBlocks, corpus: Corpus) -> list[str]:
    """Return the groups that have a pair with a caption, of which caption, real clip and mirror are in the scores."""
    captions, clips = set(scores.caption_ids), set(scores.video_ids)
    asked = {clip for caption, clip in corpus.captions.select(_OWN).iter_rows() if caption in captions} & clips
    pairs = counterparts(corpus).iter_rows()
    return list(dict.fromkeys(group for real, made, group in pairs if real in asked and made in clips))


def pair_scores(scores: ScoreBlocks, corpus: Corpus, group: str, cluster: str = AUTO) -> PairedScores:
    """Select the pairs of one group, and the captions of their real clips, from scores.

    Raises:
        CorpusError: the group has no pair of which caption, real clip and mirror are in the scores.
    """
    checked = CheckedScores(scores)
    column = {clip: place for place, clip in enumerate(checked.video_ids)}
    row = {caption: place for place, caption in enumerate(checked.caption_ids)}
    every = counterparts(corpus, group)
    pairs = every.unique("clip_id", keep="first", maintain_order=True)
    held = [(real, made) for real, made, _ in pairs.iter_rows() if real in column and made in column]
    number = {real: place for place, (real, _) in enumerate(held)}
    theirs = [(place, *one) for place, one in enumerate(corpus.captions.select(_OWN).iter_rows()) if one[1] in number]
    used = sorted((row[caption], number[clip], place) for place, caption, clip in theirs if caption in row)
    if not used:
        raise CorpusError(
            f"No pair of {group!r} can be measured: of {pairs.height:,} pairs in the corpus, {len(held):,} have both "
            "clips in the scores, and none of them a caption; score the real clips, their mirrors and their captions."
        )
    rows, pair, drawn = np.array(used, dtype=np.int64).T
    real, made = (np.array([column[one] for one in side], dtype=np.int64) for side in zip(*held, strict=True))
    left_out = {
        f"Mirrors of {group} beside the first one of the same clip": every.height - pairs.height,
        f"Pairs of {group} of which a clip is not in the scores": pairs.height - len(held),
        f"Captions of pairs of {group} that are not in the scores": len(theirs) - len(used),
    }
    notices = [f"{what}: {count:,} left out." for what, count in left_out.items() if count]
    if silent := len(held) - len(np.unique(pair)):
        notices.append(f"Pairs of {group} without a caption, which only fill the gallery: {silent:,}.")
    together, _ = numbered(clusters_of(corpus, cluster).of([clip for clip, _ in held]))
    return PairedScores(checked, rows, pair, drawn, real, made, together, tuple(notices))


# Rows in order -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OrderedRows:
    """Rows of scores of b captions with V clips, sorted in ascending order, equal scores in runs."""

    order: NDArray[np.intp]  # (b, V) column at each place of the sorted row
    start: NDArray[np.intp]  # (b, V) place at which the run of each place begins
    end: NDArray[np.intp]  # (b, V) one past the end of that run
    hidden: NDArray[np.intp]  # (b,) number of scores of minus infinity, which take the first places
    distinct: bool  # whether no two scores of a row are equal

    @classmethod
    def of(cls, block: NDArray[Any]) -> OrderedRows:
        """Sort the rows of scores (b, V) without NaN."""
        order = np.argsort(block, axis=1)
        values = _take_rows(block, order)
        hidden = np.count_nonzero(values == -np.inf, axis=1)
        places = np.broadcast_to(np.arange(values.shape[1]), values.shape)
        first = np.ones((len(values), values.shape[1] + 1), dtype=np.bool_)
        np.not_equal(values[:, 1:], values[:, :-1], out=first[:, 1:-1])
        if first.all():
            return cls(order, places, places + 1, hidden, True)
        start = np.maximum.accumulate(np.where(first[:, :-1], places, 0), axis=1)
        ends = np.where(first[:, 1:], places + 1, values.shape[1])
        return cls(order, start, np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1], hidden, False)

    def placed(self, marks: Flags) -> Flags:
        """Reorder marks of columns (b, V) to the places of the sorted rows."""
        return _take_rows(marks, self.order)

    def beaten(self, placed: Flags) -> Column:
        """Count, for each place of sorted rows, the marked (b, V) clips that score less, equal ones half: (b, V)."""
        before = np.zeros((len(placed), placed.shape[1] + 1), dtype=np.int32)  # how many stand before each place
        np.cumsum(placed, axis=1, out=before[:, 1:])
        if self.distinct:
            return np.asarray((before[:, :-1] + before[:, 1:]) / 2)
        return np.asarray((_take_rows(before, self.start) + _take_rows(before, self.end)) / 2)

    def first(self, depth: int) -> tuple[NDArray[np.intp], Column]:
        """Return the columns (b, W) that may be among the `depth` best, and the probability of each if ties are random.

        The probabilities of a row sum to `shown(depth)`; that of a score of minus infinity is 0.
        """
        size = self.order.shape[1]
        lowest = size - self.shown(depth)
        begin = int(self.start[np.arange(len(self.order)), np.minimum(lowest, size - 1)].min(initial=size - 1))
        start, end = self.start[:, begin:], self.end[:, begin:]
        return self.order[:, begin:], np.clip(end - lowest[:, None], 0, end - start) / (end - start)

    def shown(self, depth: int) -> NDArray[np.intp]:
        """Count the clips among the `depth` best of each row (b,); fewer where scores are minus infinity."""
        return np.asarray(np.minimum(depth, self.order.shape[1] - self.hidden), dtype=np.intp)


def candidates(block: NDArray[Any], depth: int) -> NDArray[np.intp]:
    """Return the columns (b, W) of the `depth` best scores of each row, and of all that tie with the last of these."""
    last = block.shape[1] - min(depth, block.shape[1])
    least = np.partition(block, last, axis=1)[:, last, None]
    width = int((block >= least).sum(axis=1).max(initial=1))
    return np.argpartition(block, block.shape[1] - width, axis=1)[:, block.shape[1] - width :]


def _take_rows(table: NDArray[Any], places: NDArray[np.intp]) -> NDArray[Any]:
    """(b, W) table and (b, V) places in its rows -> (b, V); by far quicker than `numpy.take_along_axis`."""
    return np.asarray(table.ravel().take(places + np.arange(len(table))[:, None] * table.shape[1]))
