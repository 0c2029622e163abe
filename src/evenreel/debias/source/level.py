"""Levels of sources: a generator's clips are scored lower by as much as its right answers score too high.

Not from a paper; nothing is trained. On held-out captions, whose own clips are known, the level of a generator g is

    d_g = mean of s(q, own clip of q) over captions of clips of g - the same over captions of the camera's clips,

and 0 where that is negative: a generator's clips may be harder to read than real ones, and to lift them would be a
preference that the matcher does not have. The mirror of a caption's clip is its own too, and so is the clip that its
clip mirrors. With it every score of a clip v becomes s(q, v) - d_source(v), and right answers of a generator lead no
more. The mean score of all clips of a source for any caption is another quantity: a matcher that learned from generated
clips reads their content better than that of real ones, so that right answers of a generator lead while its clips as a
whole may be behind.

Held-out clips that are real and that are generated are to be of the same contents on average: pairs of a clip and its
mirror are, and so are clips of a collection that a generator filled up at random. Where gallery clips do not say what
made them, `recognised_sources` tells it from those that do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arrays import SCORE_BYTES, row_bands
from evenreel.config import check_corpus, check_named, check_scores
from evenreel.errors import UsageError
from evenreel.types import CAMERA, Corpus, FloatArray, ScoreBlocks, ScoreNotes

MIN_CLIPS = 20
"""Fewest clips of a side: the means of two times 20 stray, by chance, by a third of what single clips do."""

BAND_BYTES = 2**22 * SCORE_BYTES
USES = "the source of clips, levelled on held-out captions"
"""What levelled scores use beside the caption and the video."""


@dataclass(frozen=True, eq=False)
class LevelledScores:
    """Scores (Q, V) from which the level of each clip's source is subtracted; implements `ScoreBlocks`.

    Attributes:
        scores: scores of Q captions and V clips.
        offsets: (V,) level of the source of each clip, in the unit of the scores; 0 for the camera and without a level.
    """

    scores: ScoreBlocks
    offsets: FloatArray

    @property
    def caption_ids(self) -> Sequence[str]:
        """Ids of the rows (captions)."""
        return self.scores.caption_ids

    @property
    def video_ids(self) -> Sequence[str]:
        """Ids of the columns (videos)."""
        return self.scores.video_ids

    @property
    def about(self) -> ScoreNotes:
        """Notes of the scores, and that sources are used."""
        return self.scores.about.using(USES)

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Return the scores (q, v) of some captions and clips, less the levels of the clips' sources."""
        return np.asarray(self.scores.block(captions, videos) - self.offsets[videos])


def source_levels(scores: ScoreBlocks, corpus: Corpus, sources: Mapping[str, str]) -> dict[str, float]:
    """Compute the level of each generator, by how much its right answers score too high, from held-out captions.

    Args:
        scores: scores of held-out captions and clips, such as the validation split, by the matcher to be corrected.
        corpus: corpus that names each caption's own clip.
        sources: source of each clip by its id, `camera` or a generator, see
            `evenreel.corpus.counterparts.sources_of`; other clips are ignored.

    Returns:
        Level by generator, 0 or more, in the unit of the scores; only generators with `MIN_CLIPS` right answers have
        one.

    Raises:
        UsageError: fewer than `MIN_CLIPS` right answers are from the camera, or no generator has as many.
    """
    check_scores(scores)
    check_corpus(corpus)
    check_named(sources, "sources", "the source of each clip by its id", "'camera'")
    of_source: dict[str, list[float]] = {}
    for clip_id, score in _own_scores(scores, corpus):
        if clip_id in sources:
            of_source.setdefault(sources[clip_id], []).append(score)
    enough = {name: float(np.mean(found)) for name, found in of_source.items() if len(found) >= MIN_CLIPS}
    if CAMERA not in enough or len(enough) < 2:
        counts = ", ".join(f"{len(found):,} of {name}" for name, found in sorted(of_source.items())) or "none"
        raise UsageError(
            f"Levels of sources need {MIN_CLIPS} right answers of a {CAMERA} on held-out captions, and {MIN_CLIPS} of "
            f"one generator; there are {counts}."
        )
    return {name: max(level - enough[CAMERA], 0.0) for name, level in sorted(enough.items()) if name != CAMERA}


def levelled(scores: ScoreBlocks, levels: Mapping[str, float], sources: Mapping[str, str]) -> LevelledScores:
    """Subtract from the scores of each clip the level of its source; clips without one keep theirs.

    Args:
        scores: scores of the captions and clips that are searched.
        levels: level by generator, see `source_levels`.
        sources: source of each clip by its id, as known or as recognised.
    """
    check_scores(scores)
    check_named(levels, "levels", "the level of each generator by its name", "0.1")
    check_named(sources, "sources", "the source of each clip by its id", "'camera'")
    offsets = [levels.get(sources.get(clip_id, CAMERA), 0.0) for clip_id in scores.video_ids]
    return LevelledScores(scores, np.array(offsets, np.float32))


def recognised_sources(known: FloatArray, sources: Sequence[str], clips: FloatArray) -> list[str]:
    """Predict the source of clips from their mean frames, by linear discriminant analysis with equal priors.

    Args:
        known: (N, D) mean frames of clips whose source is known, such as those of training.
        sources: their N sources, two at least.
        clips: (V, D) mean frames of the clips to classify.

    Returns:
        Predicted source of each of the V clips.

    Raises:
        UsageError: all known clips are of one source, or fewer than `MIN_CLIPS` are of one of them.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    names = sorted(set(sources))
    if len(names) < 2:
        raise UsageError(f"Sources are told apart by clips of two at least; all known ones are of {names}.")
    counts = {name: list(sources).count(name) for name in names}
    if min(counts.values()) < MIN_CLIPS:
        few = ", ".join(f"{count:,} of {name}" for name, count in counts.items())
        raise UsageError(f"Sources are told apart by {MIN_CLIPS} known clips of each at least; there are {few}.")
    model = LinearDiscriminantAnalysis(priors=np.full(len(names), 1 / len(names)))
    return [str(name) for name in model.fit(known, list(sources)).predict(clips)]


def _own_scores(scores: ScoreBlocks, corpus: Corpus) -> list[tuple[str, float]]:
    """The score of each clip that is a caption's own, or mirrors it or is mirrored by it."""
    pair_of = dict(corpus.clips.select("clip_id", pl.coalesce("pair_id", "clip_id")).iter_rows())
    clip_of = dict(corpus.captions.select("caption_id", "clip_id").iter_rows())
    columns: dict[str, list[int]] = {}
    for column, clip_id in enumerate(scores.video_ids):
        columns.setdefault(pair_of.get(clip_id, clip_id), []).append(column)
    pairs = [pair_of.get(clip_of.get(caption_id, ""), "") for caption_id in scores.caption_ids]
    return [
        (scores.video_ids[column], float(values[column]))
        for rows, band in row_bands(scores, BAND_BYTES)
        for pair, values in zip(pairs[rows], band, strict=True)
        for column in columns.get(pair, ())
    ]
