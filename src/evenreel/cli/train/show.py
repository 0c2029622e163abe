"""What `evenreel train` says when it is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console

from evenreel.checkpoint.architecture import encodings
from evenreel.cli.show_library import console, list_aside, print_json, safe
from evenreel.cli.train.files import CHECKPOINT, SET_ASIDE, FinishedRun, clips_note, validation_figures
from evenreel.training.ensemble.towers import score_weights
from evenreel.training.loop.run import TrainedModel
from evenreel.training.recipe import Recipe

MANY = 10


def show_training(run: FinishedRun, as_json: bool) -> None:
    """Print how a run ended, for a person or as JSON."""
    if as_json:
        print_json(_result(run))
        return
    out = console()
    for line in _lines(run):
        out.print(line)
    _show_notices(out, run)


def show_tower_members(folder: Path, recipe: Recipe, members: Sequence[FinishedRun], as_json: bool) -> None:
    """Print how the runs of members with an encoder each ended, and the commands that search with all of them."""
    weights = score_weights(recipe, [run.trained for run in members])
    if as_json:
        told = [{**_result(run), "weight": weight} for run, weight in zip(members, weights, strict=True)]
        print_json({"folder": folder, "members": told})
        return
    out = console()
    for run in members:
        for line in _lines(run):
            out.print(line)
    out.print(f"{len(members)} members, each with features of its own. To search with all of them:")
    for number, run in enumerate(members, start=1):
        checkpoint, features = quote(str(run.folder / CHECKPOINT)), f"FEATURES-{number}"
        command = "" if run.about is None else run.about.features_command.replace("CHECKPOINT", checkpoint)
        out.print(f"  {safe(command)} --out {features}")
        out.print(
            f"  {safe(f'evenreel score {checkpoint} CORPUS --features {features} --split test')} --out {number}.npz"
        )
    files = " ".join(f"{number}.npz" for number in range(1, len(members) + 1))
    given = " ".join(f"--weight {weight!r}" for weight in weights)
    out.print(f"  evenreel fuse {files} --by sum {given} --out fused.npz")
    _show_notices(out, members[0])


def _show_notices(out: Console, run: FinishedRun) -> None:
    """What the model knows of other splits, and what was skipped."""
    for use in run.loaded.uses:
        out.print(f"[yellow]It was trained with {safe(use)}[/]: its scores say so, wherever they are shown.")
    list_aside(run.loaded.set_aside, more=f", all in {safe(run.folder / SET_ASIDE)}", most=MANY)


def _lines(run: FinishedRun) -> Iterator[str]:
    folder, loaded, trained = run.folder, run.loaded, run.trained
    yield f"Trained in {safe(folder)}: {_weights(trained)}."
    for note in clips_note(loaded, trained):
        yield f"  {safe(note)}"
    for number, member in enumerate(trained.members, start=1):
        measured = validation_figures(member)
        yield f"  member {number}: {_weights(member)}" + (f": {_figures(measured)}" if measured else "")
    if measured := validation_figures(trained):
        yield ("  together: " if trained.members else "  ") + _figures(measured)
    yield f"  checkpoint: {safe(folder / CHECKPOINT)}"
    if cost := _cost(encodings(trained.spec)):
        yield f"  {cost}"


def _cost(times: int) -> str:
    """What searching with it takes, where that is more than with a single matcher."""
    if times == 1:
        return ""
    return (
        f"searching with it encodes each video {times} times and each caption {times} times, and a gallery takes "
        f"{times} times the memory"
    )


def _weights(trained: TrainedModel) -> str:
    """Which weights they are."""
    if trained.members:
        weights = " + ".join(f"{weight:.3g}" for weight in trained.spec.settings["weights"])
        return f"{len(trained.members)} members became one matcher, with the weights {weights}"
    early = ", stopped early" if trained.progress.stopped else ""
    chosen = "best on validation" if trained.progress.best_step is not None else "last"
    return f"the weights are those of step {trained.step:,}, the {chosen}{early}"


def _figures(measured: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in measured.items())


def _result(run: FinishedRun) -> dict[str, Any]:
    """The same as plain data."""
    folder, loaded, trained = run.folder, run.loaded, run.trained
    return {
        "folder": folder,
        "checkpoint": folder / CHECKPOINT,
        "step": trained.step,
        "stopped_early": trained.progress.stopped,
        "validation": validation_figures(trained),
        "clips": list(clips_note(loaded, trained)),
        "strata": [vars(one) for one in trained.strata],
        "members": [{"step": one.step, "validation": validation_figures(one)} for one in trained.members],
        "weights": list(trained.spec.settings["weights"]) if trained.spec.name == "ensemble" else [],
        "encodings": encodings(trained.spec),
        "uses": loaded.uses,
        "set_aside": loaded.set_aside,
    }
