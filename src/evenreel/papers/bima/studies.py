"""Tables and figures of BiMa (arXiv 2506.03589) by name, and what its supplement is said to have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evenreel.papers.bima import variants
from evenreel.papers.bima.maps import MapSettings, maps
from evenreel.papers.bima.measures import BY_RECALL, T2V, V2T
from evenreel.papers.bima.parts import projected_parts
from evenreel.papers.bima.readings import by_parts, with_bias
from evenreel.papers.bima.transfer import on_other_corpora
from evenreel.papers.bima.variants import BIMA as WHOLE
from evenreel.papers.bima.variants import KAPPAS, LAMBDAS, row_of
from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.needs import PICTURES, TRAINING, TRANSFER
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.study import Study
from evenreel.papers.engine.training_tables import TrainingComparison, compared_trainings
from evenreel.papers.engine.variants import Variants
from evenreel.progress import Progress

RECIPE = "bima/bima.yaml"


def _trained(
    name: str, function: Callable[[LearningInputs, TrainingSettings, Progress], Findings]
) -> Study[LearningInputs, TrainingSettings]:
    """A study that trains, with selection where the recipe has some."""
    return Study(name, function, TRAINING, TrainingSettings, recipe=RECIPE)


def _table(
    name: str, rows: Callable[[LearningInputs, TrainingSettings], Variants], **changes: Any
) -> Study[LearningInputs, TrainingSettings]:
    """A table of trainings; `changes` are fields of `TrainingComparison`."""
    comparison = TrainingComparison(rows, (*T2V, *V2T), BY_RECALL, **changes)
    return _trained(name, partial(compared_trainings, comparison))


_WEIGHTS = {name: {value: row_of(name, value) for value in values} for name, values in LAMBDAS.items()}
_COUNTS = {"kappa": {kappa: row_of("kappa", kappa) for kappa in KAPPAS}}
_DRAWN = (T2V[0], V2T[0])

BIMA: tuple[Study[Any, Any], ...] = (
    Study("bima/t3", on_other_corpora, TRANSFER, TrainingSettings, recipe=RECIPE),
    _table("bima/t4", variants.parts, lead=WHOLE, notes=("Parts that are off", "Table 4 in the paper")),
    _trained("bima/t5", by_parts),
    _table("bima/f3", variants.weights, sweeps=_WEIGHTS, drawn=_DRAWN),
    _trained("bima/f4", with_bias),
    _trained("bima/f5", projected_parts),
    _table("bima/g", variants.balances, lead="g none"),
    _table("bima/kappa", variants.element_counts, notes=("Fewer elements",), sweeps=_COUNTS, drawn=_DRAWN),
    _table("bima/readings", variants.readings_of_the_paper, lead="attention without residual"),
    Study("bima/maps", maps, PICTURES, MapSettings),
)
