"""Scores of captions with pairs of a real clip and the generated clip that mirrors it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import CACHED_BYTES, Indices, row_bands
from evenreel.corpus.counterparts import counterparts
from evenreel.errors import CorpusError
from evenreel.evaluation.intervals import AUTO, clusters_of, numbered
from evenreel.evaluation.ranking import CheckedScores
from evenreel.report.words import uses_sentence
from evenreel.types import Corpus, ScoreBlocks


@dataclass(frozen=True, eq=False)
class PairedScores:
    """Scores of Q captions with n pairs of a real clip and its mirror (the clip generated after it).

    Attributes:
        scores: all scores, checked when they are read.
        rows: (Q,) rows of the captions in the scores, ascending.
        pair: (Q,) index of the pair that answers each caption.
        drawn: (Q,) index of each caption in its corpus, whatever the order of the scores.
        real, generated: (n,) columns of the clips of each pair.
        cluster: (n,) cluster of each pair, from 0: the pair alone, or all pairs of its real clip's video.
        notices: sentences on what was left out.
    """

    scores: CheckedScores
    rows: Indices
    pair: Indices
    drawn: Indices
    real: Indices
    generated: Indices
    cluster: Indices
    notices: tuple[str, ...] = ()

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
    asked = {clip for caption, clip in _captions(corpus) if caption in captions}
    found = {
        group: None
        for real, generated, group in counterparts(corpus).iter_rows()
        if real in asked and real in clips and generated in clips
    }
    return list(found)


def pair_scores(scores: ScoreBlocks, corpus: Corpus, group: str, cluster: str = AUTO) -> PairedScores:
    """Select the pairs of one group, and the captions of their real clips, from scores.

    Args:
        scores: scores of captions and clips.
        corpus: corpus with the pairs of real clips and mirrors.
        group: group of mirrors: generator and setting.
        cluster: real clips that are resampled together, see `evenreel.evaluation.intervals`.

    Raises:
        CorpusError: the group has no pair of which caption, real clip and mirror are in the scores.
        ScoresError: the scores are no table of captions and videos.
    """
    checked = CheckedScores(scores)
    column = {clip: place for place, clip in enumerate(checked.video_ids)}
    row = {caption: place for place, caption in enumerate(checked.caption_ids)}
    every = counterparts(corpus, group)
    pairs = every.unique("clip_id", keep="first", maintain_order=True)
    held = [(real, made) for real, made, _ in pairs.iter_rows() if real in column and made in column]
    number = {real: place for place, (real, _) in enumerate(held)}
    theirs = [(place, *one) for place, one in enumerate(_captions(corpus)) if one[1] in number]
    used = sorted((row[caption], number[clip], place) for place, caption, clip in theirs if caption in row)
    if not used:
        raise CorpusError(
            f"No pair of {group!r} can be measured: of {pairs.height:,} pairs in the corpus, {len(held):,} have both "
            "clips in the scores, and none of them a caption; score the real clips, their mirrors and their captions."
        )
    rows, pair, drawn = np.array(used, dtype=np.int64).T
    real, made = (np.array([column[one] for one in side], dtype=np.int64) for side in zip(*held, strict=True))
    notices = _left_out(
        {
            f"Mirrors of {group} beside the first one of the same clip": every.height - pairs.height,
            f"Pairs of {group} of which a clip is not in the scores": pairs.height - len(held),
            f"Captions of pairs of {group} that are not in the scores": len(theirs) - len(used),
        }
    )
    silent = len(held) - len(np.unique(pair))
    if silent:
        notices += (f"Pairs of {group} without a caption, which only fill the gallery: {silent:,}.",)
    clusters = clusters_of(corpus, cluster)
    together, _ = numbered(clusters.of([clip for clip, _ in held]))
    return PairedScores(checked, rows, pair, drawn, real, made, together, notices)


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


def scenes_of(corpus: Corpus) -> dict[str, str]:
    """Return the scene of each clip, by clip id: the id of the real clip that it mirrors, or its own.

    Clips of one scene answer the same captions.
    """
    pairs = counterparts(corpus)
    mirrored = dict(zip(pairs["generated_id"], pairs["clip_id"], strict=True))
    return {clip: mirrored.get(clip, clip) for clip in corpus.clips["clip_id"]}


def _captions(corpus: Corpus) -> Sequence[tuple[str, str]]:
    """Id and clip of each caption."""
    return corpus.captions.select("caption_id", "clip_id").rows()


def _left_out(counts: dict[str, int]) -> tuple[str, ...]:
    return tuple(f"{what}: {count:,} left out." for what, count in counts.items() if count)
