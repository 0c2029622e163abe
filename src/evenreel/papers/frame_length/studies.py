"""Each table and figure of the paper on frame-length bias (arXiv 2309.09311) by name, and one that it does not have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.material import StudyMaterial, StudySettings
from evenreel.papers.engine.study import Need, Study
from evenreel.papers.engine.training_tables import Comparison, compared_trainings
from evenreel.papers.frame_length.classes import remove_one
from evenreel.papers.frame_length.cost import costs
from evenreel.papers.frame_length.pictures import discrepancies, shown_lengths, spread, strips
from evenreel.papers.frame_length.samples import samples
from evenreel.papers.frame_length.tables import (
    CONTROLS,
    FAILURE,
    SHARED,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    TABLE_6,
    TABLE_7,
    TABLE_10,
)
from evenreel.progress import Progress

RECIPE = "frame_length/length.yaml"

Function = Callable[[StudyMaterial, StudySettings, Progress], Findings]


def _trained(title: str, about: str, function: Function) -> Study:
    """A study that trains, with selection where the recipe has some."""
    return Study(title, about, function, "training", takes=("validation",), mirrors=False, recipe=RECIPE)


def _table(title: str, about: str, comparison: Comparison) -> Study:
    return _trained(title, about, partial(compared_trainings, comparison))


def _shown(title: str, about: str, function: Function, needs: Need) -> Study:
    """A study of what is there."""
    return Study(title, about, function, needs, mirrors=False)


LENGTH: dict[str, Study] = {
    "length/t1": _table(
        "What corrects a frame-length bias?",
        "Table 1: trimming, an ensemble and the backdoor adjustment",
        TABLE_1,
    ),
    "length/t2": _table(
        "What does the backdoor adjustment add to RAN and RANP?",
        "Table 2: losses that know degrees of relevance, nDCG and mAP",
        TABLE_2,
    ),
    "length/t3": _table(
        "What does the backdoor adjustment do to recall?",
        "Tables 3 and 9: recall, ranks and nDCG, with and without RAN and RANP",
        TABLE_3,
    ),
    "length/t4": _table(
        "How are training clips best divided by length?",
        "Table 4: equal and adjusted strata, two to four, and one stratum alone",
        TABLE_4,
    ),
    "length/t5": _trained(
        "What does the backdoor adjustment cost?",
        "Table 5: parameters, multiply-adds and the time of an epoch",
        costs,
    ),
    "length/t6": _table(
        "Which stream of the features counts?",
        "Table 6: each stream left out in turn",
        TABLE_6,
    ),
    "length/t7": _table(
        "What does the backdoor adjustment do to other matchers?",
        "Table 7: other base models",
        TABLE_7,
    ),
    "length/t8": _trained(
        "What do the lengths of one class do?",
        "Table 8: RmvOne, the shortest or the longest clips of a class left out",
        remove_one,
    ),
    "length/t10": _table(
        "Is the backdoor adjustment more than an ensemble?",
        "Table 10: beside as many models of all clips",
        TABLE_10,
    ),
    "length/failure": _table(
        "What does fine-tuning on each stratum do?",
        "Section C.4, the failure method: strata that begin with a model of all clips",
        FAILURE,
    ),
    "length/controls": _table(
        "What does the division by length do, and what the steps?",
        "Not in the paper: strata by length beside strata at random and baselines of as many steps",
        CONTROLS,
    ),
    "length/samples": _trained(
        "What does trimming do to captions that may be missed for their length?",
        "Section B: 60 suspected captions after RmvAll",
        samples,
    ),
    "length/shared": _table(
        "What does one encoder for all strata keep of the gain?",
        "Not in the paper: a head for each stratum, and one gallery",
        SHARED,
    ),
    "length/f1": _shown(
        "Which lengths are the captions of a class shown?",
        "Figures 1, 6, 9 and 10: lengths of a class in training, in test and among the first clips",
        shown_lengths,
        "rankings",
    ),
    "length/f2": _shown(
        "How far do classes differ in length between training and test?",
        "Figures 2 and 8: every class, with its sign and without",
        discrepancies,
        "lengths",
    ),
    "length/f5": _shown(
        "How relevant are the first clips of a caption?",
        "Figures 5 and 11: the first 50 of some captions and clips, system by system",
        strips,
        "rankings",
    ),
    "length/f7": _shown(
        "How are the lengths of clips spread?",
        "Figures 7, 9 and 10: box plots of training and test, without outliers and with them",
        spread,
        "lengths",
    ),
}
