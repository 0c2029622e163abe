"""Vectors beside a library's own: those of what clips sound like, and those of a model that is to be its own.

Each model has a library of its own in the folder `models`: the same files and clips, without words on screen. Which of
them belong to a library its own catalog says.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MODELS = "models"
SOUNDS = "sounds"
"""Entry of `meta`: the model of sounds that is searched by what clips sound like, as JSON: folder -> name of the model;
one at most."""
MAKING = "making"
"""Entry of `meta`: the model whose vectors will take the place of the library's own, in the same form."""

_FOLDER = re.compile(r"[0-9a-f]{16}")


def models_of(meta: Mapping[str, str], entry: str) -> dict[str, str]:
    """Return the model that an entry of the catalog names: folder -> name of the model."""
    found: dict[str, str] = json.loads(meta.get(entry, "{}"))
    return {folder: name for folder, name in found.items() if _FOLDER.fullmatch(folder)}


def noted(models: Mapping[str, str]) -> str:
    """Encode models, folder -> name of the model, as an entry of the catalog."""
    return json.dumps(dict(sorted(models.items())))


def folder_of_model(weights_hash: str) -> str:
    """Return the name of the folder of a model with these weights."""
    return weights_hash[:16]


def place_of(library: Path, folder: str) -> Path:
    """Return the folder of a model of a library."""
    return library / MODELS / folder


def library_of(place: Path) -> Path:
    """Return the library that a folder belongs to: itself, or the one whose `models` it lies in."""
    return place.parent.parent if place.parent.name == MODELS and _FOLDER.fullmatch(place.name) else place


def places(library: Path, meta: Mapping[str, str]) -> dict[Path, str]:
    """Return the folders of the models beside a library's own, with the models' names."""
    models = {**models_of(meta, SOUNDS), **models_of(meta, MAKING)}
    return {place_of(library, folder): name for folder, name in models.items()}


def unnamed_folders(library: Path, meta: Mapping[str, str]) -> list[Path]:
    """Return the folders of models that the catalog does not name: left over, or the catalog has lost its entries."""
    named = places(library, meta)
    there = sorted((library / MODELS).glob("*"))
    return [place for place in there if _FOLDER.fullmatch(place.name) and place.is_dir() and place not in named]


def clear_unnamed(library: Path, meta: Mapping[str, str]) -> None:
    """Delete the vectors that the catalog names no longer; of a link only the link."""
    for place in unnamed_folders(library, meta):
        if place.is_symlink():
            place.unlink()
        else:
            shutil.rmtree(place, ignore_errors=True)  # a reader that closes a catalog takes its -wal and -shm away
    with suppress(OSError):  # others are in it, or there is none
        (library / MODELS).rmdir()


def other_model(library: Path, made_with: str, offered: str) -> str:
    """Return the error message for a model that is another one than that of the vectors in a library."""
    return (
        f"The library {library} was made with the model {made_with}, and {offered} has other weights; vectors of two "
        f"models cannot be compared: leave --model out, or use another --library."
    )


def other_sounds(library: Path, made_with: str, offered: str) -> str:
    """Return the error message for a model of sounds that is another one than that of a library's sounds."""
    return (
        f"The library {library} has sounds by {made_with}, and {offered} has other weights: evenreel index FOLDER "
        f"--set sound={offered} --library {library} encodes them anew."
    )
