"""The folder of a run: claimed before anything is read, locked by one process, with all files that a run keeps.

The recipe, the identity of the data, which clips could be read, metrics.csv with a row for every figure as it was
measured, checkpoints and weights.
"""

from __future__ import annotations

import csv
import io
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
from typing import Any, NamedTuple

import torch
from filelock import FileLock
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from evenreel.documents import parse_json, whole_number
from evenreel.errors import CheckpointError, CorpusError, EvenreelError, UsageError
from evenreel.features.pool import HOLDER, LOCK, TRANSIENT, writer_lock
from evenreel.files import TEMPORARY_SUFFIX, make_folder, replacing, sync_file, write_durably
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

PASSING = TRANSIENT | {"timeout"}
"""Reasons that may be gone at the next look; a busy machine alone can make a clip overdue."""
COLUMNS = ("step", "epoch", "name", "value")


class RunFolderError(EvenreelError): ...


@contextmanager
def held(folder: Path, recipe: Recipe, *, resume: bool) -> Iterator[None]:
    """Claim and lock the folder of a run for a `with` block; with several devices, only the first process does."""
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
    """
    resumed = _look(folder, resume=resume)
    if resumed:
        _check_recipe(folder, recipe)
    with writing(folder):
        if not resumed:  # a run that failed before its first checkpoint would add to the one that is begun now
            for path in (folder / CHECKPOINTS).glob("best-*"):
                path.unlink()
            for place in (TENSORBOARD, MEMBERS):
                if (folder / place).exists():
                    shutil.rmtree(folder / place)
            if (folder / CLIPS_READ).exists():
                with locked(folder / CLIPS_READ):
                    Verdicts(folder / CLIPS_READ).forget_passing()
            lines = [f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in _PACKAGES)]
            lines += [f"platform {platform.platform()}", f"cuda {torch.version.cuda or 'none'}", ""]
            write_durably(folder / VERSIONS, "\n".join(lines).encode())
        write_durably(folder / RECIPE, recipe_text(recipe).encode())


def remember(folder: Path, facts: Facts) -> None:
    """Record the identity of a run's data, or check that a resumed run has the same data."""
    place = folder / DATA
    if not (folder / LAST).is_file() and not (place.is_file() and _has_checkpoint(folder)):
        with writing(folder):
            write_durably(place, (json.dumps(dict(facts), indent=2) + "\n").encode())
        return
    try:
        before: Facts = parse_json(place.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(
            f"{place} cannot be read ({error}), so nobody knows what data the run had; begin in another folder."
        ) from error
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
    """Convert an error of writing in a `with` block to a `RunFolderError` with a sentence."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(
            f"The folder {folder} of the run cannot be written ({error.strerror or error}); mend that, and go on with "
            "--resume, or give another folder."
        ) from error


def check_begun(folder: Path) -> None:
    """Check, before a run is resumed, that its folder holds one; the name may be misspelt."""
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
    return (folder / LAST).is_file() or any(folder.glob(str(MEMBERS / "*" / LAST)))


def _check_recipe(folder: Path, recipe: Recipe) -> None:
    def plain(value: Any) -> str:
        return "a table" if isinstance(value, dict) else json.dumps(value)  # a table is too long for a sentence

    before = load_recipe(folder / RECIPE)
    changes = _changes(asdict(before), asdict(recipe))
    if changed := [f"{place} was {plain(old)} and is {plain(new)}" for place, old, new in changes]:
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


def _short(fact: str | int | None) -> str:
    """A digest by its beginning, anything else as it is."""
    return re.sub("([0-9a-f]{8})[0-9a-f]{24,}", r"\1...", str(fact))


# Which clips could be read --------------------------------------------------------------------------------------------


class ClipVerdict(NamedTuple):
    """Result of reading a clip: its number of frames, or the reason why it cannot be read, as a code and in words."""

    frames: int
    reason: str | None = None
    sentence: str = ""


class Verdicts:
    """File of which clips could be read, a line of JSON for each, appended at once; without a path, in memory.

    It is a cache: a line that cannot be read, since a crash cut it short or the disk damaged it, is left out.
    """

    def __init__(self, path: Path | None) -> None:
        self.known: dict[str, ClipVerdict] = {}
        self._path = path
        if path is None or not path.exists():
            return
        content = path.read_bytes()
        for line in content.split(b"\n"):
            try:
                key, frames, reason, sentence = parse_json(line)
                self.known[str(key)] = ClipVerdict(int(frames), reason, sentence)
            except (ValueError, TypeError):
                continue
        if self._lines() != content:  # a line that is appended has to begin as one
            write_durably(path, self._lines())

    def note(self, key: str, verdict: ClipVerdict) -> None:
        self.known[key] = verdict
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(_line(key, verdict))

    def forget_passing(self) -> None:
        """Drop results whose cause may be gone, such as a missing file, so that these clips are read again."""
        self.known = {key: verdict for key, verdict in self.known.items() if verdict.reason not in PASSING}
        if self._path is not None:
            write_durably(self._path, self._lines())

    def make_durable(self) -> None:
        if self._path is not None and self._path.exists():
            sync_file(self._path)

    def _lines(self) -> bytes:
        return b"".join(_line(key, verdict) for key, verdict in self.known.items())


def _line(key: str, verdict: ClipVerdict) -> bytes:
    return json.dumps([key, *verdict]).encode() + b"\n"


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Lock the file of results against other processes for a `with` block; None locks nothing."""
    if path is None:
        yield
        return
    make_folder(path.parent)
    with FileLock(path.with_suffix(".lock")):
        yield


# Figures, checkpoints and weights -------------------------------------------------------------------------------------


class MetricsFile:
    """File of a run's figures, written at once; a resumed run removes those after its checkpoint.

    Methods that write raise `RunFolderError` where the disk refuses.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, step: int, epoch: float, figures: Mapping[str, float]) -> None:
        new = not self.path.exists()
        with writing(self.path.parent), self.path.open("a", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            if new:
                rows.writerow(COLUMNS)
            rows.writerows((step, f"{epoch:.6g}", name, repr(float(value))) for name, value in figures.items())

    def make_durable(self) -> None:
        if self.path.exists():
            with writing(self.path.parent):
                sync_file(self.path)

    def of_step(self, step: int) -> dict[str, float]:
        return {row[2]: float(row[3]) for row in self._rows() if int(row[0]) == step}

    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """Return the points (step, value) of each figure, by its name, in the order of writing."""
        found: dict[str, list[tuple[float, float]]] = {}
        for step, _, name, value in self._rows():
            found.setdefault(name, []).append((float(step), float(value)))
        return found

    def cut_after(self, step: int) -> None:
        kept = [row for row in self._rows() if int(row[0]) <= step]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([COLUMNS, *kept])
        with writing(self.path.parent):
            write_durably(self.path, text.getvalue().encode())

    def _rows(self) -> list[list[str]]:
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]
        whole = csv.reader(line for line in lines if line.endswith("\n"))
        return [row for row in whole if len(row) == len(COLUMNS) and whole_number(row[0]) is not None]


def write_weights(path: Path, weights: dict[str, Tensor]) -> None:
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()}
    try:
        with replacing(path) as part:
            part.write_bytes(save(copies))  # not `save_file`, whose files nobody else may read
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The weights {path} cannot be written ({error}).") from error


def read_weights(path: Path) -> dict[str, Tensor]:
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The weights {path} cannot be read ({error}); train again.") from error
    return weights
