"""A few real clips and the generated ones that mirror them, as features; the captions sound like the generator."""

from __future__ import annotations

import numpy as np
import polars as pl

from evenreel.corpus import make_corpus
from evenreel.training.batches import FeatureExamples, pairs_of
from evenreel.training.splits import mirrors_of
from evenreel.types import Corpus, TextFeatures, VideoFeatures
from tests.training.small_material import DIMENSION, unit

REAL, MIRRORED = 24, 18


def mirrored_corpus(real: int = REAL, mirrored: int = MIRRORED) -> Corpus:
    """`v0` to the last real clip with a caption each, and `g0` and so on, mirrors of the first ones."""
    names = [f"v{number}" for number in range(real)] + [f"g{number}" for number in range(mirrored)]
    clips = pl.DataFrame(
        {
            "clip_id": names,
            "source": ["camera"] * real + ["sora"] * mirrored,
            "pair_id": [None] * real + names[:mirrored],
            "split": ["train"] * len(names),
        }
    )
    captions = pl.DataFrame(
        {
            "caption_id": [f"c{number}" for number in range(real)],
            "clip_id": names[:real],
            "text": [f"text {number}" for number in range(real)],
        }
    )
    return make_corpus(clips, captions)


def mirrored_examples() -> FeatureExamples:
    """Generated clips and captions have a direction in common that real clips do not have."""
    corpus, random = mirrored_corpus(), np.random.default_rng(0)
    meaning = random.standard_normal((REAL, DIMENSION))
    look = 2 * random.standard_normal(DIMENSION)
    real = meaning[:, None] + 0.5 * random.standard_normal((REAL, 3, DIMENSION))
    generated = look + meaning[:MIRRORED, None] + 0.5 * random.standard_normal((MIRRORED, 3, DIMENSION))
    sentence = unit(meaning + look)
    texts = TextFeatures(
        tuple(corpus.captions["caption_id"]), sentence[:, None], np.ones((REAL, 1), np.bool_), sentence
    )
    frames = unit(np.concatenate([real, generated]))
    mask = np.ones(frames.shape[:2], np.bool_)
    videos = VideoFeatures(tuple(corpus.clips["clip_id"]), frames, mask, np.zeros(mask.shape))
    return FeatureExamples(pairs_of(corpus, texts.ids, videos.ids, mirrors_of(corpus)), texts, videos)
