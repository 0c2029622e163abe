"""A made-up annotation table: actions, videos and lengths drawn at random."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from evenreel.corpus import make_corpus
from evenreel.types import Corpus


def made_up_table(train: int = 400, test: int = 100, verbs: int = 4, nouns: int = 12, videos: int = 8) -> Corpus:
    """Clips of a few videos, each by one of four people, with a verb, one or two nouns and a length."""
    rng, count = np.random.default_rng(7), train + test
    from_video = rng.integers(videos, size=count)
    clips = pl.DataFrame(
        {
            "clip_id": [f"clip {row}" for row in range(count)],
            "path": [f"video {number}.mp4" for number in from_video],
            "participant": [f"P{number % 4}" for number in from_video],
            "split": ["train"] * train + ["test"] * test,
            "start_s": np.full(count, 2.0),
            "end_s": 2.0 + np.round(rng.lognormal(0.5, 1.0, count), 2) + 0.1,
            "verb_classes": [[int(verb)] for verb in rng.integers(verbs, size=count)],
            "noun_classes": [
                [int(noun), 99][: 1 + row % 2] for row, noun in enumerate(rng.integers(nouns, size=count))
            ],
        }
    )
    captions = clips.select(pl.col("clip_id").alias("caption_id"), "clip_id", text=pl.lit("words"))
    return make_corpus(clips, captions)


def unit(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector]
