"""What rows of drawn worlds share: the plain recipe, a training selected on validation, and what a model finds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.admission_rules import NO_ADAPTER
from benchmarks.evidence.rows import AGAIN, METRICS, PLAIN_ROWS, SEARCH_S, TRAINING_S, Part, Place
from evenreel.corpus import FORMATS, own_clip
from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.evaluation.fused import FusedScores, Validation, fuse
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.cells import Figures
from evenreel.planted.worlds.splits import SplitSizes, annotated_clips
from evenreel.training.batches import FeatureExamples, TrainingInputs, pairs_of
from evenreel.training.loop import RunHooks
from evenreel.training.material import drawn_alike
from evenreel.training.members import train_recipe
from evenreel.training.recipe import Data, Loop, MatcherChoice, Optimiser, Recipe, Records, Selection
from evenreel.training.splits import lengths_of
from evenreel.types import Corpus, ScoreBlocks, Scores, TextFeatures, VideoFeatures

SplitName = Literal["train", "val", "test"]
BATCH = 128
EVALUATIONS = 10
"""Of each training, on its validation split."""
OTHER = 1_000
"""Added to the seed of a training that begins from other random numbers."""
LINEAR = AdapterSettings(kind="linear")


@lru_cache(maxsize=1)
def annotation_table(folder: Path) -> Corpus:
    """The tables of EPIC-KITCHENS-100."""
    return FORMATS["epic-kitchens-100"]([folder]).corpus


def clips_of(place: Place, val: int = 1_000) -> pl.DataFrame:
    """The annotated clips of a world, with at most `val` in the validation split."""
    sizes = SplitSizes(place.size.clips, val, place.size.test_clips)
    return annotated_clips(annotation_table(place.annotations), sizes, place.seed)


def recipe(
    seed: int, steps: int, matcher: str = "mean_pool", settings: Mapping[str, Any] | None = None, lr: float = 4e-3
) -> Recipe:
    """A matcher behind linear maps, with the best of ten states on the validation split."""
    return Recipe(
        name=f"evidence-{matcher}",
        data=Data(corpus="world", features="world", validation="val"),
        matcher=MatcherChoice(matcher, {"temperature": 0.03, **(settings or {})}),
        adapter=LINEAR,
        optimiser=Optimiser(lr=lr, weight_decay=0.05),
        loop=Loop(batch_size=BATCH, epochs=None, steps=steps, seed=seed, device="cpu"),
        selection=Selection("R@1", every_steps=max(1, steps // EVALUATIONS)),
        records=Records(every_steps=steps, tensorboard=False),
    )


def plain_recipe(name: str, place: Place) -> Recipe:
    """The recipe of the baseline, and of the rows for admission that change nothing but its training.

    Args:
        name: of a row; one that is not in `PLAIN_ROWS` is trained as the baseline is.
        place: with the seed and the steps of the baseline.
    """
    steps = PLAIN_ROWS[name].steps if name in PLAIN_ROWS else 1.0
    asked = recipe(place.seed + OTHER * (name == AGAIN), round(steps * place.size.steps))
    return without_adapter(asked) if name == NO_ADAPTER else asked


def without_adapter(asked: Recipe) -> Recipe:
    """The recipe for features as they are."""
    return replace(asked, adapter=None)


def learned(
    asked: Recipe,
    train_part: Part,
    val: Part,
    start: Mapping[str, Tensor] | None = None,
    examples: FeatureExamples | None = None,
) -> tuple[Matcher, float]:
    """A trained matcher with its best weights on the validation split, and seconds of processor time.

    Args:
        asked: the recipe; its members become one matcher.
        train_part: what is learned from.
        val: what weights are selected on.
        start: all weights to begin with; None for fresh ones.
        examples: of the training part with weights or mirrors; None for its plain ones.
    """
    begun_s = time.process_time()
    size, learned_from = train_part.videos.frames.shape[-1], examples or examples_of(train_part)
    lengths = None if asked.members is None else lengths_of(train_part.corpus, learned_from.pairs.clip_ids)
    material = TrainingInputs(learned_from, size, examples_of(val), start=start or {}, lengths=lengths)
    hooks = RunHooks(partial(found_by, part=val, relevance=relevance_of(val), metrics=("R@1",)))
    with tempfile.TemporaryDirectory() as folder:
        matcher = train_recipe(asked, material, Path(folder), hooks).matcher
    return matcher, time.process_time() - begun_s


def learned_by_likeness(asked: Recipe, train_part: Part, val: Part, searched: VideoFeatures) -> tuple[Matcher, float]:
    """As `learned`, from clips drawn the more often, the more they are like those that are searched."""
    begun_s = time.process_time()
    examples, _ = drawn_alike(examples_of(train_part), searched)
    weighed_s = time.process_time() - begun_s
    matcher, seconds = learned(asked, train_part, val, examples=examples)
    return matcher, weighed_s + seconds


def examples_of(part: Part) -> FeatureExamples:
    """Pairs of captions and clips with their features."""
    return FeatureExamples(pairs_of(part.corpus, part.texts.ids, part.videos.ids), part.texts, part.videos)


def relevance_of(part: Part) -> NDArray[np.float64]:
    """(Q, V) 1 where a clip has all verb and noun classes of the caption, else 0."""
    missing = np.zeros((part.corpus.captions.height, part.corpus.clips.height))
    for kind in ("verb_classes", "noun_classes"):
        named, shown = part.corpus.captions[kind], part.corpus.clips[kind]
        count = 1 + max(int(classes.explode().to_numpy().max()) for classes in (named, shown))
        missing += one_hot(named, count) @ (1 - one_hot(shown, count)).T
    return (missing == 0).astype(np.float64)


def one_hot(classes: pl.Series, count: int) -> NDArray[np.float64]:
    """(N, C) 1 where a row has the class, else 0."""
    table = np.zeros((len(classes), count))
    rows = np.repeat(np.arange(len(classes)), classes.list.len().to_numpy())
    table[rows, classes.explode().drop_nulls().to_numpy()] = 1
    return table


def found_by(
    scores: ScoreBlocks, part: Part, relevance: NDArray[np.float64] | None = None, metrics: Sequence[str] = METRICS
) -> Figures:
    """Metrics in percent, text to video.

    Args:
        scores: of all captions and clips of a split.
        part: the split.
        relevance: (Q, V), `relevance_of` the split where None.
        metrics: in the words of `evenreel evaluate`.
    """
    settings = EvaluationSettings(parse_metrics(list(metrics)), ("t2v",), resamples=0)
    relevance = relevance_of(part) if relevance is None else relevance
    summary = evaluate(scores, part.corpus, settings, relevance=relevance).directions["t2v"].summary
    return {name: summary[name].value for name in metrics}


def as_scores(values: NDArray[np.floating], part: Part) -> Scores:
    """(Q, V) values as scores of the captions and clips of a split."""
    return Scores(values, part.texts.ids, part.videos.ids)


def values_of(matcher: Matcher, part: Part) -> NDArray[np.floating]:
    """(Q, V) scores of a split."""
    scores = matcher_scores(matcher, part.texts, part.videos)
    return scores.block(slice(0, len(part.texts.ids)), slice(0, len(part.videos.ids)))


def measured_row(matcher: Matcher, test: Part, training_s: float) -> Figures:
    """What a trained matcher finds in the test split, and what it costs."""
    begun_s = time.process_time()
    scores = as_scores(values_of(matcher, test), test)
    searched_s = time.process_time() - begun_s
    return found_by(scores, test) | {TRAINING_S: training_s, SEARCH_S: searched_s}


def fused_by_validation(
    scores: Callable[[str, SplitName], ScoreBlocks], channels: Sequence[str], val: Part, *, alike: bool = False
) -> FusedScores:
    """Fuse channels of the test split with scales and weights from the validation split.

    Args:
        scores: scores of a channel and a split.
        channels: names of two or more.
        val: the validation split.
        alike: whether weights are equal, so that scales alone are from the validation split.
    """
    answers = None if alike else own_clip(val.corpus, val.texts.ids, val.videos.ids)
    weights = [1 / len(channels)] * len(channels) if alike else ()
    held_out = Validation([scores(name, "val") for name in channels], answers)
    return fuse({name: scores(name, "test") for name in channels}, weights=weights, validation=held_out)


def cosines(texts: TextFeatures, videos: VideoFeatures) -> NDArray[np.float32]:
    """(Q, V) cosine of the sentence and the mean frame, as an encoder scores without any training."""
    pooled = videos.frames.astype(np.float32).mean(1)
    scores: NDArray[np.float32] = texts.sentence @ (pooled / np.linalg.norm(pooled, axis=1, keepdims=True)).T
    return scores
