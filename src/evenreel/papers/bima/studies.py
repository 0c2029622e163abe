"""Tables and figures of BiMa (arXiv 2506.03589) by name, and what its supplement is said to have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evenreel.papers.bima.maps import MapSettings, maps
from evenreel.papers.bima.measures import BY_RECALL, T2V, V2T
from evenreel.papers.bima.parts import projected_parts
from evenreel.papers.bima.readings import by_parts, with_bias
from evenreel.papers.bima.transfer import on_other_corpora
from evenreel.papers.bima.variants import (
    BIMA as WHOLE,
)
from evenreel.papers.bima.variants import (
    KAPPAS,
    LAMBDAS,
    balances,
    element_counts,
    parts,
    readings_of_the_paper,
    row_of,
    weights,
)
from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.needs import PICTURES, TRAINING, TRANSFER
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.study import Study
from evenreel.papers.engine.training_tables import TrainingComparison, compared_trainings
from evenreel.papers.engine.variants import Variants
from evenreel.progress import Progress

RECIPE = "bima/bima.yaml"
PAPER = (
    "On MSR-VTT the paper has R@1 45.7 without any part, 49.2 with entities, 49.4 with activities, 51.5 with both, "
    "52.1 with the captioning head too, 47.0 with disentanglement alone and 53.5 with all. Its text says that entities "
    "and activities alone gain 1.4 and 1.7 points, which is not what these figures say."
)
SWITCHES = (
    "A part that is off is not built: its terms of the loss are not there and its layers cost nothing. All that is off "
    "is weighted token interaction."
)

FEWER = "A clip has no more elements than the dictionary has phrases of a kind, so larger numbers are left out."


def _trained(
    title: str, about: str, function: Callable[[LearningInputs, TrainingSettings, Progress], Findings]
) -> Study[LearningInputs, TrainingSettings]:
    """A study that trains, with selection where the recipe has some."""
    return Study(title, about, function, TRAINING, TrainingSettings, recipe=RECIPE)


def _table(
    title: str, about: str, variants: Callable[[LearningInputs, TrainingSettings], Variants], **changes: Any
) -> Study[LearningInputs, TrainingSettings]:
    """A table of trainings; `changes` are fields of `TrainingComparison`."""
    comparison = TrainingComparison(variants, (*T2V, *V2T), BY_RECALL, **changes)
    return _trained(title, about, partial(compared_trainings, comparison))


BIMA: dict[str, Study[Any, Any]] = {
    "bima/t3": Study(
        "Does what was learned from one corpus hold in others?",
        "Table 3: learned from one corpus, searched for in others (--other)",
        on_other_corpora,
        TRANSFER,
        TrainingSettings,
        recipe=RECIPE,
    ),
    "bima/t4": _table(
        "What does each part of BiMa do?",
        "Table 4: scene entities and activities, the captioning head, and content apart from bias",
        parts,
        lead=WHOLE,
        notes=(SWITCHES, PAPER),
    ),
    "bima/t5": _trained(
        "Is anything found by the bias of a caption?", "Table 5: recall by content and by bias", by_parts
    ),
    "bima/f3": _table(
        "How do the weights of the losses matter?",
        "Figure 3: the captioning head, the text decoder and the divergence, each over five weights",
        weights,
        sweeps={name: {value: row_of(name, value) for value in values} for name, values in LAMBDAS.items()},
        drawn=(T2V[0], V2T[0]),
    ),
    "bima/f4": _trained(
        "What does bias do that is added to the content?", "Figure 4: recall over the share of the bias", with_bias
    ),
    "bima/f5": _trained(
        "Are content and bias apart?",
        "Figure 5: 1,000 captions by t-SNE, and what either knows of the other",
        projected_parts,
    ),
    "bima/g": _table(
        "How should entities be weighed beside activities?",
        "Supplement: the coefficient g of equation 4, a fixed one, or none",
        balances,
        lead="g none",
    ),
    "bima/kappa": _table(
        "How many scene elements does a clip need?",
        "Supplement: 1 to 40 entities and activities a clip",
        element_counts,
        notes=(FEWER,),
        sweeps={"kappa": {kappa: row_of("kappa", kappa) for kappa in KAPPAS}},
        drawn=(T2V[0], V2T[0]),
    ),
    "bima/readings": _table(
        "Do our readings of the formulas matter?",
        "Not in the paper: attention without residual, divergence of z, losses as sums, as they are printed",
        readings_of_the_paper,
        lead="attention without residual",
    ),
    "bima/maps": Study(
        "What do models look at in a clip?",
        "Figures 1 and 6: heat on frames for a caption, and the scene elements that frames attend to",
        maps,
        PICTURES,
        MapSettings,
    ),
}
