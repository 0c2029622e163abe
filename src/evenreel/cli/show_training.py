"""What `evenreel train` says when it is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenreel.checkpoint.architecture import Encodings, encodings
from evenreel.cli.show import console, list_clips_aside, print_json, safe
from evenreel.cli.training_files import CHECKPOINT, SET_ASIDE, clips_note, validation_figures
from evenreel.library.report import count
from evenreel.training.material import Loaded
from evenreel.training.run import Trained
from evenreel.training.start_share import mixed_words

MANY = 10


def show_training(folder: Path, loaded: Loaded, trained: Trained, as_json: bool) -> None:
    """Print how a run ended.

    Args:
        folder: of the run.
        loaded: what it learned from.
        trained: what it made.
        as_json: for a program and not for a person.
    """
    if as_json:
        print_json(_result(folder, loaded, trained))
        return
    out = console()
    for line in _lines(folder, loaded, trained):
        out.print(line)
    for use in loaded.uses:
        out.print(f"[yellow]It was trained with {safe(use)}[/]: its scores say so, wherever they are shown.")
    if loaded.set_aside:
        out.print(f"[yellow]Set aside: {count(len(loaded.set_aside), 'clip')}[/], all in {safe(folder / SET_ASIDE)}")
    list_clips_aside(out, loaded.set_aside[:MANY])


def _lines(folder: Path, loaded: Loaded, trained: Trained) -> Iterator[str]:
    yield f"Trained in {safe(folder)}: {_weights(trained)}."
    for note in clips_note(loaded, trained):
        yield f"  {safe(note)}"
    for number, member in enumerate(trained.members, start=1):
        yield f"  member {number}: {_weights(member)}" + _in_short(member)
    if measured := validation_figures(trained):
        yield ("  together: " if trained.members else "  ") + _figures(measured)
    yield f"  checkpoint: {safe(folder / CHECKPOINT)}"
    if cost := _cost(encodings(trained.spec)):
        yield f"  {cost}"


def _cost(made: Encodings) -> str:
    """What searching with it takes, where that is more than with a single matcher."""
    if made.videos > 1:
        return (
            f"searching with it encodes each video {made.videos} times and each caption {made.captions} times, and a "
            f"gallery takes {made.videos} times the memory"
        )
    return f"searching with it encodes each caption {made.captions} times, each video once" if made.captions > 1 else ""


def _weights(trained: Trained) -> str:
    """Which weights they are."""
    if trained.members:
        weights = " + ".join(f"{weight:.3g}" for weight in trained.spec.settings["weights"])
        return f"{len(trained.members)} members became one matcher, with the weights {weights}"
    early = ", stopped early" if trained.progress.stopped else ""
    chosen = "best on validation" if trained.progress.best_step is not None else "last"
    return f"the weights are those of step {trained.step:,}, the {chosen}{early}{mixed_words(trained.start_share)}"


def _in_short(member: Trained) -> str:
    figures = validation_figures(member)
    return f": {_figures(figures)}" if figures else ""


def _figures(measured: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in measured.items())


def _result(folder: Path, loaded: Loaded, trained: Trained) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "folder": str(folder),
        "checkpoint": str(folder / CHECKPOINT),
        "step": trained.step,
        "stopped_early": trained.progress.stopped,
        "validation": validation_figures(trained),
        "clips": list(clips_note(loaded, trained)),
        "strata": [vars(one) for one in trained.strata],
        "members": [{"step": one.step, "validation": validation_figures(one)} for one in trained.members],
        "weights": list(trained.spec.settings["weights"]) if trained.spec.name in ("ensemble", "per_stratum") else [],
        "encodings": encodings(trained.spec)._asdict(),
        "uses": list(loaded.uses),
        "set_aside": [vars(one) for one in loaded.set_aside],
    }
