"""Pairs of real and generated clips made of random vectors, with an offset of known size and direction.

A caption is a meaning and, in equal parts, a direction that all captions share. A real clip is the meaning with noise;
its mirror has as much noise of its own and `lead` times that direction, so that every caption is nearer to generated
clips as far as `lead` is above 0 (up to 1), and nearer to real ones below.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.audits.settings import AuditSettings
from evenreel.corpus import make_corpus, select
from evenreel.matchers import build_matcher
from evenreel.papers import CorpusPart, Model, StudySettings, Workspace, part_of, study_recipe
from evenreel.types import Corpus, TextFeatures, VideoFeatures

DIMENSION = 16
PAIRS = 40
FRAMES = 4
GROUP = "generator text"
QUICK = ("loop.steps=6", "loop.batch_size=20", "loop.device=cpu", "optimiser.lr=0.03", "schedule.warmup=0.0")


def offset_material(lead: float, groups: tuple[str, ...] = ("text",), seed: int = 0) -> Workspace:
    """A test and a training split of `PAIRS` pairs each, and the mean of frames as a model."""
    parts = {split: offset_part(split, lead, groups, seed + number) for number, split in enumerate(("test", "train"))}
    test, train = parts["test"], parts["train"]
    corpus = make_corpus(
        pl.concat([test.corpus.clips, train.corpus.clips]), pl.concat([test.corpus.captions, train.corpus.captions])
    )
    model = Model("mean_pool", build_matcher("mean_pool", DIMENSION), test)
    return Workspace(test=test.corpus, models=(model,), features=test, train=train, corpus=corpus)


def offset_part(split: str, lead: float, groups: tuple[str, ...], seed: int) -> CorpusPart:
    """One split; clips `r0`, `r1`, ... have two captions each and a mirror of each group."""
    random = np.random.default_rng(seed)
    shared = np.eye(DIMENSION)[0]
    meaning = unit(random.standard_normal((PAIRS, DIMENSION)) * (shared == 0))
    mirrors = [noisy(meaning + lead * shared, random) for _ in groups]
    frames = np.concatenate([noisy(meaning, random), *mirrors])
    corpus = paired_corpus(split, groups)
    videos = VideoFeatures(
        tuple(corpus.clips["clip_id"]),
        frames,
        np.ones(frames.shape[:2], np.bool_),
        np.tile(np.arange(float(FRAMES)), (len(frames), 1)),
    )
    words = unit((meaning + shared).repeat(2, axis=0) + 0.1 * random.standard_normal((2 * PAIRS, DIMENSION)))
    texts = TextFeatures(tuple(corpus.captions["caption_id"]), words[:, None], np.ones((2 * PAIRS, 1), np.bool_), words)
    return part_of(corpus, texts, videos)


def paired_corpus(split: str, groups: tuple[str, ...]) -> Corpus:
    real = [f"{split} r{number}" for number in range(PAIRS)]
    clips = [{"clip_id": name, "source": "camera", "pair_id": None, "setting": None} for name in real] + [
        {"clip_id": f"{name}@{group}", "source": "generator", "pair_id": name, "setting": group}
        for group in groups
        for name in real
    ]
    captions = [
        {"caption_id": f"{name} c{n}", "clip_id": name, "text": f"{name} {n}"} for name in real for n in range(2)
    ]
    schema = {"clip_id": pl.String, "source": pl.String, "pair_id": pl.String, "setting": pl.String}
    table = pl.DataFrame(clips, schema=schema).with_columns(split=pl.lit(split))
    return make_corpus(table, pl.DataFrame(captions))


def noisy(meaning: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float32]:
    """(V, D) -> (V, T, D), unit frames around each."""
    return unit(meaning[:, None] + 0.3 * random.standard_normal((len(meaning), FRAMES, DIMENSION)))


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def quick_settings(*changes: str, seeds: int = 2) -> StudySettings:
    """A few steps of training, few samples."""
    return StudySettings(
        recipe=study_recipe(changes=(*QUICK, *changes)), audit=AuditSettings(resamples=40), seeds=seeds
    )


__all__ = ["GROUP", "PAIRS", "offset_material", "offset_part", "paired_corpus", "quick_settings", "select"]
