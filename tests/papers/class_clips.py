"""Clips of a few classes, short in training and long in test, as vectors: small material for studies of lengths.

A class is a verb and a noun. Its clips are noisy copies of one vector, and their captions say both words. Frames have
two streams side by side, of which the second is noise.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl

from evenreel.audits.settings import AuditSettings
from evenreel.corpus import make_corpus
from evenreel.features.load import with_graphs
from evenreel.matchers import build_matcher
from evenreel.papers import CorpusPart, Model, StudySettings, Workspace, part_of, study_recipe
from evenreel.types import Corpus, TextFeatures, VideoFeatures
from tests.papers.offset_pairs import unit

VERBS, NOUNS = ("cut", "take", "wash"), ("tomato", "plate", "cup", "pan")
TRAIN, TEST = 120, 36
DIMENSION, FRAMES = 12, 3
STREAMS = {"seen": DIMENSION, "heard": 4}
QUICK = (
    "loop.steps=4",
    "loop.epochs=null",
    "loop.batch_size=8",
    "loop.device=cpu",
    "matcher.settings.size=8",
    "matcher.settings.word_size=6",
    "optimiser.lr=0.01",
    "data.held_out=0.2",
)


@cache
def class_material() -> Workspace:
    """A training and a test split of which the classes differ in length, with role graphs of the captions."""
    train, test = (
        _part(split, count, seed) for seed, (split, count) in enumerate({"train": TRAIN, "test": TEST}.items())
    )
    whole = make_corpus(
        pl.concat([train.corpus.clips, test.corpus.clips]), pl.concat([train.corpus.captions, test.corpus.captions])
    )
    model = Model("mean_pool", build_matcher("mean_pool", sum(STREAMS.values())), test)
    return Workspace(
        test=test.corpus,
        models=(model,),
        features=test,
        train=train,
        corpus=whole,
        streams=STREAMS,
        learned=train.corpus,
    )


def quick_settings(*changes: str, seeds: int = 1) -> StudySettings:
    """A few steps of a small HGR."""
    recipe = study_recipe(changes=(*QUICK, *changes), default="frame_length/length.yaml")
    return StudySettings(recipe=recipe, audit=AuditSettings(resamples=20), seeds=seeds)


def _part(split: str, count: int, seed: int) -> CorpusPart:
    random = np.random.default_rng(seed)
    classes = np.arange(count) % (len(VERBS) * len(NOUNS))
    corpus = _corpus(split, classes, random)
    shared = np.random.default_rng(99).standard_normal((classes.max() + 1, DIMENSION))
    seen = unit(shared[classes][:, None] + 0.4 * random.standard_normal((count, FRAMES, DIMENSION)))
    heard = unit(random.standard_normal((count, FRAMES, STREAMS["heard"])))
    frames = np.concatenate([seen, heard], axis=-1) / np.sqrt(2)
    times = np.tile(np.arange(float(FRAMES)), (count, 1))
    videos = VideoFeatures(tuple(corpus.clips["clip_id"]), frames, np.ones(times.shape, np.bool_), times)
    words = unit(random.standard_normal((count, 2, sum(STREAMS.values()))))
    texts = TextFeatures(tuple(corpus.captions["caption_id"]), words, np.ones((count, 2), np.bool_), words[:, 0])
    return part_of(corpus, with_graphs(texts, corpus), videos)


def _corpus(split: str, classes: np.ndarray, random: np.random.Generator) -> Corpus:
    """Classes of small numbers are much longer in test; those of large ones are a little shorter."""
    verbs, nouns = classes // len(NOUNS), classes % len(NOUNS)
    mean = np.where(split == "test", 400 - 30 * classes, 100 + 5 * classes)
    ids = [f"{split} {row}" for row in range(len(classes))]
    held = {
        "clip_id": ids,
        "verb_classes": [[int(one)] for one in verbs],
        "noun_classes": [[int(one)] for one in nouns],
    }
    lengths = {"path": [f"{one}.mp4" for one in ids], "frame_count": (mean + random.integers(0, 60, len(ids))).tolist()}
    clips = pl.DataFrame({**held, **lengths}).with_columns(split=pl.lit(split))
    texts = [f"{VERBS[verb]} {NOUNS[noun]}" for verb, noun in zip(verbs, nouns, strict=True)]
    captions = pl.DataFrame({**held, "caption_id": [f"{one} c" for one in ids], "text": texts})
    return make_corpus(clips, captions)


def longer_videos(videos: VideoFeatures, times: int) -> VideoFeatures:
    """All frames so many times, one after the other."""
    names = ("frames", "frame_mask", "times_s")
    return replace(videos, **{name: getattr(videos, name).repeat(times, 1) for name in names})
