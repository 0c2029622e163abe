"""Repair of a library with its further models: each is rebuilt by itself, and one that nothing names is taken up again.

Vectors in `models` that the catalog does not name are those of a further model where catalog and second copy were lost
together. They say by themselves which model they are of and how it was sampled, so the library is searched with them
again where that fits; what nobody can use is named, and left to the user to delete.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from evenreel.errors import LibraryError
from evenreel.features.shards import shard_files
from evenreel.library.index.dropping import finish_dropping
from evenreel.library.index.integrity import SET_AGAIN
from evenreel.library.index.rebuild import rebuild
from evenreel.library.people.damage import repair_people
from evenreel.library.personal.file import mend_personal
from evenreel.library.store import catalog
from evenreel.library.store.also import (
    ALSO,
    SOUNDS,
    folder_of_model,
    further,
    noted,
    place_of,
    places,
    searched,
)
from evenreel.library.store.catalog import SHARDS
from evenreel.library.store.filesystem import library_lock, refuse_published
from evenreel.library.store.kept import copied
from evenreel.library.store.model_folders import model_folders
from evenreel.library.store.writer import closing_error
from evenreel.sound.windows import RULE_OF_SOUND


def repair(library: Path, *, drop_missing: bool = False) -> list[str]:
    """Rebuild everything derived from the shards and the catalog; without a catalog, from the shards alone.

    Nothing is decoded again. A clip whose shard is damaged, or was made with another model or sampling rule, is
    dropped; the shard is kept as `*.broken`, and its files are read again by the next `evenreel index`. The vectors of
    further models are repaired too.

    Args:
        library: folder of the library.
        drop_missing: also forget files that were marked missing, and the clips that no other file has.

    Returns:
        What was done, a sentence each.

    Raises:
        LibraryError: there is nothing to repair from, another process holds the library, the disk is full, or a shard
            cannot be read just now or is of a later version, or it is a published snapshot; then nothing has changed.
    """
    refuse_published(library)
    if not library.is_dir():
        raise LibraryError(f"There is no library at {library}.")
    with library_lock(library):
        try:
            done = rebuild(library, drop_missing)
            with closing(catalog.open_for_writing(library)) as connection, copied(library, connection):
                done += _repair_further(library, connection, drop_missing)
                done += repair_people(library, connection)
            return [*done, *mend_personal(library)]
        except (sqlite3.Error, OSError) as error:
            raise closing_error(library, error) from error


def _repair_further(library: Path, connection: sqlite3.Connection, drop_missing: bool) -> Iterator[str]:
    """Repair the vectors of further models; what is gone is left to the next index run."""
    yield from (f"model {name}: finished dropping it" for name in finish_dropping(library, connection))
    meta = catalog.get_meta(connection)
    for place, name in places(library, meta).items():
        if (place / catalog.CATALOG).exists() or next(shard_files(place / SHARDS), None) is not None:
            yield from (f"model {name}: {done}" for done in rebuild(place, drop_missing))
        elif place.name in searched(meta):  # one in the making may not have begun
            yield f"model {name}: its vectors are gone; {SET_AGAIN}"
    for one in model_folders(library, meta):
        if one.state == "not named":
            yield from _take_up(library, connection, one.folder, drop_missing)


def _take_up(library: Path, connection: sqlite3.Connection, folder: str, drop_missing: bool) -> Iterator[str]:
    """Have the catalog name vectors that lie in `models`, if they can be searched with the library."""
    place, label = place_of(library, folder), f"folder models/{folder}"
    drop = f"evenreel reindex --drop {folder} deletes it"
    try:
        done = rebuild(place, drop_missing)
        with closing(catalog.open_for_reading(place)) as own:
            found = catalog.get_meta(own)
    except LibraryError as error:
        yield f"{label}: the catalog does not name it, and nothing in it can be used ({str(error).rstrip('.')}); {drop}"
        return
    meta, name = catalog.get_meta(connection), found.get("encoder_id", folder)
    if why := _unfit(meta, found, folder):
        yield f"{label}: the catalog does not name it, and {why}; {drop}"
        return
    entry = SOUNDS if _hears(found) else ALSO
    with catalog.transaction(connection):
        catalog.set_meta(connection, {entry: noted({**further(meta, entry), folder: name})})
    yield (
        f"model {name}: the library is searched with it again, as its vectors were there and the catalog did not name "
        f"it; evenreel reindex --drop {name} deletes them"
    )
    yield from (f"model {name}: {one}" for one in done)


def _hears(found: dict[str, str]) -> bool:
    """Whether vectors are of sounds, by the entries of their catalog."""
    return found.get("rule", "").startswith(RULE_OF_SOUND)


def _unfit(meta: dict[str, str], found: dict[str, str], folder: str) -> str | None:
    """Why vectors cannot be searched with a library; None where they can.

    Args:
        meta: entries of the library's catalog.
        found: entries of the catalog of the vectors.
        folder: the folder that they lie in.
    """
    weights_hash = found.get("weights_hash", "")
    if not weights_hash or folder_of_model(weights_hash) != folder:
        return "its vectors are not of the model that its name says"
    if _hears(found):
        return "the library has another model of sounds" if further(meta, SOUNDS) else None
    if not meta.get("dimension"):
        return "the library has no model of its own to search beside"
    if weights_hash == meta.get("weights_hash"):
        return f"the library's own vectors are those of this model, {found.get('encoder_id', '')}"
    if found.get("rule") != meta.get("rule"):
        return f"its videos were sampled '{found.get('rule')}', those of the library '{meta.get('rule')}'"
    return None
