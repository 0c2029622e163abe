"""Tables of trainings of BiMa (arXiv 2506.03589), by their numbers, and of what its supplement is said to have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evenreel.papers.bima import variants
from evenreel.papers.bima.measures import BY_RECALL, T2V, V2T
from evenreel.papers.bima.variants import BIMA as WHOLE
from evenreel.papers.bima.variants import KAPPAS, LAMBDAS, row_of
from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.training_tables import TrainingComparison, compared_trainings
from evenreel.papers.engine.variants import Variants


def _table(rows: Callable[[LearningInputs, TrainingSettings], Variants], **changes: Any) -> partial[Findings]:
    """A table of trainings; `changes` are fields of `TrainingComparison`."""
    return partial(compared_trainings, TrainingComparison(rows, (*T2V, *V2T), BY_RECALL, **changes))


_WEIGHTS = {name: {value: row_of(name, value) for value in values} for name, values in LAMBDAS.items()}
_COUNTS = {"kappa": {kappa: row_of("kappa", kappa) for kappa in KAPPAS}}
_DRAWN = (T2V[0], V2T[0])

T4 = _table(variants.parts, lead=WHOLE, notes=("Parts that are off", "Table 4 in the paper"))
F3 = _table(variants.weights, sweeps=_WEIGHTS, drawn=_DRAWN)
G = _table(variants.balances, lead="g none")
KAPPA = _table(variants.element_counts, notes=("Fewer elements",), sweeps=_COUNTS, drawn=_DRAWN)
READINGS = _table(variants.readings_of_the_paper, lead="attention without residual")
