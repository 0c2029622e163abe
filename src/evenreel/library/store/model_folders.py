"""What the folder `models` of a library holds: whose vectors, what the catalog says of them, and their size."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evenreel.errors import LibraryError
from evenreel.library.store import catalog
from evenreel.library.store.also import (
    ALSO,
    DROPPING,
    MAKING,
    MODELS,
    SOUNDS,
    further,
    is_model_folder,
    place_of,
)

FolderState = Literal["searched", "in the making", "being dropped", "not named"]


@dataclass(frozen=True)
class ModelFolder:
    """The vectors of a further model on disk.

    Attributes:
        library: folder of the library.
        model: name of the model; that of the folder where it is not known.
        folder: name of the folder in `models`.
        state: `searched` with the library, `in the making` to become the library's own, `being dropped`, or `not named`
            by the catalog.
        hears: whether it is a model of sounds.
    """

    library: Path
    model: str
    folder: str
    state: FolderState
    hears: bool = False

    @property
    def bytes(self) -> int:
        """Size of the folder's files on disk now, in bytes; 0 where they are gone."""
        return size_of(place_of(self.library, self.folder))

    def to_json(self) -> dict[str, Any]:
        """Return model, folder, state, size and kind as plain data, the form that `--json` prints."""
        said: dict[str, Any] = {"model": self.model, "folder": self.folder, "state": self.state}
        return said | {"bytes": self.bytes, "hears": self.hears}


def model_folders(library: Path, meta: Mapping[str, str]) -> list[ModelFolder]:
    """List the vectors of further models: those that the catalog names, and those that lie there all the same.

    Args:
        library: folder of the library.
        meta: entries of its catalog; empty where it is gone.
    """
    states: dict[str, FolderState] = {
        ALSO: "searched",
        SOUNDS: "searched",
        MAKING: "in the making",
        DROPPING: "being dropped",
    }
    found = {
        folder: ModelFolder(library, name, folder, state, hears=entry == SOUNDS)
        for entry, state in states.items()
        for folder, name in further(meta, entry).items()
    }
    for place in sorted((library / MODELS).glob("*")):
        if is_model_folder(place) and place.name not in found:
            found[place.name] = ModelFolder(library, _name_of(place), place.name, "not named")
    return list(found.values())


def size_of(folder: Path) -> int:
    """Return the size of all files in a folder in bytes; 0 where there is none."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # gone by now
            total += path.stat().st_size if path.is_file() else 0
    return total


def _name_of(place: Path) -> str:
    """The model of vectors that the library's catalog does not name, as their own catalog says it."""
    with suppress(LibraryError, sqlite3.Error), closing(catalog.open_for_reading(place)) as connection:
        return catalog.get_meta(connection).get("encoder_id", place.name)
    return place.name
