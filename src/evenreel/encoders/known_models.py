"""Models that are known: names for some, figures of others, licences to accept, and speed here. Needs no torch."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenreel.errors import UsageError
from evenreel.types import Encoder

_HEIGHT, _WIDTH = 360, 640
_CAPTIONS = tuple(f"a person in a {colour} coat walks over a bridge in the rain" for colour in ("red", "blue") * 16)


@dataclass(frozen=True)
class PublishedFigure:
    """A figure that others published, and its source, a key of `ModelTable.sources`; none was measured here."""

    measure: str
    value: float
    source: str


@dataclass(frozen=True)
class KnownModel:
    """A model with what is known of it; what is not is None or empty.

    Attributes:
        id: hub id, `builtin`, or a folder.
        kind: what one vector is made of: `pictures`, `windows` of frames, or by an `embedder` with instructions.
        name: short name, such as `fast`.
        parameters_m: millions of parameters.
        size_mb: size of its files in megabytes.
        non_commercial: whether the licence of its weights forbids commercial use.
        onnx: hub id of an export in ONNX form that others made, which stands in for it where torch is not installed.
    """

    id: str
    kind: str = ""
    family: str = ""
    name: str = ""
    parameters_m: float | None = None
    size_mb: float | None = None
    licence: str = ""
    non_commercial: bool = False
    languages: str = ""
    dimension: int | None = None
    onnx: str = ""
    figures: tuple[PublishedFigure, ...] = ()


@dataclass(frozen=True)
class ModelTable:
    """The known models, the smallest of a family first, what short names mean, and where figures come from."""

    names: Mapping[str, str]
    sources: Mapping[str, str]
    models: tuple[KnownModel, ...]

    def find(self, name: str) -> KnownModel | None:
        """Return the model of a short name or id, whatever its revision; None for any other."""
        repository = name.partition("@")[0]
        return next((model for model in self.models if name == model.name or repository == model.id), None)


@functools.cache
def known_models() -> ModelTable:
    """Read the table of known models."""
    given: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    models = (
        KnownModel(**{**row, "figures": tuple(PublishedFigure(*figure) for figure in row["figures"])})
        for row in given["models"]
    )
    return ModelTable(given["names"], given["sources"], tuple(models))


def model_id(name: str) -> str:
    """Return the id that a short name stands for; any other name is returned as it is."""
    return next((model.id for model in known_models().models if model.name and model.name == name), name)


def check_licence(name: str, accepted: bool) -> None:
    """Refuse a model whose licence forbids commercial use, unless it was accepted."""
    found = known_models().find(name)
    if found is not None and found.non_commercial and not accepted:
        raise UsageError(
            f"The weights of {found.id} are under {found.licence}, which forbids commercial use; read it on "
            f"https://huggingface.co/{found.id}, and give --accept-licence (of a library, --set accept_licence=yes) if "
            "you keep to it."
        )


@dataclass(frozen=True)
class EncoderSpeed:
    """Speed of an encoder, its preparation of frames of 640 x 360 pixels and of captions of 13 words included."""

    frames_per_s: float
    captions_per_s: float


def measure_speed(encoder: Encoder, seconds: float = 2.0) -> EncoderSpeed:
    """Measure how many frames, and how many captions, an encoder encodes in a second."""
    import numpy as np

    frames = encoder.window.frames
    windows = max(1, 16 // frames)
    pixels = np.random.default_rng(0).integers(0, 256, (windows, frames, 3, _HEIGHT, _WIDTH), dtype=np.uint8)
    return EncoderSpeed(
        _rate(lambda: encoder.encode_windows(pixels), windows * frames, seconds),
        _rate(lambda: encoder.encode_text(_CAPTIONS), len(_CAPTIONS), seconds),
    )


def _rate(work: Callable[[], object], count: int, seconds: float) -> float:
    work()
    done, started = 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < seconds or not done:
        work()
        done += count
    return done / passed
