"""What benchmarks on planted corpora share: their splits with features, the trainings on them, and what these find.

Everywhere the wti matcher is trained behind a small adapter on features of the built-in encoder. For `length`, where
what happens has to be learnt from the order of the frames, a transformer of two layers that starts from nothing comes
before it, and the learning rate is three times as high. `benchmarks/evidence` says which biases can tell methods
apart that way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus import select
from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.planted import BiasName, PlantedClip, PlantedCorpus, corpus_of, text_features, video_features
from evenreel.training.batches import FeatureExamples, TrainingInputs, pairs_of
from evenreel.training.loop import RunHooks, train
from evenreel.training.recipe import Data, Loop, MatcherChoice, Optimiser, Recipe, Records
from evenreel.types import Corpus, Encoder, ScoreBlocks, Scores, TextFeatures, VideoFeatures

RULES = {"length": "every 0.5 s"}
"""How frames are sampled; a fixed rate where the length of a clip matters, else `RULE`."""
RULE = "6 midpoints"
LEARNING_RATE = 1e-3
FROM_NOTHING = "length"
"""The bias that needs a transformer over the frames; the others do with what single frames show."""
BATCH = 64
"""Captions in a step of training."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    clips: int
    steps: int


class Split(NamedTuple):
    """A part of a planted corpus with its features."""

    corpus: Corpus
    texts: TextFeatures
    videos: VideoFeatures


def split_of(plan: PlantedCorpus, split: str, encoder: Encoder) -> Split:
    clips: Sequence[PlantedClip] = [clip for clip in plan.clips if clip.split == split]
    videos = video_features(clips, encoder, RULES.get(plan.bias, RULE))
    return Split(select(corpus_of(plan), split=split), text_features(clips, encoder), videos)


def recipe(bias: BiasName, seed: int, sizes: Sizes, windows: bool = False) -> Recipe:
    """The same for all biases, but that lengths and movements need frames that see each other."""
    from_nothing = bias == FROM_NOTHING
    settings = {"temporal_layers": 2 if from_nothing else 0, "temperature": 0.03}
    return Recipe(
        name=f"planted-{bias}",
        data=Data(corpus="planted", features="planted", validation=None),
        matcher=MatcherChoice("wti", settings),
        adapter=AdapterSettings(kind="mlp", windows=windows),
        optimiser=Optimiser(lr=(3 if from_nothing else 1) * LEARNING_RATE, weight_decay=0.05),
        loop=Loop(batch_size=BATCH, epochs=None, steps=sizes.steps, seed=seed, device="cpu"),
        records=Records(every_steps=sizes.steps, tensorboard=False),
    )


def trained(asked: Recipe, split: Split) -> Matcher:
    material = TrainingInputs(examples_of(split), split.videos.frames.shape[-1])
    with tempfile.TemporaryDirectory() as folder:
        return train(asked, material, Path(folder), RunHooks()).matcher


def examples_of(split: Split) -> FeatureExamples:
    return FeatureExamples(pairs_of(split.corpus, split.texts.ids, split.videos.ids), split.texts, split.videos)


def found_in(scores: ScoreBlocks, corpus: Corpus, metrics: Sequence[str] = ("R@1", "mAP")) -> dict[str, float]:
    """Metrics in percent, text to video, where all that a caption names has to be shown."""
    captions, videos = list(scores.caption_ids), list(scores.video_ids)
    values = scores.block(slice(0, len(captions)), slice(0, len(videos)))
    settings = EvaluationSettings(parse_metrics(list(metrics)), ("t2v",), resamples=0)
    relevance = showing(corpus, captions, videos)
    found = evaluate(Scores(values, captions, videos), corpus, settings, relevance=relevance)
    return {name: found.directions["t2v"].summary[name].value for name in metrics}


def showing(corpus: Corpus, captions: Sequence[str], videos: Sequence[str]) -> NDArray[np.float64]:
    """(Q, V) 1 where a clip shows all that the caption names: its classes contain the caption's, else 0."""
    named, shown = classes_of(corpus.captions, "caption_id"), classes_of(corpus.clips, "clip_id")
    return np.array([[float(named[caption] <= shown[video]) for video in videos] for caption in captions])


def classes_of(table: pl.DataFrame, id_column: str) -> dict[str, frozenset[int]]:
    """The verb and noun classes of each row; no number is both."""
    rows = table.select(id_column, pl.concat_list("verb_classes", "noun_classes")).iter_rows()
    return {name: frozenset(classes) for name, classes in rows}
