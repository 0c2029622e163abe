"""Lengths that stand in for the activity in rendered videos, which wti sees by a transformer over the frames.

Methods that cost little, as the drawn world has them (`benchmarks/evidence/length.py`); strata are those of algorithm
2, the first of which has the clips that are shorter than the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from benchmarks.evidence import length as in_drawn
from benchmarks.evidence.length import ENSEMBLE, LONGER, WITHOUT_LENGTH, figures_of
from benchmarks.evidence.rendered.worlds import (
    Made,
    Model,
    RenderedWorld,
    Trainings,
    admission_models,
    admission_rows,
    draw,
)
from benchmarks.evidence.rows import AGAIN, BASELINE, Evidence, Place, Size
from benchmarks.over_seeds import Figures
from evenreel.debias.without_length import LengthRemoval
from evenreel.training.recipe.sections import Members

MODELS: dict[str, Model | Callable[[Trainings], Made]] = {
    **admission_models("length"),
    LONGER: Model(steps=2.0),
    WITHOUT_LENGTH: Model(changes={"without_length": LengthRemoval()}),
    "strata 2": Model(changes={"members": Members()}),
    "strata 2, all steps": Model(changes={"members": Members(steps="full")}),
}
ROWS = admission_rows("length") | {
    name: in_drawn.ROWS[name] for name in (LONGER, ENSEMBLE, "strata 2", "strata 2, all steps", WITHOUT_LENGTH)
}


def measured_rows(world: RenderedWorld, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Train what rows need, each model once, and test them."""
    trainings = Trainings(world, place, MODELS)
    for name in rows:
        if name == ENSEMBLE:
            yield name, figures_of([trainings.model(one) for one in (BASELINE, AGAIN)], world.test)
        else:
            yield name, trainings.figures(name)


EVIDENCE = Evidence("rendered", "length", ROWS, partial(draw, "length"), measured_rows, Size(3_000, 0, 1_500))
