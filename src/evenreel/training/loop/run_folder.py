"""The folder of a run: claimed before anything is read, locked by one process, with a record of the run's data."""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from typing import Any

import torch

from evenreel.documents import parse_json
from evenreel.errors import CorpusError, EvenreelError, UsageError
from evenreel.features.pool import HOLDER, LOCK, writer_lock
from evenreel.files import TEMPORARY_SUFFIX, write_durably
from evenreel.training.data.verdicts import forget_passing
from evenreel.training.recipe import Recipe, RecipeError, load_recipe, recipe_text

CHECKPOINTS = Path("checkpoints")
LAST = CHECKPOINTS / "last.ckpt"
METRICS = Path("metrics.csv")
RECIPE, VERSIONS, DATA = Path("recipe.yaml"), Path("versions.txt"), Path("data.json")
CLIPS_READ = Path("clips_read.jsonl")
TENSORBOARD = Path("tensorboard")
MEMBERS = Path("members")
"""Folder of the runs of a recipe with members, each in a folder of its own."""

Facts = Mapping[str, str | int | None]
"""What identifies the data of a run, by name: what a resumed run must find as it was."""

_CLAIM = {str(name) for name in (RECIPE, VERSIONS, DATA, CLIPS_READ, CLIPS_READ.with_suffix(".lock"), LOCK, HOLDER)}
_BEGUN = _CLAIM | {str(name) for name in (CHECKPOINTS, METRICS, TENSORBOARD, MEMBERS, "wandb")}
_PACKAGES = ("evenreel", "torch", "lightning", "transformers", "numpy", "av")
_MAY_CHANGE = (
    "out",
    "records",
    "loop.workers",
    "members.at_once",
    "members.fusion",
    "members.standardise",
    "data.corpus",
    "data.features",
    "data.videos",
    "data.pretrained_features",
    "data.on_screen",
    "matcher.settings.elements",
)
"""Places of a recipe that a resumed run may have otherwise: what is learned does not depend on them.

Where the data lies may change, since `DATA` says whether it is the same data.
"""


class RunFolderError(EvenreelError):
    """Raised where the folder of a run cannot be read or written."""


@contextmanager
def held(folder: Path, recipe: Recipe, *, resume: bool) -> Iterator[None]:
    """Claim and lock the folder of a run for a `with` block; with several devices, only the first process does.

    Args:
        folder: folder of the run; it need not exist.
        recipe: recipe of the run.
        resume: whether to go on with the run that is there.

    Raises:
        UsageError: the folder holds other things, or a run without `resume`; another process holds it, or it cannot be
            written.
    """
    from lightning.fabric.utilities.rank_zero import rank_zero_only  # all of Lightning, which a reader has no use for

    if getattr(rank_zero_only, "rank", 0):
        yield
        return
    _look(folder, resume=resume)  # a folder of other things does not get a lock
    with writer_lock(folder, UsageError, "give another folder with --out"):
        claim(folder, recipe, resume=resume)
        yield


def claim(folder: Path, recipe: Recipe, *, resume: bool) -> None:
    """Write the recipe of a run into its folder, or check that a resumed run has the same one.

    Settings that change no result may differ. A run without a checkpoint begins again, and tries clips again that could
    not be read; with a checkpoint such clips stay out, or the run would go on with other data.

    Raises:
        UsageError: the folder holds other things, or a run, without `resume`.
        RecipeError: the run was begun with another recipe.
        RunFolderError: the folder cannot be written.
    """
    resumed = _look(folder, resume=resume)
    if resumed:
        _check_recipe(folder, recipe)
    with writing(folder):
        if not resumed:
            _clear(folder)
            write_durably(folder / VERSIONS, _versions().encode())
        write_durably(folder / RECIPE, recipe_text(recipe).encode())


def _clear(folder: Path) -> None:
    """Take away what a run that failed before its first checkpoint would add to the one that is begun now."""
    for path in (folder / CHECKPOINTS).glob("best-*"):
        path.unlink()
    for place in (TENSORBOARD, MEMBERS):
        if (folder / place).exists():
            shutil.rmtree(folder / place)
    if (folder / CLIPS_READ).exists():
        forget_passing(folder / CLIPS_READ)


