"""Ensemble members whose towers are trained too: separate runs, each with its own checkpoint and encoder.

On features computed once, members become one matcher (`evenreel.training.ensemble.members`). Towers trained on each
stratum encode the gallery differently, so only the members' scores can be combined, after training (equation 5 of the
paper on frame-length bias). Each member is then a plain run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evenreel.checkpoint.records import ENCODER
from evenreel.debias.fusion import prior_weights, uniform_weights
from evenreel.training.ensemble.runs import ALL
from evenreel.training.loop.run import TrainedModel
from evenreel.training.recipe import Recipe


def tower_member_recipes(recipe: Recipe) -> dict[str, Recipe]:
    """Return the recipes of the runs of members with towers of their own, by the name of each run's folder.

    Where members begin with a training on all clips (`members.begin: full`), that is the first, `all`; the others are
    to begin with its checkpoint, see `begun_with`.
    """
    members, plain = recipe.members, replace(recipe, members=None, out=None)
    if members is None:
        return {}
    if members.by == "seed":
        seeds = range(recipe.loop.seed, recipe.loop.seed + members.count)
        seeded = (replace(plain, loop=replace(plain.loop, seed=seed)) for seed in seeds)
        return {str(number): one for number, one in enumerate(seeded, start=1)}
    alone = {
        str(number): replace(plain, members=replace(members, only=number, begin="fresh"))
        for number in range(1, members.count + 1)
    }
    return {ALL: plain, **alone} if members.begin == "full" else alone


def begun_with(recipe: Recipe, checkpoint: Path) -> Recipe:
    """Return a copy of a recipe whose towers and matcher begin with the weights of a checkpoint.

    Args:
        recipe: recipe with a backbone.
        checkpoint: folder of the checkpoint; frozen towers are not in it, and stay those of the recipe.
    """
    towers = checkpoint / ENCODER
    backbone = recipe.backbone
    if backbone is not None and towers.exists():
        backbone = replace(backbone, model=str(towers))
    return replace(recipe, start=str(checkpoint), backbone=backbone)


def score_weights(recipe: Recipe, trained: Sequence[TrainedModel]) -> tuple[float, ...]:
    """Compute the weight of each member's scores: the share of its stratum's clips, or the same for all (equation 5).

    Args:
        recipe: recipe with members.
        trained: the members, without a training on all clips that they began with.
    """
    members = recipe.members
    if members is None or members.by == "seed" or members.fusion == "uniform":
        return uniform_weights(len(trained))
    return prior_weights([stratum.clips for one in trained for stratum in one.strata])
