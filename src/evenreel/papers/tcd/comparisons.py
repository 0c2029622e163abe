"""Tables of trainings of TCD (Zhao et al., AAAI 2026), by their numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.recalls import BOTH, ends_of, named, recall_figures
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.training_tables import Measures, TrainingComparison, compared_trainings
from evenreel.papers.engine.variants import Variants
from evenreel.papers.tcd import variants
from evenreel.papers.tcd.variants import LAMBDAS, RATIOS, SAID, WORDLESS, ratio_row, weight_row
from evenreel.papers.tcd.variants import TCD as WHOLE

T2V, V2T = "T2V", "V2T"
RECALLS = ("R@1", "R@5", "R@10")
MEANS = (*RECALLS, "MeanR")
RANKS = (*RECALLS, "MedR", "MeanR")
MAIN = "R@1 T2V"
KEPT, EMPTY = "Words that are kept", "Windows without text"


def _table(
    rows: Callable[[LearningInputs, TrainingSettings], Variants], metrics: tuple[str, ...], **changes: Any
) -> partial[Findings]:
    """A table of trainings, about R@1 T2V or its first column; `changes` are fields of `TrainingComparison`."""
    main = MAIN if MAIN in metrics and BOTH not in metrics else metrics[0]
    measures = Measures("tcd", recall_figures, main, ends_of(metrics))
    return partial(compared_trainings, TrainingComparison(rows, metrics, measures, **changes))


_ONE_WAY, _BOTH_WAYS = named(MEANS, T2V), named(MEANS, T2V, V2T)
_RECALL, _RECALL_BOTH = named(RECALLS, T2V), named(RECALLS, T2V, V2T)
_RATIOS = {"share of the words": {ratio: ratio_row(ratio) for ratio in RATIOS}}
_WEIGHTS = {"lambda_hsc": {weight: weight_row(weight) for weight in LAMBDAS}}

T1 = _table(variants.with_windows, named(RANKS, T2V), lead=WHOLE, notes=("Windows among frames",))
T2 = _table(variants.modules, _BOTH_WAYS, lead=WHOLE, notes=("Modules", "Table 2 in the paper"))
T3 = _table(variants.without_words, _ONE_WAY, lead=WORDLESS, notes=(KEPT, EMPTY))
T4 = _table(
    variants.word_ratios,
    _RECALL,
    lead=WORDLESS,
    notes=(KEPT, EMPTY, "Table 4 in the paper"),
    sweeps=_RATIOS,
    drawn=_RECALL,
)
T5 = _table(
    variants.wordless_modules, _RECALL, lead=f"{SAID}, no text condition", notes=(EMPTY, "Table 5 in the paper")
)
T6 = _table(variants.fusions, _RECALL_BOTH, lead="cross attention", notes=("Table 6 in the paper",))
T7 = _table(variants.match_subsets, _ONE_WAY, lead="match hybrid", notes=("Table 7 in the paper",))
T9 = _table(
    variants.calibration_weights, (BOTH, *_RECALL_BOTH), notes=("Table 9 in the paper",), sweeps=_WEIGHTS, drawn=(BOTH,)
)
T10 = _table(variants.conditions, _ONE_WAY, lead=WHOLE, notes=("Table 10 in the paper",))
F3 = _table(variants.calibrations, _RECALL_BOTH, lead=WHOLE)
READINGS = _table(
    variants.readings_of_the_paper, _RECALL_BOTH, lead="all as printed", notes=("Formulas as printed", EMPTY)
)
NOISE = _table(variants.misread_words, _RECALL, lead="30 % wrong in both", notes=("Words read wrong", KEPT))
