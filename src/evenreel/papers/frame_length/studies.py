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
from evenreel.papers.frame_length.classes import ClassSettings, ClassTrainingSettings, remove_one
from evenreel.papers.frame_length.cost import costs
from evenreel.papers.frame_length.measures import ENDS, MAP, MAP_EPIC, MEASURES, NDCG, RANKS, length_figures
from evenreel.papers.frame_length.pictures import discrepancies, shown_lengths, spread, strips
from evenreel.papers.frame_length.samples import SampleSettings, samples
from evenreel.papers.frame_length.variants import (
    ALL_STEPS,
    BACKDOOR,
    STRATA,
    TUNED,
    BaseSettings,
    against_mining,
    against_trimming,
    controls,
    divisions,
    fine_tuned_strata,
    other_matchers,
    shared_encoder,
    with_ensemble,
    with_mining,
    without_streams,
)
from evenreel.progress import Progress
from evenreel.types import Corpus

COST = (
    "What a gain costs: a matcher of M members encodes each clip M times and keeps M galleries. Where a recipe counts "
    "epochs, members of strata see the training clips as often as one training does all together; those of an ensemble "
    "see all of them each."
)

TOTAL = (
    "Fine-tuned strata take the steps of the training on all clips and then their own, so they are compared with a "
    "baseline that is trained for as many; what that gains too is no correction of a bias."
)
PARTS = (
    "A share of the steps each, strata cost in all what the baseline costs; with all steps each, and in an ensemble, "
    "as much as it costs as often. Strata at random are as large as those by length. Baseline to strata at random is "
    "what division costs, strata at random to strata by length what the division by length adds."
)


def _check_classes(corpus: Corpus) -> None:
    class_relevance(corpus, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list())


BY_CLASSES = Measures(length_figures, NDCG[-1], MEASURES, ENDS, _check_classes)
"""The paper calls nDCG the metric that shows the bias."""


def _trained(
    title: str,
    about: str,
    function: Callable[[LearningInputs, Settings, Progress], Findings],
    settings: type[Settings],
) -> Study[LearningInputs, Settings]:
    """A study that trains, with selection where the recipe has some."""
    return Study(title, about, function, TRAINING, settings, recipe="frame_length/length.yaml")


def _table(
    title: str,
    about: str,
    variants: Callable[[LearningInputs, TrainingSettings], Variants],
    metrics: tuple[str, ...],
    **changes: Any,
) -> Study[LearningInputs, TrainingSettings]:
    """A table of trainings, each with what it costs; `changes` are fields of `TrainingComparison`."""
    comparison = TrainingComparison(variants, metrics, BY_CLASSES, **{"notes": (COST,), **changes})
    return _trained(title, about, partial(compared_trainings, comparison), TrainingSettings)


_GRADED = (*NDCG, *MAP_EPIC, *MAP)
_MEANS = (NDCG[-1], MAP_EPIC[-1], MAP[-1])

LENGTH: dict[str, Study[Any, Any]] = {
    "length/t1": _table(
        "What corrects a frame-length bias?",
        "Table 1: trimming, an ensemble and the backdoor adjustment",
        against_trimming,
        _GRADED,
        lead=BACKDOOR,
    ),
    "length/t2": _table(
        "What does the backdoor adjustment add to RAN and RANP?",
        "Table 2: losses that know degrees of relevance, nDCG and mAP",
        against_mining,
        _GRADED,
        lead=f"RANP + {BACKDOOR}",
    ),
    "length/t3": _table(
        "What does the backdoor adjustment do to recall?",
        "Tables 3 and 9: recall, ranks and nDCG, with and without RAN and RANP",
        with_mining,
        (*RANKS, *NDCG),
        lead=f"{BASELINE} + {BACKDOOR}",
    ),
    "length/t4": _table(
        "How are training clips best divided by length?",
        "Table 4: equal and adjusted strata, two to four, and one stratum alone",
        divisions,
        (*_MEANS, "R@10", "MeanR"),
        lead="adjusted 2",
    ),
    "length/t5": _trained(
        "What does the backdoor adjustment cost?",
        "Table 5: parameters, multiply-adds and the time of an epoch",
        costs,
        TrainingSettings,
    ),
    "length/t6": _table(
        "Which stream of the features counts?", "Table 6: each stream left out in turn", without_streams, _MEANS
    ),
    "length/t7": _trained(
        "What does the backdoor adjustment do to other matchers?",
        "Table 7: other base models",
        partial(compared_trainings, TrainingComparison(other_matchers, _GRADED, BY_CLASSES, notes=(COST,))),
        BaseSettings,
    ),
    "length/t8": _trained(
        "What do the lengths of one class do?",
        "Table 8: RmvOne, the shortest or the longest clips of a class left out",
        remove_one,
        ClassTrainingSettings,
    ),
    "length/t10": _table(
        "Is the backdoor adjustment more than an ensemble?",
        "Table 10: beside as many models of all clips",
        with_ensemble,
        _GRADED,
        lead=BACKDOOR,
    ),
    "length/failure": _table(
        "What does fine-tuning on each stratum do?",
        "Section C.4, the failure method: strata that begin with a model of all clips",
        fine_tuned_strata,
        (*_GRADED, "R@1", "R@10"),
        lead=TUNED,
        notes=(COST, TOTAL),
    ),
    "length/controls": _table(
        "What does the division by length do, and what the steps?",
        "Not in the paper: strata by length beside strata at random and baselines of as many steps",
        controls,
        (*_GRADED, "R@1"),
        lead=f"{STRATA}{ALL_STEPS}",
        notes=(COST, TOTAL, PARTS),
    ),
    "length/samples": _trained(
        "What does trimming do to captions that may be missed for their length?",
        "Section B: 60 suspected captions after RmvAll",
        samples,
        SampleSettings,
    ),
    "length/shared": _table(
        "What does one encoder for all strata keep of the gain?",
        "Not in the paper: a head for each stratum, and one gallery",
        shared_encoder,
        _GRADED,
        lead="shared encoder",
    ),
    "length/f1": Study(
        "Which lengths are the captions of a class shown?",
        "Figures 1, 6, 9 and 10: lengths of a class in training, in test and among the first clips",
        shown_lengths,
        LENGTH_RANKINGS,
        ClassSettings,
    ),
    "length/f2": Study(
        "How far do classes differ in length between training and test?",
        "Figures 2 and 8: every class, with its sign and without",
        discrepancies,
        LENGTHS,
        StudySettings,
    ),
    "length/f5": Study(
        "How relevant are the first clips of a caption?",
        "Figures 5 and 11: the first 50 of some captions and clips, system by system",
        strips,
        LENGTH_RANKINGS,
        QuerySettings,
    ),
    "length/f7": Study(
        "How are the lengths of clips spread?",
        "Figures 7, 9 and 10: box plots of training and test, without outliers and with them",
        spread,
        LENGTHS,
        StudySettings,
    ),
}
