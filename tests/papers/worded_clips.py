"""A target whose captions are sums of word vectors, and a checkpoint prepared on a source: small material for TITAN.

Each clip shows a colour and a thing, and captions say both and what it does. In a target that leans the first clip is
redder than all, and the other red ones show little of what they are said to: so the first is the first of most red
captions, a hub, and `red` is the word that brings it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache

import numpy as np
import polars as pl
import torch

from evenreel.adaptation.baselines import FlowSettings
from evenreel.adaptation.prepared import PreparedSource, PrepareSettings, confounders_of, prepare
from evenreel.adaptation.stream import taken
from evenreel.adaptation.titan import UNSAFE, AdaptSettings, CounterfactualSettings
from evenreel.adaptation.titan_correction import FitSettings
from evenreel.audits.settings import AuditSettings
from evenreel.corpus import make_corpus
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.papers import CaptionBank, CorpusPart, Model, StudySettings, Workspace, part_of, study_recipe
from evenreel.training.batches import FeatureExamples, pairs_of
from evenreel.types import TextFeatures, VideoFeatures

DIMENSION, CLIPS, CAPTIONS, FRAMES = 16, 15, 3, 2
COLOURS, THINGS = ("red", "blue", "green"), ("ball", "cup", "dog", "tree", "box")
ACTS = ("rolls", "falls", "jumps")


def vector(word: str) -> np.ndarray:
    """(D,) of a word, the same in every process."""
    rows = np.random.default_rng(zlib.crc32(word.encode())).standard_normal(DIMENSION)
    return unit(rows)


def unit(rows: np.ndarray) -> np.ndarray:
    shortened: np.ndarray = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
    return shortened


def read(sentences: Sequence[str]) -> TextFeatures:
    """The text tower: a sentence is the sum of its words, and articles say nothing."""
    split = [[word for word in sentence.split() if word not in ("a", "the")] or ["a"] for sentence in sentences]
    width = max(map(len, split))
    words = np.zeros((len(split), width, DIMENSION), np.float32)
    mask = np.zeros((len(split), width), np.bool_)
    for row, own in enumerate(split):
        words[row, : len(own)] = [vector(word) for word in own]
        mask[row, : len(own)] = True
    return TextFeatures(tuple(f"q{row}" for row in range(len(split))), words, mask, unit(words.sum(1)))


def worded_part(split: str, lean: float, seed: int) -> CorpusPart:
    """Clips with a caption for each of `ACTS`; the first leans to `red` so far, if at all."""
    random = np.random.default_rng(seed)
    shown = [(COLOURS[row % 3], THINGS[row // 3]) for row in range(CLIPS)]
    ids = [f"{split} {row}" for row in range(CLIPS)]
    meaning = np.stack([vector(colour) + vector(thing) for colour, thing in shown])
    if lean:
        meaning[3::3] = 0.2 * meaning[3::3] + unit(random.standard_normal((CLIPS // 3 - 1, DIMENSION)))
        meaning[0] += lean * vector("red")
    frames = unit(meaning[:, None] + 0.15 * random.standard_normal((CLIPS, FRAMES, DIMENSION)))
    times = np.tile(np.arange(float(FRAMES)), (CLIPS, 1))
    videos = VideoFeatures(tuple(ids), frames, np.ones(times.shape, np.bool_), times)
    captions = [
        {"caption_id": f"{clip} {act}", "clip_id": clip, "text": f"a {colour} {thing} {act}"}
        for clip, (colour, thing) in zip(ids, shown, strict=True)
        for act in ACTS
    ]
    clips = pl.DataFrame({"clip_id": ids}).with_columns(split=pl.lit(split))
    corpus = make_corpus(clips, pl.DataFrame(captions))
    told = read(corpus.captions["text"].to_list())
    texts = TextFeatures(tuple(corpus.captions["caption_id"]), told.words, told.word_mask, told.sentence)
    return part_of(corpus, texts, videos)


def source() -> Adapted:
    """A matcher behind maps that are not quite the identity."""
    torch.manual_seed(0)
    matcher = Adapted(MeanPool(DIMENSION, MeanPoolSettings(0.1)), DIMENSION, AdapterSettings(kind="mlp"))
    for weight in matcher.parameters():
        weight.data += 0.03 * torch.randn_like(weight)
    return matcher.eval()


@cache
def prepared() -> PreparedSource:
    """Of a source without a hub; a few steps."""
    part = worded_part("train", 0.0, 1)
    pairs = pairs_of(part.corpus, part.texts.ids, part.videos.ids)
    settings = PrepareSettings(causal_fit=FitSettings(steps=4, batch_size=16), flow=FlowSettings(steps=4))
    found = confounders_of(part.videos, None, 5)
    return prepare(source(), FeatureExamples(pairs, part.texts, part.videos), found, settings)


def worded_material(*, carries: bool = True, reads: bool = True) -> Workspace:
    """A test split with a hub, a model, and captions of a training split for banks.

    Args:
        carries: whether the checkpoint was prepared.
        reads: whether new captions can be read.
    """
    test, train = worded_part("test", 1.5, 0), worded_part("train", 0.0, 1)
    model = Model("mine", source(), test, prepared() if carries else None, read if reads else None)
    bank = CaptionBank(len(train.texts.ids), lambda rows: taken(train.texts, rows))
    return Workspace(test=test.corpus, models=(model,), bank=bank)


def adapting(**changes: object) -> AdaptSettings:
    """Batches that are small, steps that are large, and clips that are crowded early."""
    words = CounterfactualSettings(beta=5, theta=0.5)
    fit = FitSettings(steps=20, lr=1e-4, batch_size=16)
    plain = {"lr": 1e-2, "batch_size": 16, "counterfactuals": words, "causal_fit": fit, "safety": UNSAFE}
    return AdaptSettings(**plain | changes)  # type: ignore[arg-type]


def quick_settings(adapt: AdaptSettings, seeds: int = 1) -> StudySettings:
    return StudySettings(recipe=study_recipe(), audit=AuditSettings(resamples=20), seeds=seeds, adapt=adapt)
