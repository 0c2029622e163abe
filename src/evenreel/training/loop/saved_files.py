"""Files of a run: metrics.csv, with a row for every figure as it was measured, checkpoints and weights.

Checkpoints are replaced in one step that survives a power cut, and read without running any code in them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from evenreel.documents import whole_number
from evenreel.errors import CheckpointError
from evenreel.files import replacing, sync_file, write_durably
from evenreel.training.loop.run_folder import writing

COLUMNS = ("step", "epoch", "name", "value")


class MetricsFile:
    """File of a run's figures, written at once; a resumed run removes those after its checkpoint.

    Methods that write raise `RunFolderError` where the disk refuses.

    Args:
        path: path of the file, which is made with the first row.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, step: int, epoch: float, figures: Mapping[str, float]) -> None:
        """Append a row for each figure of a step; every value reads back as the same number."""
        new = not self.path.exists()
        with writing(self.path.parent), self.path.open("a", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            if new:
                rows.writerow(COLUMNS)
            rows.writerows((step, f"{epoch:.6g}", name, repr(float(value))) for name, value in figures.items())

    def make_durable(self) -> None:
        """Flush the file to disk, so that rows survive a power cut."""
        if self.path.exists():
            with writing(self.path.parent):
                sync_file(self.path)

    def of_step(self, step: int) -> dict[str, float]:
        """Return the figures of one step, by name."""
        return {row[2]: float(row[3]) for row in self._rows() if int(row[0]) == step}

    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """Return the points (step, value) of each figure, by its name, in the order of writing."""
        found: dict[str, list[tuple[float, float]]] = {}
        for step, _, name, value in self._rows():
            found.setdefault(name, []).append((float(step), float(value)))
        return found

    def cut_after(self, step: int) -> None:
        """Remove the rows after a step, and a row that a crash cut short."""
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


class DurableCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoint files, replaced in one step that survives a power cut."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint in place of the one before, in one step that survives a power cut.

        Raises:
            CheckpointError: the disk refuses; the earlier checkpoint is untouched.
        """
        try:
            with replacing(Path(path)) as part, part.open("wb") as file:
                torch.save(checkpoint, file)  # given a name, it would write the name into the file
        except (OSError, RuntimeError) as error:  # torch raises the latter where a disk is full
            raise CheckpointError(f"The checkpoint {path} cannot be written ({error}).") from error

    def load_checkpoint(self, path: Any, map_location: Any = "cpu", weights_only: bool | None = None) -> dict[str, Any]:
        """Read a checkpoint: tensors and plain values only, whatever `weights_only` says.

        Raises:
            CheckpointError: the checkpoint is damaged, or holds anything else.
        """
        return _read(path)


def step_of(path: Path) -> int:
    """Return the step after which a checkpoint was written, without reading its tensors.

    Raises:
        CheckpointError: it is damaged, or holds anything but tensors and plain values.
    """
    return int(_read(path, mmap=True)["global_step"])


def _read(path: Any, *, mmap: bool = False) -> dict[str, Any]:
    try:
        loaded: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # what a damaged file breaks in the unpickler is not foreseeable
        raise CheckpointError(
            f"The checkpoint {path} cannot be read ({type(error).__name__}); start the run again in another folder."
        ) from error
    return loaded


def write_weights(path: Path, weights: dict[str, Tensor]) -> None:
    """Write weights, by name, as a safetensors file.

    Raises:
        CheckpointError: the file cannot be written.
    """
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()}
    try:
        with replacing(path) as part:
            part.write_bytes(save(copies))  # not `save_file`, whose files nobody else may read
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The weights {path} cannot be written ({error}).") from error


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read weights, by name, from a safetensors file.

    Raises:
        CheckpointError: the file is gone or damaged.
    """
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The weights {path} cannot be read ({error}); train again.") from error
    return weights
