"""The studies of BiMa (arXiv 2506.03589), and the rows of its tables (section 4): one switch or number changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.errors import UsageError
from evenreel.papers.study import (
    BASELINE,
    PICTURES,
    TRAINING,
    TRANSFER,
    Changes,
    Needs,
    Study,
    StudySettings,
    Table,
    Variants,
    changed,
    from_the_start,
    named,
    trained_study,
)

if TYPE_CHECKING:
    from evenreel.matchers.bima import BimaSettings
    from evenreel.papers.workspace import Workspace
    from evenreel.training.recipe import Recipe

WHOLE, CLIP4CLIP = "bima", "mean_pool"
"""The matcher, and CLIP4Clip without parameters (arXiv 2104.08860, section 3.3), beside which table 3 puts it."""
RECALLS = ("R@1", "R@5", "R@10", "Rsum")
T2V, V2T = named(RECALLS, "T2V"), named(RECALLS, "V2T")
MAIN = T2V[0]
OFF: Changes = {"use_entities": False, "use_activities": False, "captioning": False, "disentangle": False}
"""Row 1 of table 4: weighted token interaction and nothing else."""
PARTS: dict[str, Changes] = {
    "entities": {**OFF, "use_entities": True},
    "activities": {**OFF, "use_activities": True},
    "elements": {**OFF, "use_entities": True, "use_activities": True},
    "elements + captioning": {**OFF, "use_entities": True, "use_activities": True, "captioning": True},
    "disentanglement": {**OFF, "disentangle": True},
    WHOLE: dict.fromkeys(OFF, True),
}
"""Rows 2 to 7."""
LAMBDAS: dict[str, tuple[float, ...]] = {
    "lambda_cap": (0.1, 0.2, 0.3, 0.4, 0.5),
    "lambda_rec": (0.3, 0.4, 0.5, 0.6, 0.7),
    "lambda_kl": (1e-4, 2e-4, 3e-4, 4e-4, 5e-4),
}
"""Figure 3: the paper's ranges, in steps of our own."""
CHOSEN: dict[str, float] = {"lambda_cap": 0.3, "lambda_rec": 0.5, "lambda_kl": 1e-4, "kappa": 20}
"""What the paper takes."""
KAPPAS = (1, 5, 10, 20, 40)
_SPELT_OUT = (*OFF, *CHOSEN, "g", "residual", "kl_on", "reduction")
"""What studies change: each recipe says all of it, so that rows that train alike share their runs."""


def row_of(name: str, value: float) -> str:
    """Name the row in which one setting has another value; `bima` where it is the paper's.

    >>> row_of("lambda_kl", 2e-4), row_of("kappa", 20)
    ('lambda_kl 0.0002', 'bima')
    """
    return WHOLE if value == CHOSEN[name] else f"{name} {value:g}"


def bima_of(material: Workspace, settings: StudySettings) -> Recipe:
    """Return the study's recipe of bima, with every setting that studies change written out.

    A dictionary that some row could not look at is refused before anything is trained.
    """
    from evenreel.matchers.bima import BimaSettings

    recipe = settings.recipe
    if recipe.matcher.name != WHOLE:
        raise UsageError(f"This study is about the matcher bima, and the recipe trains {recipe.matcher.name}.")
    own = BimaSettings(**recipe.matcher.settings)
    if lacking := [kind for kind, phrases in _phrases(own, material.weights_hash).items() if not phrases]:
        where = "of the recipe" if own.elements is None else f"in {own.elements}"
        raise UsageError(
            f"Studies of bima need entities and activities, and the dictionary {where} has no {lacking[0]}; make one "
            "with both, for example from lists of your own (`evenreel elements --entities FILE --activities FILE`)."
        )
    return changed(replace(recipe, trim=None, members=None), {name: getattr(own, name) for name in _SPELT_OUT})


def _phrases(settings: BimaSettings, weights_hash: str | None) -> dict[str, Sequence[str]]:
    """Those of the dictionary, by their kind."""
    from evenreel.features.scene_elements import load_dictionary, load_embedded

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


def fresh(material: Workspace, settings: StudySettings) -> Recipe:
    """Return the recipe of a study that trains matchers built in several ways."""
    return from_the_start(bima_of(material, settings), material)


