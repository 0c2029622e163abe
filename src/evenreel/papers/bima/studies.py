"""Tables and figures of BiMa (arXiv 2506.03589) by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from evenreel.papers.bima.maps import maps
from evenreel.papers.bima.parts import projected_parts
from evenreel.papers.bima.readings import by_parts, with_bias
from evenreel.papers.bima.tables import BALANCE, FIGURE_3, KAPPA, READINGS, TABLE_4
from evenreel.papers.bima.transfer import on_other_corpora
from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.material import StudyMaterial, StudySettings
from evenreel.papers.engine.study import Study
from evenreel.papers.engine.training_tables import Comparison, compared_trainings
from evenreel.progress import Progress

RECIPE = "bima/bima.yaml"


def _trained(title: str, about: str, function: Callable[[StudyMaterial, StudySettings, Progress], Findings]) -> Study:
    """A study that trains, with selection where the recipe has some."""
    return Study(title, about, function, "training", takes=("validation",), mirrors=False, recipe=RECIPE)


def _table(title: str, about: str, comparison: Comparison) -> Study:
    return _trained(title, about, partial(compared_trainings, comparison))


BIMA: dict[str, Study] = {
    "bima/t3": Study(
        "Does what was learned from one corpus hold in others?",
        "Table 3: learned from one corpus, searched for in others (--other)",
        on_other_corpora,
        "training",
        takes=("validation", "others"),
        mirrors=False,
        recipe=RECIPE,
    ),
    "bima/t4": _table(
        "What does each part of BiMa do?",
        "Table 4: scene entities and activities, the captioning head, and content apart from bias",
        TABLE_4,
    ),
    "bima/t5": _trained(
        "Is anything found by the bias of a caption?",
        "Table 5: recall by content and by bias",
        by_parts,
    ),
    "bima/f3": _table(
        "How do the weights of the losses matter?",
        "Figure 3: the captioning head, the text decoder and the divergence, each over five weights",
        FIGURE_3,
    ),
    "bima/f4": _trained(
        "What does bias do that is added to the content?",
        "Figure 4: recall over the share of the bias",
        with_bias,
    ),
    "bima/f5": _trained(
        "Are content and bias apart?",
        "Figure 5: 1,000 captions by t-SNE, and what either knows of the other",
        projected_parts,
    ),
    "bima/g": _table(
        "How should entities be weighed beside activities?",
        "Supplement: the coefficient g of equation 4, a fixed one, or none",
        BALANCE,
    ),
    "bima/kappa": _table(
        "How many scene elements does a clip need?",
        "Supplement: 1 to 40 entities and activities a clip",
        KAPPA,
    ),
    "bima/readings": _table(
        "Do our readings of the formulas matter?",
        "Not in the paper: attention without residual, divergence of z, losses as sums, as they are printed",
        READINGS,
    ),
    "bima/maps": Study(
        "What do models look at in a clip?",
        "Figures 1 and 6: heat on frames for a caption, and the scene elements that frames attend to",
        maps,
        "models",
        takes=("pictures",),
        mirrors=False,
    ),
}
