"""What a library takes on the disk, by its parts."""

from __future__ import annotations

import os
from pathlib import Path

from evenreel.library.store.catalog import CATALOG, SHARDS, STILLS
from evenreel.library.store.filesystem import size_of
from evenreel.library.store.model_folders import MODELS
from evenreel.library.store.user_tables import COPY

PARTS = {
    "catalog": "the catalog with its full text, and the copy of a person's own",
    "vectors": "the vectors that are searched",
    "shards": "features of each clip, from which all else can be made anew",
    "stills": "small pictures of moments",
    "models": "vectors of a model in the making",
    "others": "everything else",
}
"""Name of each part, and what it holds."""

_FOLDERS = {SHARDS: "shards", STILLS: "stills", MODELS: "models"}


def sizes_on_disk(library: Path) -> dict[str, int]:
    """Measure the bytes that each of `PARTS` of a library takes; files that go meanwhile count nothing."""
    found = dict.fromkeys(PARTS, 0)
    for entry in _entries(library):
        if entry.is_dir(follow_symlinks=False):
            found[_FOLDERS.get(entry.name, "others")] += size_of(Path(entry.path))
        else:
            found[_part_of(entry.name)] += _size(entry)
    return found


def _part_of(name: str) -> str:
    if name.startswith((CATALOG, COPY)):
        return "catalog"
    return "vectors" if name.startswith(("vectors.", "sounds.")) else "others"


def _entries(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
