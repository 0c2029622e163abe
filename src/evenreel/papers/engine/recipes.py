"""The recipes that studies train by."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from evenreel.errors import UsageError
from evenreel.training.recipe.files import find_recipe, load_recipe
from evenreel.training.recipe.recipe import Recipe


def study_recipe(
    name: str | Path | None = None, changes: Sequence[str] = (), default: str = "ghost/adapter.yaml"
) -> Recipe:
    """The recipe that studies train by.

    Args:
        name: a recipe on features, a file of the user's own or one that comes along; None for the default.
        changes: settings in place of its own, as `evenreel.training.recipe.files.load_recipe` takes them.
        default: a file of `evenreel.papers`.

    Raises:
        RecipeError: it cannot be read or followed.
        UsageError: it trains towers.
    """
    path = Path(str(files("evenreel.papers"))) / default if name is None else find_recipe(name)
    recipe = load_recipe(path, changes)
    if recipe.backbone is not None:
        raise UsageError(
            f"The recipe {recipe.name!r} trains towers, and studies train on features computed once; leave 'backbone' "
            "out, and train towers with `evenreel train`."
        )
    return recipe
