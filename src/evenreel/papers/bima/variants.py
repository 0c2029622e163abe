"""The rows of BiMa's tables and sweeps (arXiv 2506.03589, section 4): one switch or number of a training changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenreel.errors import UsageError
from evenreel.features.scene_elements import load_dictionary, load_embedded
from evenreel.matchers.bima.settings import BimaSettings
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.variants import Variant, Variants, beside, changed, from_the_start
from evenreel.training.recipe import MatcherChoice, Recipe

BIMA = "bima"
OFF: dict[str, Any] = {"use_entities": False, "use_activities": False, "captioning": False, "disentangle": False}
"""Row 1 of table 4: weighted token interaction and nothing else."""
ENTITIES, ACTIVITIES = {"use_entities": True}, {"use_activities": True}
PARTS: dict[str, dict[str, Any]] = {
    "entities": OFF | ENTITIES,
    "activities": OFF | ACTIVITIES,
    "elements": OFF | ENTITIES | ACTIVITIES,
    "elements + captioning": OFF | ENTITIES | ACTIVITIES | {"captioning": True},
    "disentanglement": OFF | {"disentangle": True},
    BIMA: dict.fromkeys(OFF, True),
}
"""Rows 2 to 7."""
LAMBDAS: dict[str, tuple[float, ...]] = {
    "lambda_cap": (0.1, 0.2, 0.3, 0.4, 0.5),
    "lambda_rec": (0.3, 0.4, 0.5, 0.6, 0.7),
    "lambda_kl": (1e-4, 2e-4, 3e-4, 4e-4, 5e-4),
}
"""Figure 3: the paper's ranges, in steps of our own."""
CHOSEN = {"lambda_cap": 0.3, "lambda_rec": 0.5, "lambda_kl": 1e-4, "kappa": 20}
"""What the paper takes."""
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Figure 4: shares of the bias that are added to the content."""
KAPPAS = (1, 5, 10, 20, 40)
FIXED_G = 0.5
CLIP4CLIP = "mean_pool"
"""CLIP4Clip without parameters (arXiv 2104.08860, section 3.3), beside which table 3 puts BiMa."""
_SPELT_OUT = (*OFF, *CHOSEN, "g", "residual", "kl_on", "reduction")
"""What studies change: each recipe says all of it, so that rows that train alike share their runs."""


def parts(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 4 of BiMa: BiMa with each part alone, with some, and with all of them."""
    recipe = from_the_start(bima_of(material, settings), material)
    return beside(changed(recipe, OFF), {name: changed(recipe, switches) for name, switches in PARTS.items()})


def compared_with_others(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of table 3 of BiMa: BiMa with all parts and with none, and CLIP4Clip."""
    recipe = from_the_start(bima_of(material, settings), material)
    clip4clip = replace(recipe, matcher=MatcherChoice(CLIP4CLIP))
    return beside(changed(recipe, OFF), {CLIP4CLIP: clip4clip, BIMA: changed(recipe, PARTS[BIMA])})


def row_of(name: str, value: float) -> str:
    """Name the row in which one setting has another value; `BIMA` where it is the paper's.

    >>> row_of("lambda_kl", 2e-4), row_of("kappa", 20)
    ('lambda_kl 0.0002', 'bima')
    """
    return BIMA if value == CHOSEN[name] else f"{name} {value:g}"


def weights(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return the rows of figure 3 of BiMa: each weight of the loss changed, the others as in the paper."""
    chosen = {name: CHOSEN[name] for name in LAMBDAS}
    rows = {row_of(name, value): {name: value} for name, values in LAMBDAS.items() for value in values}
    return _beside_bima(changed(bima_of(material, settings), chosen), rows)


def balances(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return rows with entities weighed by equation 4, by a fixed number, or as activities are (supplement)."""
    rows: dict[str, dict[str, Any]] = {f"g {FIXED_G:g}": {"g": FIXED_G}, "g none": {"g": "none"}}
    return _beside_bima(changed(bima_of(material, settings), {"g": "adaptive"}), rows)


def element_counts(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return rows with 1 to 40 entities and activities a clip, as far as the dictionary has so many (supplement)."""
    recipe = changed(bima_of(material, settings), {"kappa": CHOSEN["kappa"]})
    most = min(map(len, _phrases(BimaSettings(**recipe.matcher.settings), material.weights_hash).values()))
    return _beside_bima(recipe, {row_of("kappa", kappa): {"kappa": kappa} for kappa in KAPPAS if kappa <= most})


def readings_of_the_paper(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return rows with formulas as they are printed, where we read them otherwise; not in the paper."""
    rows: dict[str, dict[str, Any]] = {
        "attention without residual": {"residual": False},
        "divergence of z": {"kl_on": "z"},
        "losses as sums": {"reduction": "sum"},
    }
    ours = {"residual": True, "kl_on": "bias", "reduction": "mean"}
    return _beside_bima(changed(bima_of(material, settings), ours), rows)


def bima_of(material: LearningInputs, settings: TrainingSettings) -> Recipe:
    """Return the study's recipe of bima, with every setting that studies change written out."""
    recipe = settings.recipe
    if recipe.matcher.name != BIMA:
        raise UsageError(f"This study is about the matcher bima, and the recipe trains {recipe.matcher.name}.")
    own = BimaSettings(**recipe.matcher.settings)
    _check_dictionary(own, material.weights_hash)
    return changed(replace(recipe, trim=None, members=None), {name: getattr(own, name) for name in _SPELT_OUT})


def _check_dictionary(settings: BimaSettings, weights_hash: str | None) -> None:
    """Refuse, before anything is trained, a dictionary that some row could not look at."""
    if lacking := [kind for kind, phrases in _phrases(settings, weights_hash).items() if not phrases]:
        where = "of the recipe" if settings.elements is None else f"in {settings.elements}"
        raise UsageError(
            f"Studies of bima need entities and activities, and the dictionary {where} has no {lacking[0]}; make one "
            "with both, for example from lists of your own (`evenreel elements --entities FILE --activities FILE`)."
        )


def _phrases(settings: BimaSettings, weights_hash: str | None) -> dict[str, Sequence[str]]:
    """Those of the dictionary, by their kind."""
    if settings.entities or settings.activities:
        return {"entities": settings.entities, "activities": settings.activities}
    if settings.elements is None:
        raise UsageError(
            "bima looks at scene elements, and the recipe names no dictionary of them; make one with "
            "`evenreel elements` and give --set matcher.settings.elements=DIR."
        )
    folder = Path(settings.elements)
    found = load_dictionary(folder) if weights_hash is None else load_embedded(folder, weights_hash).dictionary
    return {"entities": found.entities, "activities": found.activities}


def only_bima(material: LearningInputs, settings: TrainingSettings) -> Variants:
    """Return one row: BiMa with all of its parts, the last of table 4."""
    return {BIMA: Variant(changed(bima_of(material, settings), PARTS[BIMA]))}


def _beside_bima(recipe: Recipe, rows: Mapping[str, Mapping[str, Any]]) -> Variants:
    """Rows that are each compared with all of it."""
    return beside(recipe, {name: changed(recipe, settings) for name, settings in rows.items()}, BIMA)
