"""Tables and figures of TCD (Zhao et al., AAAI 2026) by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.needs import TEXT, TEXT_PICTURES, TEXT_TRAINING
from evenreel.papers.engine.recalls import BOTH, ends_of, named, recall_figures
from evenreel.papers.engine.settings import QuerySettings, StudySettings, TrainingSettings
from evenreel.papers.engine.study import Study
from evenreel.papers.engine.training_tables import Measures, TrainingComparison, compared_trainings
from evenreel.papers.engine.variants import Variants
from evenreel.papers.tcd.answers import first_answers
from evenreel.papers.tcd.cost import reading_costs
from evenreel.papers.tcd.tokens import token_balance
from evenreel.papers.tcd.variants import (
    LAMBDAS,
    RATIOS,
    SAID,
    WORDLESS,
    calibration_weights,
    calibrations,
    conditions,
    fusions,
    match_subsets,
    misread_words,
    modules,
    ratio_row,
    readings_of_the_paper,
    weight_row,
    with_windows,
    without_words,
    word_ratios,
    wordless_modules,
)
from evenreel.papers.tcd.variants import TCD as WHOLE
from evenreel.progress import Progress

T2V, V2T = "T2V", "V2T"
RECALLS = ("R@1", "R@5", "R@10")
MEANS = (*RECALLS, "MeanR")
RANKS = (*RECALLS, "MedR", "MeanR")
MAIN = "R@1 T2V"

ABOUT = (
    "Recall is the share of captions whose own clip is among the first k (T2V), and of clips with one of their "
    "captions there (V2T); MedR and MeanR are the median and the mean of the ranks. Items with equal scores have their "
    "expected rank."
)
AMONG = (
    "The other matchers know nothing of windows: with them, windows with text stand among the frames, behind the map "
    "of what the text tower made, and count as frames do."
)
MODULES = (
    "baseline: cross-attention of windows on frames instead of clues, no co-attention, no calibration (row 1). A "
    "module that is off is not built."
)
PAPER_2 = (
    "On TextVR the paper has R@1 53.3 for the baseline, 54.9 with clues alone, 58.9 without calibration, 56.0 without "
    "co-attention, and 60.4 with all; V2T 46.0, 47.3, 49.2, 48.9 and 51.9."
)
KEPT = (
    "Every word on screen has one number drawn by data.words.seed and is kept where that is below the ratio, in "
    "training and in test: what a small ratio keeps, a larger one keeps too. The same words are kept in all trainings, "
    "so intervals do not count that others might have been."
)
EMPTY = (
    f"{WORDLESS}: windows without text take no part, and a clip without any has one vector that is learned. {SAID}: "
    "each says 'There is no scene text in this frame.', as in the paper, and counts as a window."
)
PAPER_4 = (
    "On MSR-VTT the paper has R@1 54.5, 56.5, 57.6, 58.5, 58.9 and 59.7 with 0, 10, 20, 40, 80 and 100 % of words."
)
PAPER_5 = (
    "On MSR-VTT without words the paper has R@1 54.5, 49.8 without co-attention, 53.9 without calibration, 49.3 "
    "without clues and 38.6 without text condition. Calibration to windows that all say the same can align nothing."
)
PAPER_6 = (
    "On TextVR the paper has R@1 57.1 by addition, 56.4 by A x B + A, 57.4 by an MLP of both, 58.6 by cross-attention, "
    "59.4 by the clue of the video and 60.4 by both clues."
)
PAPER_7 = (
    "On TextVR the paper has R@1 54.0 by video, 54.1 by OCR, 56.8 by the hybrid; 58.9, 58.7 and 60.0 by video + OCR, "
    "OCR + hybrid and video + hybrid; 60.4 by all."
)
PAPER_9 = (
    "On TextVR the paper has 442.6, 431.9, 448.1, 446.6, 443.5, 446.3 and 414 at 0.01, 0.05, 0.1, 0.5, 1, 5 and 10; "
    "its second figure does not go with its neighbours."
)
PAPER_10 = (
    "On TextVR the paper has R@1 25.2 by OCR, 25.3 by video and 35.1 by both without text condition, and 43.3, 35.8 "
    "and 60.4 with it. One modality alone has no co-attention, clues or calibration."
)
PRINTED = (
    "Each row is tcd with one formula read otherwise. All as printed is several at once: weights of frames and windows "
    "add up to 1, attention has no norm and clues no residual, clues see nothing of their own modality, distances "
    "stand for similarities in calibration, and windows without text say so. Co-attention has no residual in the "
    "paper, and here only in its row; keys of both and the cycle by distance are no more as printed. Tau stays as it "
    "is in all as printed: 5 is the paper's number for vectors about ten long, and those of features have length 1."
)
MISREAD = (
    "Each character is replaced, left out or followed by another one at the rate that the row names, in each window "
    "anew, so that other windows may show what a word was; in test: also in what weights are selected on, and not in "
    "what is learned from. By confidence: windows count by the confidence that their words were read with, which is "
    "that of the features and knows nothing of these errors."
)


def _trained(
    title: str, about: str, function: Callable[[LearningInputs, TrainingSettings, Progress], Findings]
) -> Study[LearningInputs, TrainingSettings]:
    """A study that trains, with selection where the recipe has some."""
    return Study(title, about, function, TEXT_TRAINING, TrainingSettings, recipe="tcd/tcd.yaml")


def _table(
    title: str,
    about: str,
    variants: Callable[[LearningInputs, TrainingSettings], Variants],
    metrics: tuple[str, ...],
    **changes: Any,
) -> Study[LearningInputs, TrainingSettings]:
    """A table of trainings, about R@1 T2V or its first column; `changes` are fields of `TrainingComparison`."""
    main = MAIN if MAIN in metrics and BOTH not in metrics else metrics[0]
    measures = Measures(recall_figures, main, ABOUT, ends_of(metrics))
    return _trained(
        title, about, partial(compared_trainings, TrainingComparison(variants, metrics, measures, **changes))
    )


_ONE_WAY, _BOTH_WAYS = named(MEANS, T2V), named(MEANS, T2V, V2T)
_RECALL, _RECALL_BOTH = named(RECALLS, T2V), named(RECALLS, T2V, V2T)

TCD: dict[str, Study[Any, Any]] = {
    "tcd/t1": _table(
        "What does on-screen text give to matchers that only see?",
        "Table 1: four matchers with and without windows of on-screen text, and TCD",
        with_windows,
        named(RANKS, T2V),
        lead=WHOLE,
        notes=(AMONG,),
    ),
    "tcd/t2": _table(
        "What does each part of TCD do?",
        "Table 2: clues, co-attention and calibration",
        modules,
        _BOTH_WAYS,
        lead=WHOLE,
        notes=(MODULES, PAPER_2),
    ),
    "tcd/t3": _table(
        "What is on-screen text worth?",
        "Table 3: TCD with and without the words on screen",
        without_words,
        _ONE_WAY,
        lead=WORDLESS,
        notes=(KEPT, EMPTY),
    ),
    "tcd/t4": _table(
        "How many of the words on screen does it take?",
        "Table 4: 0 to 100 % of the words",
        word_ratios,
        _RECALL,
        lead=WORDLESS,
        notes=(KEPT, EMPTY, PAPER_4),
        sweeps={"share of the words": {ratio: ratio_row(ratio) for ratio in RATIOS}},
        drawn=_RECALL,
    ),
    "tcd/t5": _table(
        "What do the parts of TCD do where there is nothing to read?",
        "Table 5: parts left out without any word",
        wordless_modules,
        _RECALL,
        lead=f"{SAID}, no text condition",
        notes=(EMPTY, PAPER_5),
    ),
    "tcd/t6": _table(
        "How should frames and windows become one?",
        "Table 6: six fusions",
        fusions,
        _RECALL_BOTH,
        lead="cross attention",
        notes=(PAPER_6,),
    ),
    "tcd/t7": _table(
        "What should a caption be compared with?",
        "Table 7: frames, windows and the clue of both, alone and together",
        match_subsets,
        _ONE_WAY,
        lead="match hybrid",
        notes=(PAPER_7,),
    ),
    "tcd/t8": _trained(
        "What does reading cost?",
        "Table 8: tokens, parameters, multiply-adds, time of a training step and of a pair",
        reading_costs,
    ),
    "tcd/t9": _table(
        "How does the weight of calibration matter?",
        "Table 9: seven weights from 0.01 to 10",
        calibration_weights,
        (BOTH, *_RECALL_BOTH),
        notes=(PAPER_9,),
        sweeps={"lambda_hsc": {weight: weight_row(weight) for weight in LAMBDAS}},
        drawn=(BOTH,),
    ),
    "tcd/t10": _table(
        "Should the caption say which frames and windows count?",
        "Table 10: on-screen text, frames and both, with and without text condition",
        conditions,
        _ONE_WAY,
        lead=WHOLE,
        notes=(PAPER_10,),
    ),
    "tcd/f1": Study(
        "How many tokens are the words on screen?",
        "Figure 1: words in frames, on signs and in windows beside the frames",
        token_balance,
        TEXT,
        StudySettings,
    ),
    "tcd/f3": _table(
        "Which calibration keeps windows in step with frames?",
        "Figure 3: cycles, contrastive pairs and none",
        calibrations,
        _RECALL_BOTH,
        lead=WHOLE,
    ),
    "tcd/f4": Study(
        "What comes first, and why?",
        "Figure 4: the first three clips of captions, with the parts of their scores and their words",
        first_answers,
        TEXT_PICTURES,
        QuerySettings,
    ),
    "tcd/readings": _table(
        "Do our readings of the formulas matter?",
        "Not in the paper: other readings of its formulas, one by one, and all as printed",
        readings_of_the_paper,
        _RECALL_BOTH,
        lead="all as printed",
        notes=(PRINTED, EMPTY),
    ),
    "tcd/noise": _table(
        "What do words do that are read wrong?",
        "Not in the paper: 10 and 30 % of the characters wrong, in test or everywhere, with and without confidence",
        misread_words,
        _RECALL,
        lead="30 % wrong in both",
        notes=(MISREAD, KEPT),
    ),
}
