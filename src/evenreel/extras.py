"""Packages that only a part of evenreel needs, and the extra that installs each."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import lazy_loader

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
    """Offer the names of a package's stub, each imported when it is asked for; a missing extra is named."""
    find, listed, names = lazy_loader.attach_stub(package, file)

    def found(name: str) -> Any:
        try:
            return find(name)
        except ModuleNotFoundError as error:
            if (sentence := needed_extra(error, f"{package}.{name}")) is None:
                raise
            raise ModuleNotFoundError(sentence, name=error.name, path=error.path) from error

    return found, listed, names