def compared_with_others(material: Workspace, settings: StudySettings) -> Variants:
    """Return the rows of table 3: BiMa with none of its parts and with all, and CLIP4Clip."""
    kinds = Table((), fresh, {BASELINE: OFF, CLIP4CLIP: {}, WHOLE: PARTS[WHOLE]}).variants(material, settings)
    recipe = kinds[CLIP4CLIP].recipe
    bare = replace(recipe, matcher=replace(recipe.matcher, name=CLIP4CLIP, settings={}))
    return kinds | {CLIP4CLIP: replace(kinds[CLIP4CLIP], recipe=bare)}


def element_counts(material: Workspace, settings: StudySettings) -> Variants:
    """Return rows with 1 to 40 entities and activities a clip, as far as the dictionary has so many (supplement)."""
    from evenreel.matchers.bima import BimaSettings

    own = BimaSettings(**bima_of(material, settings).matcher.settings)
    most = min(map(len, _phrases(own, material.weights_hash).values()))
    rows: dict[str, Changes] = {WHOLE: {"kappa": CHOSEN["kappa"]}}
    rows |= {row_of("kappa", kappa): {"kappa": kappa} for kappa in KAPPAS if kappa <= most and kappa != 20}
    return Table((), bima_of, rows).variants(material, settings)


def only_bima(material: Workspace, settings: StudySettings) -> Variants:
    """Return one row: BiMa with all of its parts, the last of table 4."""
    return Table((), bima_of, {WHOLE: PARTS[WHOLE]}).variants(material, settings)


def _trained(name: str, make: str | Table, needs: Needs = TRAINING) -> Study:
    return trained_study(f"bima/{name}", make, needs, "bima/bima.yaml")


_CHOSEN_LAMBDAS = {name: CHOSEN[name] for name in LAMBDAS}
WEIGHTS: Mapping[str, Changes] = {WHOLE: _CHOSEN_LAMBDAS} | {
    row_of(name, value): {**_CHOSEN_LAMBDAS, name: value}
    for name, values in LAMBDAS.items()
    for value in values
    if value != CHOSEN[name]
}
BALANCES: dict[str, Changes] = {WHOLE: {"g": "adaptive"}, "g 0.5": {"g": 0.5}, "g none": {"g": "none"}}
"""Entities weighed by equation 4, by a fixed number, or as activities are (supplement)."""
_OURS: Changes = {"residual": True, "kl_on": "bias", "reduction": "mean"}
READINGS: dict[str, Changes] = {
    WHOLE: _OURS,
    "attention without residual": {**_OURS, "residual": False},
    "divergence of z": {**_OURS, "kl_on": "z"},
    "losses as sums": {**_OURS, "reduction": "sum"},
}
"""Formulas as they are printed, where we read them otherwise; not in the paper."""
BIMA: tuple[Study, ...] = (
    _trained("t3", "bima.figures:on_other_corpora", TRANSFER),
    _trained(
        "t4",
        Table(
            (*T2V, *V2T), fresh, {BASELINE: OFF, **PARTS}, lead=WHOLE,
            notes=("Parts that are off", "Table 4 in the paper"),
        ),
    ),
    _trained("t5", "bima.figures:by_parts"),
    _trained(
        "f3",
        Table(
            (*T2V, *V2T), bima_of, WEIGHTS, drawn=(MAIN, V2T[0]),
            sweeps={name: {value: row_of(name, value) for value in values} for name, values in LAMBDAS.items()},
        ),
    ),
    _trained("f4", "bima.figures:with_bias"),
    _trained("f5", "bima.figures:projected_parts"),
    _trained("g", Table((*T2V, *V2T), bima_of, BALANCES, lead="g none")),
    _trained(
        "kappa",
        Table(
            (*T2V, *V2T), rows=element_counts, notes=("Fewer elements",), drawn=(MAIN, V2T[0]),
            sweeps={"kappa": {kappa: row_of("kappa", kappa) for kappa in KAPPAS}},
        ),
    ),
    _trained("readings", Table((*T2V, *V2T), bima_of, READINGS, lead="attention without residual")),
    Study("bima/maps", "bima.figures:maps", PICTURES, ("queries", "clips")),
)  # fmt: skip
