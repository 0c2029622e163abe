"""Packages that only a part of evenreel needs, and the extra that installs each."""

from __future__ import annotations

import importlib.util

TORCH = "torch"
_OF_TORCH = (
    *("torch", "transformers", "lightning", "torchmetrics", "tensorboardX", "onnx", "jsonargparse"),
    *("sentencepiece", "threadpoolctl"),
)
_OF_MEASURE = ("plotly", "polars", "scipy")
_OF_SCALE = ("fsspec", "lance", "pyarrow", "ray", "s3fs")
_OF_SPEECH = ("ctranslate2", "faster_whisper", "onnx_asr")
_OF_EDITING = ("opentimelineio", "otio_cmx3600_adapter")
EXTRAS = {
    **dict.fromkeys(_OF_TORCH, TORCH),
    **dict.fromkeys(_OF_MEASURE, "measure"),
    **dict.fromkeys(_OF_SCALE, "scale"),
    **dict.fromkeys(_OF_SPEECH, "speech"),
    **dict.fromkeys(_OF_EDITING, "editing"),
    "sklearn": "calibrate",
}
"""Extra of evenreel by the package that it brings."""


def installed(package: str) -> bool:
    """Return whether a package can be found; it is not imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def needed_extra(error: ImportError, what: str = "This") -> str | None:
    """Return a sentence that says which extra brings a missing package.

    Args:
        error: what an import raised.
        what: subject of the sentence, which needs the package.

    Returns:
        None where the package belongs to no extra.

    Example:
        >>> needed_extra(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn"), "Training")
        "Training needs torch, which is not installed: pip install 'evenreel[torch]'."
    """
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    return (
        None if extra is None else f"{what} needs {package}, which is not installed: pip install 'evenreel[{extra}]'."
    )
