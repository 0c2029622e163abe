"""Corpora and relevance of any small size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from evenreel.corpus import make_corpus
from evenreel.types import Corpus, ScoreBlocks, ScoreNotes, Scores


@dataclass
class Degrees:
    """Relevance from a table in memory."""

    table: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.table.shape

    def block(self, captions: slice, videos: slice) -> np.ndarray:
        return self.table[captions, videos]


def corpus_of(clip_of_caption: Sequence[int], clips: int, texts: Sequence[str] | None = None) -> Corpus:
    """Clips v0, v1, ... and captions c0, c1, ... of the clips that are named by number."""
    count = len(clip_of_caption)
    return make_corpus(
        pl.DataFrame({"clip_id": [f"v{clip}" for clip in range(clips)]}),
        pl.DataFrame(
            {
                "caption_id": [f"c{caption}" for caption in range(count)],
                "clip_id": [f"v{clip}" for clip in clip_of_caption],
                "text": texts or [f"text {caption}" for caption in range(count)],
            },
            schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String},
        ),
    )


def values_of(scores: ScoreBlocks) -> np.ndarray:
    return scores.block(slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids)))


def by_pair(scores: ScoreBlocks) -> dict[tuple[str, str], float]:
    """Scores by the ids of caption and clip."""
    rows = zip(scores.caption_ids, values_of(scores).tolist(), strict=True)
    return {(caption, clip): one for caption, row in rows for clip, one in zip(scores.video_ids, row, strict=True)}


class Blocks:
    """Scores that are had block by block alone, a band in one buffer, and counted."""

    def __init__(self, scores: Scores) -> None:
        self.values = np.asarray(scores.values)
        self.caption_ids, self.video_ids = scores.caption_ids, scores.video_ids
        self.about: ScoreNotes = scores.about
        self.read = np.zeros(self.values.shape, int)
        self._buffer = np.empty(self.values.size)

    def block(self, captions: slice, videos: slice) -> np.ndarray:
        self.read[captions, videos] += 1
        part = self.values[captions, videos]
        shared = self._buffer[: part.size].reshape(part.shape)
        shared[...] = part
        return shared


def scores_of(values: Any, **more: Any) -> Scores:
    values = np.asarray(values)
    return Scores(
        values, [f"c{row}" for row in range(values.shape[0])], [f"v{c}" for c in range(values.shape[1])], **more
    )
