"""The end of an exchange of models: new shards, which the catalog names already, take the place of the old ones.

They wait in a folder that says whose they are. The catalog's transaction decides: where it names their model they are
the library's, and else they are left over from an exchange that did not come to its transaction.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from evenreel.features.shards import shard_files, shard_path
from evenreel.files import sync_folder
from evenreel.library.store.catalog import SHARDS
from evenreel.library.store.vectors import FRAMES, SOUNDS
from evenreel.library.store.writer import vectors_files, vectors_path

_WAITING = "shards.next-"


def waiting_shards(library: Path, weights_hash: str) -> Path:
    """Return the folder where shards of a new model wait for the catalog to name it."""
    return library / f"{_WAITING}{weights_hash[:16]}"


def unfinished_exchange(library: Path, meta: Mapping[str, str]) -> Path | None:
    """Return the folder of shards that the catalog names and that are not in their place yet; None where all are."""
    folder = waiting_shards(library, meta.get("weights_hash", ""))
    return folder if meta.get("weights_hash") and folder.is_dir() else None


def named_shard(library: Path, waiting: Path | None, clip_id: str) -> Path:
    """Return the path of a clip's shard: in `waiting` (see `unfinished_exchange`) if it is there, else in its place."""
    if waiting is not None and (path := shard_path(waiting, clip_id)).exists():
        return path
    return shard_path(library / SHARDS, clip_id)


def finish_exchange(library: Path, meta: Mapping[str, str]) -> None:
    """Finish an exchange that was broken off after its transaction, and clear away one that was before it."""
    own = unfinished_exchange(library, meta)
    for folder in library.glob(f"{_WAITING}*"):
        if folder == own:
            for path in set(vectors_files(library)) - {vectors_path(library, meta, of) for of in (FRAMES, SOUNDS)}:
                path.unlink(missing_ok=True)
            for path in shard_files(folder):
                place = shard_path(library / SHARDS, path.stem)
                place.parent.mkdir(parents=True, exist_ok=True)
                path.replace(place)
                sync_folder(place.parent)
        shutil.rmtree(folder)
