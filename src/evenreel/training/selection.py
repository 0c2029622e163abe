"""What a model is selected by while it is trained: figures of its scores of the validation split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenreel.evaluation.measure import evaluate
from evenreel.evaluation.metrics import parse_metric, parse_metrics
from evenreel.evaluation.results import EvaluationSettings
from evenreel.types import Corpus, ScoreBlocks

if TYPE_CHECKING:
    from evenreel.training.recipe.recipe import Recipe
    from evenreel.training.recipe.sections import Selection

METRICS = ("R@1", "R@5", "R@10", "MedR", "MeanR", "Rsum")


@dataclass(frozen=True, eq=False)
class SelectionMeasure:
    """Figures of validation scores, text to video; an `evenreel.training.loop.validation.Measure` that can be pickled.

    Attributes:
        selection: its metric is one of the figures.
        corpus: the part that the scores are of.
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
    """Check whether the best value of the selection's metric is the highest one."""
    return parse_metric(recipe.selection.metric).higher_is_better
