"""`evenreel train`: a recipe in, a run folder with a checkpoint, figures and a page out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import JsonOption, RecipeArgument
from evenreel.cli.progress import share_bar, step_bar

if TYPE_CHECKING:
    from evenreel.cli.train.files import FinishedRun
    from evenreel.training.loop.milestones import Watch
    from evenreel.training.recipe import Recipe

RUNS = Path("runs")


def train(
    recipe: RecipeArgument,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="PLACE=VALUE instead of the recipe's: loop.batch_size=64; may be given again."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. \\[default: the recipe's, or runs/NAME]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in that folder.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a matcher, and its towers where the recipe says so. Exit status 3 if clips had to be skipped."""
    from evenreel.training.recipe import find_recipe, load_recipe

    chosen = load_recipe(find_recipe(recipe), changes or ())  # a wrong one is told before torch is imported
    from evenreel.cli.train.show import show_tower_members, show_training
    from evenreel.encoders.towers import usable_device
    from evenreel.training.loop.run_folder import CLIPS_READ, check_begun, held
    from evenreel.training.loop.validation import higher_is_better

    usable_device(chosen.loop.device, "float32")
    higher_is_better(chosen)  # refuses a metric that cannot select
    folder = out or (Path(chosen.out) if chosen.out else RUNS / chosen.name)
    if resume:
        check_begun(folder)
    with held(folder, chosen, resume=resume), step_bar(shown=not as_json) as watch:
        if chosen.has_tower_members:
            done = _tower_members(chosen, folder, watch)
            show_tower_members(folder, chosen, done, as_json)
        else:
            done = [_trained(chosen, folder, folder / CLIPS_READ, watch)]
            if done[0].trained.first:
                show_training(done[0], as_json)
    if any(run.loaded.set_aside and run.trained.first for run in done):  # another status than 0 of the others would
        raise typer.Exit(EXIT_SET_ASIDE)  # count as a crash


def _trained(recipe: Recipe, folder: Path, clips_read: Path, watch: Watch) -> FinishedRun:
    """Train by a recipe in a folder that is held, and write down what came of it."""
    from evenreel.cli.train.files import FinishedRun, write_results
    from evenreel.training.data.material import load_material
    from evenreel.training.ensemble.members import train_recipe_held
    from evenreel.training.loop.run import RunHooks
    from evenreel.training.loop.run_folder import writing
    from evenreel.training.loop.validation import SelectionMeasure, higher_is_better

    with share_bar("reading the clips") as progress:
        loaded = load_material(recipe, progress, clips_read)
    measure = None if loaded.validation is None else SelectionMeasure(recipe.selection, loaded.validation)
    outside = RunHooks(measure, higher_is_better(recipe), watch)
    trained = train_recipe_held(recipe, loaded.material, folder, outside)
    if not trained.first:  # Lightning runs this command once for each device
        return FinishedRun(folder, loaded, trained)
    with writing(folder):
        return FinishedRun(folder, loaded, trained, write_results(folder, recipe, loaded, trained))


def _tower_members(recipe: Recipe, folder: Path, watch: Watch) -> list[FinishedRun]:
    """Train each member in a folder of its own; a run that is over is only read. Gives the members alone."""
    from evenreel.cli.train.files import CHECKPOINT
    from evenreel.training.ensemble.runs import ALL
    from evenreel.training.ensemble.towers import begun_with, tower_member_recipes
    from evenreel.training.loop.run_folder import CLIPS_READ, MEMBERS, held

    done = {}
    for name, one in tower_member_recipes(recipe).items():
        own = begun_with(one, folder / MEMBERS / ALL / CHECKPOINT) if ALL in done else one
        place = folder / MEMBERS / name
        with held(place, own, resume=True):
            done[name] = _trained(own, place, folder / CLIPS_READ, watch)
    return [run for name, run in done.items() if name != ALL]
