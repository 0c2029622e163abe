"""Cleaning of stills (small pictures of moments): files of unknown clips, and damaged ones."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

from evenreel.features.shards import shard_files
from evenreel.features.stills import are_whole
from evenreel.library.store.catalog import STILLS
from evenreel.wording import count

log = logging.getLogger("evenreel")


def known_clips(connection: sqlite3.Connection) -> set[str]:
    """Return the ids of all clips of a catalog."""
    return {clip_id for (clip_id,) in connection.execute("SELECT clip_id FROM clips")}


def trouble_with(path: Path, known: Container[str]) -> str | None:
    """Return why a file of stills is useless; None for a sound one."""
    if path.stem not in known:
        return "no clip of the catalog has these stills"
    return None if are_whole(path) else "its stills are not what was written"


def drop_useless(library: Path, connection: sqlite3.Connection) -> list[str]:
    """Delete useless files of stills; return sentences on what was deleted."""
    known, dropped = known_clips(connection), 0
    for path in shard_files(library / STILLS):
        with suppress(OSError):  # verify tells of it
            if what := trouble_with(path, known):
                log.info("%s: %s", path, what)
                path.unlink()
                dropped += 1
    files = count(dropped, "file")
    return [f"dropped {files} of stills; the pictures are made when they are asked for"] if dropped else []
