"""`evenreel train`: a recipe in, a run folder with a checkpoint, figures and a page out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import JsonOption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenreel.training.milestones import Watch

RUNS = Path("runs")


def train(
    recipe: Annotated[str, typer.Argument(help="A YAML file, or a recipe that comes along, such as msrvtt-9k/x_pool.")],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="PLACE=VALUE instead of the recipe's: loop.batch_size=64; may be given again."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. \\[default: the recipe's, or runs/NAME]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in that folder.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a matcher, and its towers where the recipe says so. Exit status 3 if clips had to be set aside."""
    from evenreel.cli.show_training import show_training
    from evenreel.cli.training_files import write_results
    from evenreel.cli.waiting import share_bar
    from evenreel.encoders.towers import usable_device
    from evenreel.studies.selection import SelectionMeasure, higher_is_better
    from evenreel.training.material import load_material
    from evenreel.training.members import train_recipe_held
    from evenreel.training.recipe_files import find_recipe, load_recipe
    from evenreel.training.run import Outside
    from evenreel.training.run_folder import CLIPS_READ, held, writing

    chosen = load_recipe(find_recipe(recipe), changes or ())
    usable_device(chosen.loop.device, "float32")
    better = higher_is_better(chosen)
    folder = out or (Path(chosen.out) if chosen.out else RUNS / chosen.name)
    with held(folder, chosen, resume=resume):
        with share_bar("reading the clips") as progress:
            loaded = load_material(chosen, progress, folder / CLIPS_READ)
        measure = None if loaded.validation is None else SelectionMeasure(chosen.selection, loaded.validation)
        with _step_bar(shown=not as_json) as watch:
            outside = Outside(measure, better, watch)
            trained = train_recipe_held(chosen, loaded.material, folder, outside)
        if trained.first:  # Lightning runs this command once for each device
            with writing(folder):
                write_results(folder, chosen, loaded, trained)
            show_training(folder, loaded, trained, as_json)
    if loaded.set_aside and trained.first:  # another status than 0 of the others would count as a crash
        raise typer.Exit(EXIT_SET_ASIDE)


@contextlib.contextmanager
def _step_bar(*, shown: bool) -> Iterator[Watch]:
    """A bar of the steps with the latest loss and figures, shown where someone is looking, after a while."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from evenreel.cli.waiting import PATIENCE_S

    console = Console(stderr=True)
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with contextlib.ExitStack() as stack:
        bar = Progress(
            *columns,
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
        )
        task = bar.add_task("", total=None)
        started = time.monotonic()

        def watch(step: int, steps: int, figures: Mapping[str, float]) -> None:
            if not bar.live.is_started and time.monotonic() - started > PATIENCE_S:
                stack.enter_context(bar)
            bar.update(task, completed=step, total=steps, description=_in_short(figures))

        yield watch


def _in_short(figures: Mapping[str, float]) -> str:
    loss = sum(value for name, value in figures.items() if name.startswith("loss/"))
    recalls = [f"{name.removeprefix('validation/')} {figures[name]:.1f}" for name in figures if name.endswith("R@1")]
    return ", ".join([f"loss {loss:.3f}", *recalls]) if figures else ""
