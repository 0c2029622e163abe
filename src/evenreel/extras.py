"""What is installed and what is fetched: packages of the extras, and files of models on the hub."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from evenreel.errors import EvenreelError, UsageError

TORCH = "torch"
BROUGHT = {
    "measure": ("plotly", "polars", "scipy", "textblob"),
    TORCH: ("google", "onnx", "sentencepiece", "torch", "transformers"),
    "train": ("jsonargparse", "lightning", "sklearn", "tensorboardX", "threadpoolctl", "torchmetrics"),
    "open-clip": ("open_clip", "timm"),
    "vectors-benchmark": ("faiss", "turbovec", "usearch"),
    "scale": ("fsspec", "ray", "s3fs"),
    "engine": ("pymilvus",),
    "speech": ("ctranslate2", "faster_whisper", "onnx_asr"),
    "mcp": ("httpx2", "mcp"),
    "mteb": ("datasets", "mteb"),
    "hdf5": ("h5py",),
    "spacy": ("spacy",),
}
"""Packages, as they are imported, that each extra of evenreel brings."""
EXTRAS = {package: extra for extra, packages in BROUGHT.items() for package in packages}
"""Extra of evenreel by the package that it brings."""
_FROM = re.compile(r"^from (\.[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
_NAME = re.compile(r" as (\w+)")


def installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def needed_extra(error: ImportError, what: str = "This") -> str | None:
    """Return a sentence that says which extra brings a missing package.

    Example:
        >>> needed_extra(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn"), "Training")
        "Training needs torch, which is not installed: pip install 'evenreel[torch]'."
    """
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    return None if extra is None else f"{what} needs {package}, which is not installed: {to_install(extra)}."


def to_install(extra: str) -> str:
    """Return the command that installs an extra where evenreel runs: an environment, or one that pipx or uv made."""
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"pipx inject evenreel 'evenreel[{extra}]'"
    if Path(sys.prefix, "uv-receipt.toml").is_file():
        return f"uv tool install '.[{extra}]' in the folder that evenreel was installed from"
    return f"pip install 'evenreel[{extra}]'"


def offered(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Offer the names of a package's stub, each imported when it is asked for; a missing extra is named.

    `__getattr__, __dir__, __all__ = offered(__name__, __file__)` stands in the package's `__init__.py`.
    """
    stub = Path(file).with_suffix(".pyi").read_text("utf-8")
    homes = {name: module for module, names in _FROM.findall(stub) for name in _NAME.findall(names)}

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(importlib.import_module(homes[name], package), name)
        except ModuleNotFoundError as error:
            if (sentence := needed_extra(error, f"{package}.{name}")) is None:
                raise
            raise ModuleNotFoundError(sentence, name=error.name, path=error.path) from error
        vars(sys.modules[package])[name] = value
        return value

    return found, lambda: sorted(homes), sorted(homes)


# models on the hub ----------------------------------------------------------------------------------------------------

HUB_ID = re.compile(r"(?P<repository>\w[\w.-]*/\w[\w.-]*?)(?:@(?P<revision>[\w./-]+))?")
"""Form of a hub id; a name that starts with `.`, `/` or `~` is a folder's, whether there is one or not."""

log = logging.getLogger("evenreel")


class UnavailableError(Exception):
    """A model cannot be loaded; the message is a part of a sentence that the caller completes."""


def named_folder(name: str) -> Path | None:
    try:
        folder = Path(name).expanduser().resolve()
        return folder if name and folder.is_dir() else None
    except (RuntimeError, ValueError, OSError):  # ~nobody, a NUL, a loop of links
        return None


def located(
    name: str, revision: str | None, get: Callable[[str, str | None], Path], nothing: EvenreelError
) -> tuple[str, Path]:
    """Find id and folder of a model: a folder, or a hub id, of which `get` fetches a revision; else raise `nothing`."""
    folder = named_folder(name)
    hub = None if folder is not None else HUB_ID.fullmatch(name)
    if revision is not None and (hub is None or hub["revision"] is not None):
        raise UsageError(f"A revision ({revision}) goes with a hub id without one, not with {name!r}.")
    if folder is not None:
        return str(folder), folder
    if hub is None or ".." in name:
        raise nothing
    from huggingface_hub.errors import HFValidationError

    try:
        found = get(repository := hub["repository"], revision or hub["revision"])
    except HFValidationError as error:
        raise nothing from error
    return f"{repository}@{found.name}", found


def offline() -> bool:
    """Return whether downloads are forbidden: `EVENREEL_OFFLINE` or `HF_HUB_OFFLINE` is set to a true value."""
    return any(
        os.environ.get(name, "").lower() in {"1", "true", "yes", "on"}
        for name in ("EVENREEL_OFFLINE", "HF_HUB_OFFLINE")
    )


def fetch(repository: str, revision: str, wanted: Sequence[str], missing: Callable[[Path], list[str]]) -> Path:
    """Return a model's folder in the hub's cache, named by commit, after downloading what is missing and allowed."""
    cached = cached_folder(repository, revision)
    if cached is not None and not missing(cached):
        return cached
    if offline():
        lacking = f"lacks {', '.join(missing(cached))}" if cached else "does not have it"
        switched_off = "the network is switched off (EVENREEL_OFFLINE or HF_HUB_OFFLINE is set)"
        raise UnavailableError(f"{switched_off} and the cache {lacking}")
    return _download(repository, revision, wanted)


def cached_folder(repository: str, revision: str) -> Path | None:
    """Return a model's folder in the hub's cache, whole or not; None where it has none."""
    from huggingface_hub import try_to_load_from_cache

    for name in ("config.json", "open_clip_config.json"):
        path = try_to_load_from_cache(repository, name, revision=revision)
        if isinstance(path, str):
            return Path(path).parent
    return None


def _download(repository: str, revision: str, wanted: Sequence[str]) -> Path:
    from huggingface_hub import constants, snapshot_download

    log.warning("downloading %s (%s) to %s", repository, revision, constants.HF_HUB_CACHE)
    with _silent_hub():
        try:
            return Path(snapshot_download(repository, revision=revision, allow_patterns=list(wanted)))
        except Exception as error:
            # Name resolution, proxies, refusals, full disks: each library below has its own class for them.
            raise UnavailableError(_why(error)) from error


@contextlib.contextmanager
def _silent_hub() -> Iterator[None]:
    """Keep the hub client's bars and warnings from the terminal."""
    from huggingface_hub.utils import logging as spoken
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    level, silent = spoken.get_verbosity(), are_progress_bars_disabled()
    spoken.set_verbosity(logging.ERROR)
    disable_progress_bars()
    try:
        yield
    finally:
        spoken.set_verbosity(level)
        if not silent:
            enable_progress_bars()


def _why(error: Exception) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return "its owner wants to be asked first: accept the terms on its page and run `hf auth login`"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "the hub has no model of that name, or it is private (then run `hf auth login`)"
    if isinstance(error, errors.RevisionNotFoundError):
        return "the model has no such revision"
    if isinstance(error, errors.HfHubHTTPError):
        return f"the host refuses it (HTTP {error.response.status_code})"
    words = (str(error).splitlines() or [""])[0].rstrip(".")
    return f"the download failed ({type(error).__name__}: {words[:200]})"
