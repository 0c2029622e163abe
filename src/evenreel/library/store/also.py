"""Further models of a library: where the vectors of each lie, and which the library is searched with.

Beside the library's own model, whose vectors are in its catalog and shards, each further one has a library of its own
in the folder `models`: the same files and clips, without words on screen. An index run brings all of them up to date,
decoding each video once; a clip is one transaction in each. A model of sounds is one too: its moments are windows of
sound. Which belong to a library its own catalog says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

MODELS = "models"
ALSO = "also"
"""Entry of `meta`: the further models that are searched, as JSON: folder -> name of the model."""
SOUNDS = "sounds"
"""Entry of `meta`: the model of sounds that is searched by what clips sound like, in the same form; one at most."""
MAKING = "making"
"""Entry of `meta`: the model whose vectors will take the place of the library's own, in the same form."""
DROPPING = "dropping"
"""Entry of `meta`: the further models whose vectors are being deleted, in the same form."""

_FOLDER = re.compile(r"[0-9a-f]{16}")


def further(meta: Mapping[str, str], entry: str = ALSO) -> dict[str, str]:
    """Return the further models that an entry of the catalog names: folder -> name of the model."""
    found: dict[str, str] = json.loads(meta.get(entry, "{}"))
    return {folder: name for folder, name in found.items() if _FOLDER.fullmatch(folder)}


def searched(meta: Mapping[str, str]) -> dict[str, str]:
    """Return all further models that a library is searched with, that of sounds too: folder -> name of the model."""
    return {**further(meta), **further(meta, SOUNDS)}


def is_model_folder(place: Path) -> bool:
    """Return whether a folder has the place and name of a further model's, whatever it holds."""
    return place.parent.name == MODELS and _FOLDER.fullmatch(place.name) is not None and place.is_dir()


def library_of(place: Path) -> Path:
    """Return the library that a folder belongs to: itself, or the one that it is a further model's folder of."""
    return place.parent.parent if place.parent.name == MODELS and _FOLDER.fullmatch(place.name) else place


def noted(models: Mapping[str, str]) -> str:
    """Encode further models, folder -> name of the model, as an entry of the catalog."""
    return json.dumps(dict(sorted(models.items())))


def folder_of_model(weights_hash: str) -> str:
    """Return the name of the folder of a further model with these weights."""
    return weights_hash[:16]


def place_of(library: Path, folder: str) -> Path:
    """Return the folder of a further model of a library."""
    return library / MODELS / folder


def places(library: Path, meta: Mapping[str, str]) -> dict[Path, str]:
    """Return the folders of all further models of a library, those in the making too, with the models' names."""
    models = {**searched(meta), **further(meta, MAKING)}
    return {place_of(library, folder): name for folder, name in models.items()}


def other_model(library: Path, made_with: str, offered: str) -> str:
    """Return the error message for a model that is another one than that of the vectors in a library.

    Args:
        library: folder of the library, or of a further model of it.
        made_with: name of the model that the vectors are of.
        offered: name of the other model.
    """
    if (whole := library_of(library)) != library:
        return (
            f"The library {whole} has vectors of the further model {made_with}, and {offered} has other weights now: "
            f"evenreel reindex --drop {made_with} --library {whole} deletes them, evenreel index FOLDER --also "
            f"{offered} --library {whole} makes new ones."
        )
    return (
        f"The library {library} was made with the model {made_with}, and {offered} has other weights; vectors of two "
        f"models cannot be compared: leave --model out, or use another --library."
    )
