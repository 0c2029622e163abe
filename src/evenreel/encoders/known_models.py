"""Models that are known: names for some, figures of others, licences that must be accepted. Needs no torch."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenreel.errors import UsageError

_TABLE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class PublishedFigure:
    """A figure that others published; nothing of it was measured here.

    Attributes:
        measure: name of the measure.
        value: value as it was published.
        source: name of the source, a key of `ModelTable.sources`.
    """

    measure: str
    value: float
    source: str


@dataclass(frozen=True)
class KnownModel:
    """A model with what is known of it; what is not is None or empty.

    Attributes:
        id: hub id, `builtin`, or a folder.
        kind: what one vector is made of: `pictures`, `windows` of frames, or by an `embedder` with instructions.
        family: name of the family, for people.
        name: short name, such as `fast`.
        parameters_m: millions of parameters.
        size_mb: size of its files in megabytes.
        licence: licence of its weights.
        non_commercial: whether that forbids commercial use.
        languages: languages of captions.
        dimension: length of a vector.
        onnx: hub id of an export in ONNX form that others made, which stands in for it where torch is not installed.
        figures: published figures.
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
    """The known models.

    Attributes:
        names: meaning of each short name.
        sources: where figures come from, by the names that figures give.
        models: models, the smallest of a family first.
    """

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
    given: dict[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    models = (
        KnownModel(**{**row, "figures": tuple(PublishedFigure(*figure) for figure in row["figures"])})
        for row in given["models"]
    )
    return ModelTable(given["names"], given["sources"], tuple(models))


def model_id(name: str) -> str:
    """Return the id that a short name stands for; any other name is returned as it is."""
    table = known_models()
    return next((model.id for model in table.models if model.name and model.name == name), name)


def check_licence(name: str, accepted: bool) -> None:
    """Refuse a model whose licence forbids commercial use, unless it was accepted."""
    found = known_models().find(name)
    if found is not None and found.non_commercial and not accepted:
        raise UsageError(
            f"The weights of {found.id} are under {found.licence}, which forbids commercial use; read it on "
            f"https://huggingface.co/{found.id}, and give --accept-licence if you keep to it."
        )
