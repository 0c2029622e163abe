"""The rows of BiMa's tables and sweeps (arXiv 2506.03589, section 4): one switch or number of a training changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evenreel.errors import UsageError
from evenreel.studies.kinds import Kind, Kinds, beside
from evenreel.studies.material import StudyMaterial, StudySettings
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
CHOSEN = {"lambda_cap": 0.3, "lambda_rec": 0.5, "lambda_kl": 1e-4}
"""What the paper takes."""
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Figure 4: shares of the bias that are added to the content."""
KAPPAS = (1, 5, 10, 20, 40)
FIXED_G = 0.5


def parts(material: StudyMaterial, settings: StudySettings) -> Kinds:
    """Table 4: each part alone, some, and all of them."""
    recipe = bima_of(settings)
    return beside(changed(recipe, OFF), {name: changed(recipe, switches) for name, switches in PARTS.items()})


def weights(material: StudyMaterial, settings: StudySettings) -> Kinds:
    """Figure 3: the weight of each term of the loss, the others as the paper has them."""
    recipe = changed(bima_of(settings), CHOSEN)
    rows = {
        f"{name} {value:g}": {name: value}
        for name, values in LAMBDAS.items()
        for value in values
        if value != CHOSEN[name]
    }
    return _beside_bima(recipe, rows)


def balances(material: StudyMaterial, settings: StudySettings) -> Kinds:
    """Supplement: entities weighed by equation 4, by a fixed number, or as activities are."""
    rows: dict[str, dict[str, Any]] = {f"g {FIXED_G:g}": {"g": FIXED_G}, "g none": {"g": "none"}}
    return _beside_bima(changed(bima_of(settings), {"g": "adaptive"}), rows)


def element_counts(material: StudyMaterial, settings: StudySettings) -> Kinds:
    """Supplement: how many entities and activities each clip has."""
    rows = {f"kappa {kappa}": {"kappa": kappa} for kappa in KAPPAS if kappa != 20}
    return _beside_bima(changed(bima_of(settings), {"kappa": 20}), rows)


def readings_of_the_paper(material: StudyMaterial, settings: StudySettings) -> Kinds:
    """Not in the paper: its formulas as they are printed, where we read them otherwise."""
    rows: dict[str, dict[str, Any]] = {
        "attention without residual": {"residual": False},
        "divergence of z": {"kl_on": "z"},
        "losses as sums": {"reduction": "sum"},
    }
    return _beside_bima(changed(bima_of(settings), {"residual": True, "kl_on": "bias", "reduction": "mean"}), rows)


def bima_of(settings: StudySettings) -> Recipe:
    """The recipe, whose matcher is bima.

    Raises:
        UsageError: it is another, or knows no dictionary.
    """
    recipe = settings.recipe
    if recipe.matcher.name != BIMA:
        raise UsageError(f"This study is about the matcher bima, and the recipe trains {recipe.matcher.name}.")
    own = recipe.matcher.settings
    if not (own.get("elements") or own.get("entities") or own.get("activities")):
        raise UsageError(
            "bima looks at scene elements, and the recipe names no dictionary of them; make one with "
            "`evenreel elements` and give --set matcher.settings.elements=DIR."
        )
    return replace(recipe, trim=None, members=None)


def changed(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with other settings of its matcher."""
    return replace(recipe, matcher=MatcherChoice(recipe.matcher.name, {**recipe.matcher.settings, **settings}))


def only_bima(settings: StudySettings) -> Kinds:
    """One row: all of it, the last of table 4."""
    return {BIMA: Kind(changed(bima_of(settings), PARTS[BIMA]))}


def _beside_bima(recipe: Recipe, rows: Mapping[str, Mapping[str, Any]]) -> Kinds:
    """Rows that are each compared with all of it."""
    others = {name: Kind(changed(recipe, settings), BIMA) for name, settings in rows.items()}
    return {BIMA: Kind(recipe)} | others
