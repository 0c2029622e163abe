"""Packages that only a part of evenreel needs, and the extra that installs each."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    "editing": ("opentimelineio", "otio_cmx3600_adapter"),
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
    """Return whether a package can be found; it is not imported."""
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
    return (
        None if extra is None else f"{what} needs {package}, which is not installed: pip install 'evenreel[{extra}]'."
    )


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