def remember(folder: Path, facts: Facts) -> None:
    """Record the identity of a run's data, or check that a resumed run has the same data.

    Raises:
        CorpusError: it has other data; the message says what changed.
        RunFolderError: the folder cannot be written.
    """
    place = folder / DATA
    if not (folder / LAST).is_file() and not (place.is_file() and _has_checkpoint(folder)):
        with writing(folder):
            write_durably(place, (json.dumps(dict(facts), indent=2) + "\n").encode())
        return
    before = _read_facts(place)
    changed = [name for name in {**before, **facts} if before.get(name) != facts.get(name)]
    if changed:
        changes = ", ".join(
            f"{name} was {_short(before.get(name))} and is {_short(facts.get(name))}" for name in changed
        )
        raise CorpusError(
            f"The run in {folder} was begun with other data: {changes}; put it back as it was, or give another folder."
        )


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Convert an error of writing in a `with` block to a `RunFolderError` with a sentence.

    Raises:
        RunFolderError: a write in the block fails.
    """
    try:
        yield
    except OSError as error:
        raise RunFolderError(
            f"The folder {folder} of the run cannot be written ({error.strerror or error}); mend that, and go on with "
            "--resume, or give another folder."
        ) from error


def check_begun(folder: Path) -> None:
    """Check, before a run is resumed, that its folder holds one; the name may be misspelt.

    Raises:
        UsageError: the folder holds no run.
    """
    if not folder.is_file() and not (folder / RECIPE).is_file():
        raise UsageError(
            f"There is no run in {folder} to go on with; give the folder of one with --out, or begin one there without "
            "--resume."
        )


def _look(folder: Path, *, resume: bool) -> bool:
    """Whether there is a run to go on with; refuses what can neither be begun nor resumed."""
    if folder.is_file():
        raise UsageError(f"{folder} is a file; give a folder with --out.")
    with writing(folder):
        finds_checkpoint, finds_recipe = _has_checkpoint(folder), (folder / RECIPE).is_file()
        there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if finds_checkpoint and not resume:
        raise UsageError(f"{folder} holds a run already; add --resume to go on with it, or give another folder.")
    own = _BEGUN if finds_recipe else _CLAIM
    if not finds_checkpoint and any(name not in own and not name.endswith(TEMPORARY_SUFFIX) for name in there):
        raise UsageError(f"The folder {folder} holds other things than a run; give an empty one with --out.")
    return finds_checkpoint


def _has_checkpoint(folder: Path) -> bool:
    """Whether there is a run to go on with, or a part of one."""
    return (folder / LAST).is_file() or any(folder.glob(str(MEMBERS / "*" / LAST)))


def _check_recipe(folder: Path, recipe: Recipe) -> None:
    before = load_recipe(folder / RECIPE)
    changed = [
        f"{place} was {_plain(old)} and is {_plain(new)}"
        for place, old, new in _changes(asdict(before), asdict(recipe))
    ]
    if changed:
        as_it_was = f"evenreel train {quote(str(folder / RECIPE))} --out {quote(str(folder))} --resume"
        raise RecipeError(
            f"The run in {folder} was begun with another recipe: {', '.join(changed)}; give another folder, or resume "
            f"it with: {as_it_was}"
        )


def _changes(before: Any, after: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The places of settings that differ and may not, with both values."""
    if place in _MAY_CHANGE or before == after:
        return
    if not (isinstance(before, dict) and isinstance(after, dict)):
        yield place, before, after
        return
    for name in {**before, **after}:
        yield from _changes(before.get(name), after.get(name), f"{place}.{name}" if place else name)


def _plain(value: Any) -> str:
    """A value as a recipe has it; a table is too long for a sentence."""
    return "a table" if isinstance(value, dict) else json.dumps(value)


def _short(fact: str | int | None) -> str:
    """A digest by its beginning, anything else as it is."""
    return re.sub("([0-9a-f]{8})[0-9a-f]{24,}", r"\1...", str(fact))


def _read_facts(place: Path) -> Facts:
    try:
        facts: Facts = parse_json(place.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(
            f"{place} cannot be read ({error}), so nobody knows what data the run had; begin in another folder."
        ) from error
    return facts


def _versions() -> str:
    lines = [f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in _PACKAGES)]
    return "\n".join([*lines, f"platform {platform.platform()}", f"cuda {torch.version.cuda or 'none'}", ""])
