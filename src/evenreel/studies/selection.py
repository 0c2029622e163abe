"""What a model is selected by while it is trained: figures of its scores of the validation split."""

from __future__ import annotations

from collections.abc import Mapping

from evenreel.evaluation import EvaluationSettings, evaluate, parse_metric, parse_metrics
from evenreel.training.recipe import Recipe
from evenreel.training.validation import Measure
from evenreel.types import Corpus, ScoreBlocks

METRICS = ("R@1", "R@5", "R@10", "MedR", "MeanR", "Rsum")


def selection_measure(recipe: Recipe, corpus: Corpus) -> Measure:
    """Figures of validation scores, text to video; the metric of the selection is one of them."""
    words = dict.fromkeys((*METRICS, recipe.selection.metric))
    settings = EvaluationSettings(metrics=parse_metrics(list(words)), directions=("t2v",), resamples=0)

    def measure(scores: ScoreBlocks) -> Mapping[str, float]:
        found = evaluate(scores, corpus, settings, relevance=recipe.selection.relevance)
        return {name: figure.value for name, figure in found.directions["t2v"].summary.items()}

    return measure


def higher_is_better(recipe: Recipe) -> bool:
    """Whether the best value of the selection's metric is the highest one."""
    return parse_metric(recipe.selection.metric).higher_is_better
