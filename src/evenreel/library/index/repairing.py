"""Repair of a library, and of the vectors beside its own: each is rebuilt by itself.

Sounds that the catalog does not name are taken up again where catalog and second copy were lost together: their vectors
say by themselves what they are of. Other vectors that it does not name are left over, and deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from evenreel.errors import LibraryError
from evenreel.features.shards import DamagedShardError, read_shard, shard_files
from evenreel.library.index.integrity import SET_AGAIN
from evenreel.library.index.rebuild import rebuild
from evenreel.library.people import drop_gone_clips
from evenreel.library.personal.file import mend_personal
from evenreel.library.store import catalog
from evenreel.library.store.catalog import SHARDS
from evenreel.library.store.filesystem import library_lock, refuse_published
from evenreel.library.store.kept import copied
from evenreel.library.store.model_folders import (
    SOUNDS,
    clear_unnamed,
    models_of,
    noted,
    places,
    unnamed_folders,
)
from evenreel.library.store.writer import closing_error
from evenreel.sound.windows import RULE_OF_SOUND


def repair(library: Path, *, drop_missing: bool = False) -> list[str]:
    """Rebuild everything derived from the shards and the catalog; without a catalog, from the shards alone.

    Nothing is decoded again. A clip whose shard is damaged, or was made with another model or sampling rule, is
    dropped; the shard is kept as `*.broken`, and its files are read again by the next `evenreel index`. Its sounds
    are repaired too.

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
                done += _repair_models(library, connection, drop_missing)
                drop_gone_clips(library, connection)
            return [*done, *mend_personal(library)]
        except (sqlite3.Error, OSError) as error:
            raise closing_error(library, error) from error


def _repair_models(library: Path, connection: sqlite3.Connection, drop_missing: bool) -> Iterator[str]:
    """Repair the vectors beside the library's own; what is gone is left to the next index run."""
    meta = catalog.get_meta(connection)
    for place, name in places(library, meta).items():
        if (place / catalog.CATALOG).exists() or next(shard_files(place / SHARDS), None) is not None:
            yield from (f"model {name}: {done}" for done in rebuild(place, drop_missing))
        elif place.name in models_of(meta, SOUNDS):  # one in the making may not have begun
            yield f"model {name}: its vectors are gone; {SET_AGAIN}"
    if not models_of(meta, SOUNDS):
        for place in filter(_hears, unnamed_folders(library, meta)):
            yield from _take_up(library, connection, place, drop_missing)
    clear_unnamed(library, catalog.get_meta(connection))


def _hears(place: Path) -> bool:
    """Whether vectors are of sounds, as their shards say."""
    for path in shard_files(place / SHARDS):
        with suppress(DamagedShardError):
            return read_shard(path).rule.startswith(RULE_OF_SOUND)
    return False


def _take_up(library: Path, connection: sqlite3.Connection, place: Path, drop_missing: bool) -> Iterator[str]:
    """Have the catalog name vectors of sounds."""
    done = rebuild(place, drop_missing)
    with closing(catalog.open_for_reading(place)) as own:
        name = catalog.get_meta(own)["encoder_id"]
    with catalog.transaction(connection):
        catalog.set_meta(connection, {SOUNDS: noted({place.name: name})})
    yield f"model {name}: the library is searched with it again, as its vectors were there"
    yield from (f"model {name}: {one}" for one in done)
