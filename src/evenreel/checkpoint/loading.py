"""Loading of a matcher's checkpoint: from a folder, the hub's cache or the hub."""

from __future__ import annotations

import hashlib
from os import PathLike, fspath
from pathlib import Path

import torch
from torch import Tensor, nn

from evenreel.checkpoint.architecture import build, module, without_training_only
from evenreel.checkpoint.config_file import CONFIG, WEIGHTS, Config, read_config
from evenreel.checkpoint.records import Pretrained
from evenreel.config import check_kind
from evenreel.encoders.towers import usable_device
from evenreel.errors import CheckpointError, DownloadError, UsageError
from evenreel.extras import HUB_ID, fetch, named_folder
from evenreel.matchers import Matcher

FILES_WANTED = (
    CONFIG,
    WEIGHTS,
    "README.md",
    "encoder/*.json",
    "encoder/*.txt",
    "encoder/*.safetensors",
    "encoder/*.model",
    "source/*.json",
    "source/*.safetensors",
)
"""All that is fetched of a checkpoint: no pickle, no code."""

MOST_MORE_NUMBERS = 100_000_000
"""That a matcher may have for training alone, such as those of a decoder's words, beside twice its own."""


def load_matcher(name: str | PathLike[str], *, device: str = "cpu", revision: str | None = None) -> Pretrained:
    """Load a matcher from a checkpoint, of which only safetensors and JSON are read.

    Args:
        name: a folder, or a hub id `org/name` or `org/name@revision`.
        device: device for the matcher: `cpu`, `cuda`, `auto`, ...
        revision: commit, branch or tag of a hub id; naming a commit pins what is loaded.

    Returns:
        The matcher in evaluation mode, with its specification and origin.

    Raises:
        UsageError: the device cannot be used, or two revisions are named.
        CheckpointError: there is no such checkpoint, it is damaged, or it was written by a later version.
    """
    check_kind(device, str, "device", "give its name, such as cpu or auto")
    folder = checkpoint_folder(name, revision)
    config = read_config(folder / CONFIG)
    weights = _weights(folder / WEIGHTS, config)
    _check_size(folder, config, weights)
    matcher = _built(folder, config)
    network = module(matcher)
    network.load_state_dict(weights)
    network.to(usable_device(device, "float32")).eval()
    return Pretrained(matcher, config.spec, config.about)


def checkpoint_folder(name: str | PathLike[str], revision: str | None = None) -> Path:
    """Return the folder of a checkpoint; a checkpoint of the hub is downloaded first.

    Args:
        name: a folder, or a hub id `org/name` or `org/name@revision`.
        revision: commit, branch or tag of a hub id.

    Raises:
        UsageError: two revisions are named.
        CheckpointError: there is no such checkpoint.
    """
    check_kind(name, (str, PathLike), "name", "give a folder, or a hub id")
    folder = _locate(fspath(name), revision)
    if missing := _missing(folder):
        raise CheckpointError(f"{folder} is no checkpoint of a matcher: {' and '.join(missing)} missing.")
    return folder


def _built(folder: Path, config: Config) -> Matcher:
    return without_training_only(_whole(folder, config))


def _whole(folder: Path, config: Config) -> Matcher:
    """The matcher with what only training needs."""
    try:
        return build(config.spec, config.about.encoder.dimension)
    except (UsageError, TypeError, ValueError, RuntimeError) as error:
        # What a made-up setting breaks inside torch is not foreseeable.
        raise CheckpointError(
            f"The matcher in {folder} cannot be built ({error}); use the version of evenreel that it was made by, "
            "or train it anew."
        ) from error


def _check_size(folder: Path, config: Config, weights: dict[str, Tensor]) -> None:
    """Find out that the weights are those of the matcher before any memory is taken for it."""
    with torch.device("meta"):  # which has shapes and no numbers
        whole = _whole(folder, config)
        more = sum(weight.numel() for weight in module(whole).state_dict().values())
        _check_fit(module(without_training_only(whole)), weights, folder)
    if more > MOST_MORE_NUMBERS + 2 * sum(weight.numel() for weight in weights.values()):
        raise CheckpointError(
            f"The matcher in {folder} would have {more:,} numbers that only training needs, many more than all the "
            "others; get the checkpoint again."
        )


def _check_fit(matcher: nn.Module, weights: dict[str, Tensor], folder: Path) -> None:
    """Refuse weights that are not the matcher's, all of them and no other."""
    wanted = matcher.state_dict()
    for name in sorted(wanted.keys() | weights.keys()):
        if name not in weights:
            raise _misfit(folder, f"{name} is missing")
        if name not in wanted:
            raise _misfit(folder, f"the matcher has no {name}")
        if weights[name].shape != wanted[name].shape:
            raise _misfit(folder, f"{name} is {tuple(weights[name].shape)} instead of {tuple(wanted[name].shape)}")


def _misfit(folder: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"The weights in {folder} do not fit its {CONFIG}: {why}; the two files are not of one checkpoint."
    )


def _weights(path: Path, config: Config) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        payload = path.read_bytes()
        if hashlib.sha256(payload).hexdigest() != config.weights_sha256:
            raise CheckpointError(
                f"The weights {path} are not those that were saved (their digest is another); get the checkpoint again."
            )
        return load(payload)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The weights {path} cannot be read ({error}); get the checkpoint again.") from error


def _locate(name: str, revision: str | None) -> Path:
    folder = named_folder(name)
    hub = None if folder is not None else HUB_ID.fullmatch(name)
    if revision is not None and (hub is None or hub["revision"] is not None):
        raise UsageError(f"A revision ({revision}) goes with a hub id without one, not with {name!r}.")
    if folder is not None:
        return folder
    if hub is None or ".." in name:
        raise _nothing(name)
    return _from_hub(hub["repository"], revision or hub["revision"] or "main")


def _from_hub(repository: str, revision: str) -> Path:
    from huggingface_hub.errors import HFValidationError

    try:
        return fetch(repository, revision, FILES_WANTED, _missing)
    except HFValidationError as error:
        raise _nothing(repository) from error
    except DownloadError as error:
        raise CheckpointError(str(error)) from error


def _nothing(name: str) -> CheckpointError:
    return CheckpointError(
        f"{name!r} is neither the folder of a checkpoint nor a hub id such as org/name; `evenreel train` makes one."
    )


def _missing(folder: Path) -> list[str]:
    return [name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()]
