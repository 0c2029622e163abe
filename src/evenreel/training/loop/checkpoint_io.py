"""Checkpoints of a run: replaced in one step that survives a power cut, and read without running any code in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from evenreel.errors import CheckpointError
from evenreel.files import replacing


class DurableCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoints; the one before is there until the new one is."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write one.

        Raises:
            CheckpointError: the disk refuses; the checkpoint before is untouched.
        """
        try:
            with replacing(Path(path)) as part, part.open("wb") as file:
                torch.save(checkpoint, file)  # given a name, it would write the name into the file
        except (OSError, RuntimeError) as error:  # torch raises the latter where a disk is full
            raise CheckpointError(f"The checkpoint {path} cannot be written ({error}).") from error

    def load_checkpoint(self, path: Any, map_location: Any = "cpu", weights_only: bool | None = None) -> dict[str, Any]:
        """Read one: tensors and plain values only, whatever the caller says.

        Raises:
            CheckpointError: it is damaged, or holds anything else.
        """
        return _read(path)


def step_of(path: Path) -> int:
    """Read the step that a checkpoint was written after; its tensors are not read.

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
    """Write weights as safetensors.

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
    """Read what `write_weights` wrote.

    Raises:
        CheckpointError: it is gone or damaged.
    """
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The weights {path} cannot be read ({error}); train again.") from error
    return weights
