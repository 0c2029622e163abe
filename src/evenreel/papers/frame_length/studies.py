"""Each table and figure of the paper on frame-length bias (arXiv 2309.09311) by name, and some that it does not have.

Each training stands beside what it costs to search with: a matcher of M members encodes every clip M times, and keeps
as many galleries.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evenreel.corpus.relevance import class_relevance
from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.needs import LENGTH_RANKINGS, LENGTHS, TRAINING
from evenreel.papers.engine.settings import QuerySettings, StudySettings, TrainingSettings
from evenreel.papers.engine.study import Settings, Study
from evenreel.papers.engine.training_tables import Measures, TrainingComparison, compared_trainings
from evenreel.papers.engine.variants import BASELINE, Variants
from evenreel.papers.frame_length import variants
from evenreel.papers.frame_length.classes import ClassSettings, ClassTrainingSettings, remove_one
from evenreel.papers.frame_length.cost import costs
from evenreel.papers.frame_length.measures import ENDS, MAP, MAP_EPIC, NDCG, RANKS, length_figures
from evenreel.papers.frame_length.pictures import discrepancies, shown_lengths, spread, strips
from evenreel.papers.frame_length.samples import SampleSettings, samples
from evenreel.papers.frame_length.variants import ALL_STEPS, BACKDOOR, STRATA, TUNED, BaseSettings
from evenreel.progress import Progress
from evenreel.types import Corpus


def _check_classes(corpus: Corpus) -> None:
    class_relevance(corpus, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list())


BY_CLASSES = Measures("length", length_figures, NDCG[-1], ENDS, _check_classes)
"""The paper calls nDCG the metric that shows the bias."""


def _trained(
    name: str, function: Callable[[LearningInputs, Settings, Progress], Findings], settings: type[Settings]
) -> Study[LearningInputs, Settings]:
    """A study that trains, with selection where the recipe has some."""
    return Study(name, function, TRAINING, settings, recipe="frame_length/length.yaml")


def _table(
    name: str,
    rows: Callable[[LearningInputs, Any], Variants],
    metrics: tuple[str, ...],
    *notes: str,
    lead: str = "",
    settings: type[TrainingSettings] = TrainingSettings,
) -> Study[LearningInputs, Any]:
    """A table of trainings, each with what it costs."""
    comparison = TrainingComparison(rows, metrics, BY_CLASSES, lead, ("What a gain costs", *notes))
    return _trained(name, partial(compared_trainings, comparison), settings)


_GRADED = (*NDCG, *MAP_EPIC, *MAP)
_MEANS = (NDCG[-1], MAP_EPIC[-1], MAP[-1])
_TOTAL, _PARTS = "As many steps", "Shares of the steps"

LENGTH: tuple[Study[Any, Any], ...] = (
    _table("length/t1", variants.against_trimming, _GRADED, lead=BACKDOOR),
    _table("length/t2", variants.against_mining, _GRADED, lead=f"RANP + {BACKDOOR}"),
    _table("length/t3", variants.with_mining, (*RANKS, *NDCG), lead=f"{BASELINE} + {BACKDOOR}"),
    _table("length/t4", variants.divisions, (*_MEANS, "R@10", "MeanR"), lead="adjusted 2"),
    _trained("length/t5", costs, TrainingSettings),
    _table("length/t6", variants.without_streams, _MEANS),
    _table("length/t7", variants.other_matchers, _GRADED, settings=BaseSettings),
    _trained("length/t8", remove_one, ClassTrainingSettings),
    _table("length/t10", variants.with_ensemble, _GRADED, lead=BACKDOOR),
    _table("length/failure", variants.fine_tuned_strata, (*_GRADED, "R@1", "R@10"), _TOTAL, lead=TUNED),
    _table("length/controls", variants.controls, (*_GRADED, "R@1"), _TOTAL, _PARTS, lead=f"{STRATA}{ALL_STEPS}"),
    _trained("length/samples", samples, SampleSettings),
    _table("length/shared", variants.shared_encoder, _GRADED, lead="shared encoder"),
    Study("length/f1", shown_lengths, LENGTH_RANKINGS, ClassSettings),
    Study("length/f2", discrepancies, LENGTHS, StudySettings),
    Study("length/f5", strips, LENGTH_RANKINGS, QuerySettings),
    Study("length/f7", spread, LENGTHS, StudySettings),
)
