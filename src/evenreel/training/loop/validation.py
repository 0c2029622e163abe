"""Validation of a model in training: features and scores of examples, and the figures that it is selected by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from torch.utils.data import Dataset

from evenreel.arrays import Indices
from evenreel.evaluation.measure import evaluate
from evenreel.evaluation.metrics import parse_metric, parse_metrics
from evenreel.evaluation.settings import EvaluationSettings
from evenreel.similarity.states import Encoded, gather_rows
from evenreel.similarity.tiles import MatcherScores, evaluating
from evenreel.training.data.examples import (
    BatchLoader,
    Texts,
    TrainingExamples,
    Videos,
    move_texts,
    move_videos,
    useful_workers,
)
from evenreel.training.loop.module import RetrievalModule
from evenreel.types import Corpus, OnScreen, ScoreBlocks, TextFeatures, VideoFeatures

if TYPE_CHECKING:
    from evenreel.training.recipe import Recipe, Selection


Measure = Callable[[ScoreBlocks], Mapping[str, float]]
"""Scores of every caption and clip of the validation split -> named figures; `evenreel train` gives a
`SelectionMeasure`."""

METRICS = ("R@1", "R@5", "R@10", "MedR", "MeanR", "Rsum")
"""Figures that are always measured, beside that of `selection.metric`."""

ROWS_A_BATCH = 64
Batch = TypeVar("Batch")
State = tuple[Any, ...]


def validation_scores(module: RetrievalModule, examples: TrainingExamples, workers: int = 0) -> MatcherScores:
    """Compute the scores (Q, V) of the examples' captions and clips by the model as it is, in evaluation mode."""
    pairs = examples.pairs
    captions, clips = np.unique(pairs.captions), np.arange(len(pairs.clip_ids))
    with torch.no_grad(), evaluating(module):
        text = gather_rows(
            len(captions), ((rows, _text_state(module, batch)) for rows, batch in _batches(examples.texts, captions, 0))
        )
        own = useful_workers(examples, workers)
        video = gather_rows(
            len(clips), ((rows, _video_state(module, batch)) for rows, batch in _batches(examples.videos, clips, own))
        )
    texts = Encoded(tuple(pairs.caption_ids[row] for row in captions), text)
    return MatcherScores(module.matcher, texts, Encoded(pairs.clip_ids, video))


def tower_features(
    module: RetrievalModule, examples: TrainingExamples, workers: int = 0
) -> tuple[TextFeatures, VideoFeatures]:
    """Encode the captions and clips of examples with the towers of a module, in evaluation mode and float32.

    Returns:
        Features in float16, as `evenreel features` stores them.
    """
    pairs = examples.pairs
    captions, clips = np.arange(len(pairs.caption_ids)), np.arange(len(pairs.clip_ids))
    with torch.no_grad(), evaluating(module):
        words, word_mask, sentence = gather_rows(
            len(captions), ((rows, _words(module, batch)) for rows, batch in _batches(examples.texts, captions, 0))
        )
        own = useful_workers(examples, workers)
        frames, frame_mask, times_s, written = gather_rows(
            len(clips), ((rows, _frames(module, batch)) for rows, batch in _batches(examples.videos, clips, own))
        )
    texts = TextFeatures(pairs.caption_ids, words.numpy(), word_mask.numpy(), sentence.numpy())
    on_screen = OnScreen(*(tensor.numpy() for tensor in written)) if written else None
    return texts, VideoFeatures(pairs.clip_ids, frames.numpy(), frame_mask.numpy(), times_s.double().numpy(), on_screen)


def _words(module: RetrievalModule, batch: Texts) -> State:
    found = module.text_features(move_texts(batch, module.device))
    return found.words.half(), found.word_mask, found.sentence.half()


def _frames(module: RetrievalModule, batch: Videos) -> State:
    found = module.video_features(move_videos(batch, module.device))
    seen = found.on_screen
    written = () if seen is None else (seen.windows.half(), seen.mask, seen.confidence)
    return found.frames.half(), found.frame_mask, found.times_s, written


def _text_state(module: RetrievalModule, batch: Texts) -> State:
    with module.trainer.precision_plugin.forward_context():  # towers as in training; the matcher in full precision
        features = module.text_features(move_texts(batch, module.device))
    state: State = module.matcher.encode_text(features)
    return state


def _video_state(module: RetrievalModule, batch: Videos) -> State:
    with module.trainer.precision_plugin.forward_context():
        features = module.video_features(move_videos(batch, module.device))
    state: State = module.matcher.encode_video(features)
    return state


class _Slices(Dataset[Batch], Generic[Batch]):
    """Rows in batches, by the first row of each; made in the processes of a loader."""

    def __init__(self, make: Callable[[Indices], Batch], rows: Indices) -> None:
        self._make, self._rows = make, rows

    def __getitem__(self, start: int) -> Batch:
        return self._make(self._rows[start : start + ROWS_A_BATCH])


def _batches(make: Callable[[Indices], Batch], rows: Indices, workers: int) -> Iterator[tuple[slice, Batch]]:
    """Batches with the places of their rows."""
    starts = range(0, len(rows), ROWS_A_BATCH)
    for start, batch in zip(starts, BatchLoader(_Slices(make, rows), workers, starts), strict=True):
        yield slice(start, start + ROWS_A_BATCH), batch


@dataclass(frozen=True, eq=False)
class SelectionMeasure:
    """Callable that computes figures of validation scores, text to video; it can be pickled.

    Attributes:
        selection: settings of model selection, with the metric.
        corpus: the validation part of the corpus.
    """

    selection: Selection
    corpus: Corpus

    def __call__(self, scores: ScoreBlocks) -> Mapping[str, float]:
        """Compute the figures by name."""
        metrics = parse_metrics(list(dict.fromkeys((*METRICS, self.selection.metric))))
        settings = EvaluationSettings(metrics, ("t2v",), resamples=0)
        found = evaluate(scores, self.corpus, settings, relevance=self.selection.relevance)
        return {name: figure.value for name, figure in found.directions["t2v"].summary.items()}


def higher_is_better(recipe: Recipe) -> bool:
    """Return whether higher values of the metric that a recipe selects by are better."""
    return parse_metric(recipe.selection.metric).higher_is_better
