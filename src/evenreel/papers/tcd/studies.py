"""Tables and figures of TCD (Zhao et al., AAAI 2026) by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.material import StudyMaterial, StudySettings
from evenreel.papers.engine.study import Study
from evenreel.papers.engine.training_tables import Comparison, compared_trainings
from evenreel.papers.tcd.answers import first_answers
from evenreel.papers.tcd.cost import reading_costs
from evenreel.papers.tcd.tables import (
    FIGURE_3,
    NOISE,
    READINGS,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    TABLE_5,
    TABLE_6,
    TABLE_7,
    TABLE_9,
    TABLE_10,
)
from evenreel.papers.tcd.tokens import token_balance
from evenreel.progress import Progress

RECIPE = "tcd/tcd.yaml"


def _trained(title: str, about: str, function: Callable[[StudyMaterial, StudySettings, Progress], Findings]) -> Study:
    """A study that trains, with selection where the recipe has some."""
    return Study(title, about, function, "training", takes=("validation", "words"), mirrors=False, recipe=RECIPE)


def _table(title: str, about: str, comparison: Comparison) -> Study:
    return _trained(title, about, partial(compared_trainings, comparison))


TCD: dict[str, Study] = {
    "tcd/t1": _table(
        "What does on-screen text give to matchers that only see?",
        "Table 1: four matchers with and without windows of on-screen text, and TCD",
        TABLE_1,
    ),
    "tcd/t2": _table(
        "What does each part of TCD do?",
        "Table 2: clues, co-attention and calibration",
        TABLE_2,
    ),
    "tcd/t3": _table(
        "What is on-screen text worth?",
        "Table 3: TCD with and without the words on screen",
        TABLE_3,
    ),
    "tcd/t4": _table(
        "How many of the words on screen does it take?",
        "Table 4: 0 to 100 % of the words",
        TABLE_4,
    ),
    "tcd/t5": _table(
        "What do the parts of TCD do where there is nothing to read?",
        "Table 5: parts left out without any word",
        TABLE_5,
    ),
    "tcd/t6": _table(
        "How should frames and windows become one?",
        "Table 6: six fusions",
        TABLE_6,
    ),
    "tcd/t7": _table(
        "What should a caption be compared with?",
        "Table 7: frames, windows and the clue of both, alone and together",
        TABLE_7,
    ),
    "tcd/t8": _trained(
        "What does reading cost?",
        "Table 8: tokens, parameters, multiply-adds, time of a training step and of a pair",
        reading_costs,
    ),
    "tcd/t9": _table(
        "How does the weight of calibration matter?",
        "Table 9: seven weights from 0.01 to 10",
        TABLE_9,
    ),
    "tcd/t10": _table(
        "Should the caption say which frames and windows count?",
        "Table 10: on-screen text, frames and both, with and without text condition",
        TABLE_10,
    ),
    "tcd/f1": Study(
        "How many tokens are the words on screen?",
        "Figure 1: words in frames, on signs and in windows beside the frames",
        token_balance,
        "features",
        takes=("words",),
        mirrors=False,
    ),
    "tcd/f3": _table(
        "Which calibration keeps windows in step with frames?",
        "Figure 3: cycles, contrastive pairs and none",
        FIGURE_3,
    ),
    "tcd/f4": Study(
        "What comes first, and why?",
        "Figure 4: the first three clips of captions, with the parts of their scores and their words",
        first_answers,
        "models",
        takes=("pictures", "features", "words"),
        mirrors=False,
    ),
    "tcd/readings": _table(
        "Do our readings of the formulas matter?",
        "Not in the paper: other readings of its formulas, one by one, and all as printed",
        READINGS,
    ),
    "tcd/noise": _table(
        "What do words do that are read wrong?",
        "Not in the paper: 10 and 30 % of the characters wrong, in test or everywhere, with and without confidence",
        NOISE,
    ),
}
