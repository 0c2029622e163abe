"""Corpora and relevance of any small size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from evenreel.corpus import make_corpus
from evenreel.types import Corpus, Scores


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


def scores_of(values: Any, **more: Any) -> Scores:
    values = np.asarray(values)
    return Scores(
        values, [f"c{row}" for row in range(values.shape[0])], [f"v{c}" for c in range(values.shape[1])], **more
    )
