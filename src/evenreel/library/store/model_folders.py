"""The vectors of a model that is to be a library's own, in the making (`evenreel.library.index.reindex`).

They lie in a library of its own below the folder `models`: the same files and clips, without words on screen. The
library's catalog names it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MODELS = "models"
MAKING = "making"
"""Entry of `meta`: the model whose vectors will take the place of the library's own, as JSON: folder -> its name."""

_FOLDER = re.compile(r"[0-9a-f]{16}")


class Making(NamedTuple):
    """A model in the making."""

    folder: str  # below `models`: the beginning of the digest of its weights
    name: str


def making_of(meta: Mapping[str, str]) -> Making | None:
    """Return the model in the making that a catalog names."""
    found: dict[str, str] = json.loads(meta.get(MAKING, "{}"))
    return next((Making(*one) for one in found.items() if _FOLDER.fullmatch(one[0])), None)


def place_of(library: Path, weights_hash: str) -> Path:
    """Return the folder where the vectors of a model with these weights are made for a library."""
    return library / MODELS / weights_hash[:16]


def library_of(place: Path) -> Path:
    """Return the library that a folder belongs to: itself, or the one whose `models` it lies in."""
    return place.parent.parent if place.parent.name == MODELS and _FOLDER.fullmatch(place.name) else place


def clear_unnamed(library: Path, meta: Mapping[str, str]) -> None:
    """Delete the vectors that the catalog names no longer; of a link only the link."""
    making = making_of(meta)
    for place in (library / MODELS).glob("*"):
        if not _FOLDER.fullmatch(place.name) or (making and making.folder == place.name):
            continue
        if place.is_symlink():
            place.unlink()
        elif place.is_dir():
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
