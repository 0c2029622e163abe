"""Tables and figures of TCD (Zhao et al., AAAI 2026) by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.needs import TEXT, TEXT_PICTURES, TEXT_TRAINING
from evenreel.papers.engine.recalls import BOTH, ends_of, named, recall_figures
from evenreel.papers.engine.settings import QuerySettings, StudySettings, TrainingSettings
from evenreel.papers.engine.study import Study
from evenreel.papers.engine.training_tables import Measures, TrainingComparison, compared_trainings
from evenreel.papers.engine.variants import Variants
from evenreel.papers.tcd import variants
from evenreel.papers.tcd.answers import first_answers
from evenreel.papers.tcd.cost import reading_costs
from evenreel.papers.tcd.tokens import token_balance
from evenreel.papers.tcd.variants import LAMBDAS, RATIOS, SAID, WORDLESS, ratio_row, weight_row
from evenreel.papers.tcd.variants import TCD as WHOLE

T2V, V2T = "T2V", "V2T"
RECALLS = ("R@1", "R@5", "R@10")
MEANS = (*RECALLS, "MeanR")
RANKS = (*RECALLS, "MedR", "MeanR")
MAIN = "R@1 T2V"
RECIPE = "tcd/tcd.yaml"
KEPT, EMPTY = "Words that are kept", "Windows without text"


def _table(
    name: str,
    rows: Callable[[LearningInputs, TrainingSettings], Variants],
    metrics: tuple[str, ...],
    **changes: Any,
) -> Study[LearningInputs, TrainingSettings]:
    """A table of trainings, about R@1 T2V or its first column; `changes` are fields of `TrainingComparison`."""
    main = MAIN if MAIN in metrics and BOTH not in metrics else metrics[0]
    comparison = TrainingComparison(rows, metrics, Measures("tcd", recall_figures, main, ends_of(metrics)), **changes)
    return Study(name, partial(compared_trainings, comparison), TEXT_TRAINING, TrainingSettings, recipe=RECIPE)


_ONE_WAY, _BOTH_WAYS = named(MEANS, T2V), named(MEANS, T2V, V2T)
_RECALL, _RECALL_BOTH = named(RECALLS, T2V), named(RECALLS, T2V, V2T)
_RATIOS = {"share of the words": {ratio: ratio_row(ratio) for ratio in RATIOS}}
_WEIGHTS = {"lambda_hsc": {weight: weight_row(weight) for weight in LAMBDAS}}

TCD: tuple[Study[Any, Any], ...] = (
    _table("tcd/t1", variants.with_windows, named(RANKS, T2V), lead=WHOLE, notes=("Windows among frames",)),
    _table("tcd/t2", variants.modules, _BOTH_WAYS, lead=WHOLE, notes=("Modules", "Table 2 in the paper")),
    _table("tcd/t3", variants.without_words, _ONE_WAY, lead=WORDLESS, notes=(KEPT, EMPTY)),
    _table(
        "tcd/t4", variants.word_ratios, _RECALL, lead=WORDLESS, notes=(KEPT, EMPTY, "Table 4 in the paper"),
        sweeps=_RATIOS, drawn=_RECALL,
    ),
    _table(
        "tcd/t5", variants.wordless_modules, _RECALL, lead=f"{SAID}, no text condition",
        notes=(EMPTY, "Table 5 in the paper"),
    ),
    _table("tcd/t6", variants.fusions, _RECALL_BOTH, lead="cross attention", notes=("Table 6 in the paper",)),
    _table("tcd/t7", variants.match_subsets, _ONE_WAY, lead="match hybrid", notes=("Table 7 in the paper",)),
    Study("tcd/t8", reading_costs, TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    _table(
        "tcd/t9", variants.calibration_weights, (BOTH, *_RECALL_BOTH), notes=("Table 9 in the paper",),
        sweeps=_WEIGHTS, drawn=(BOTH,),
    ),
    _table("tcd/t10", variants.conditions, _ONE_WAY, lead=WHOLE, notes=("Table 10 in the paper",)),
    Study("tcd/f1", token_balance, TEXT, StudySettings),
    _table("tcd/f3", variants.calibrations, _RECALL_BOTH, lead=WHOLE),
    Study("tcd/f4", first_answers, TEXT_PICTURES, QuerySettings),
    _table(
        "tcd/readings", variants.readings_of_the_paper, _RECALL_BOTH, lead="all as printed",
        notes=("Formulas as printed", EMPTY),
    ),
    _table(
        "tcd/noise", variants.misread_words, _RECALL, lead="30 % wrong in both", notes=("Words read wrong", KEPT)
    ),
)  # fmt: skip
