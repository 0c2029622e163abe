"""Is a library whole? What is not is named, with what mends it (`evenreel.library.rebuild` does)."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenreel.errors import LibraryError
from evenreel.features.shards import DamagedShardError, NewerShardError, Shard, read_shard, shard_files, shard_path
from evenreel.library import catalog
from evenreel.library.catalog import SHARDS
from evenreel.library.elements import (
    FIND_AGAIN,
    DamagedElementsError,
    changed_elements,
    named_elements,
    read_elements,
)
from evenreel.library.fulltext import rebuild_full_text
from evenreel.library.lock import library_lock
from evenreel.library.rows import rows_of, stored_rows
from evenreel.library.store import open_vectors
from evenreel.library.vectors import ExactVectors
from evenreel.wording import printable

SET_AGAIN = "run: evenreel index FOLDER (it reads the file again)"
RUN_REPAIR = "run: evenreel repair"
AGAIN = "check the disk and the permissions, then run: evenreel verify"
UPDATE = "update evenreel"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a library and what mends it."""

    where: str
    what: str
    remedy: str


def verify(library: Path) -> list[Problem]:
    """Check everything a library holds: database, every shard's checksum, the matrix, the full text.

    Raises:
        LibraryError: there is no library, it is of another version, it cannot be opened just now, or an indexer is
            writing it.
    """
    if not (library / catalog.CATALOG).is_file():
        if next(shard_files(library / SHARDS), None) is None:
            raise LibraryError(f"There is no library at {library}.")
        return [Problem(catalog.CATALOG, "it is gone, its feature shards are there", RUN_REPAIR)]
    # Shards and catalog are two things: beside a writer they could only be compared with excuses.
    with library_lock(library) if os.access(library, os.W_OK) else nullcontext():
        try:
            with (
                closing(catalog.open_for_reading(library)) as connection,
                catalog.readable(library),
                catalog.snapshot(connection),
            ):
                return list(_problems(library, connection))
        except LibraryError as error:
            if not catalog.is_damage(error.__cause__):
                raise
            return [Problem(catalog.CATALOG, f"SQLite cannot read it ({error.__cause__})", RUN_REPAIR)]


def integrity_messages(connection: sqlite3.Connection) -> list[str]:
    """What SQLite's own check finds wrong; empty for a sound catalog."""
    return [text for (text,) in connection.execute("PRAGMA integrity_check(5)") if text != "ok"]


def broken_metadata(connection: sqlite3.Connection) -> list[str | bytes]:
    """The files, as the catalog names them, whose metadata is no JSON object."""
    rows = connection.execute("SELECT path, metadata FROM files").fetchall()
    return [path for path, metadata in rows if not _is_object(metadata)]


def foreign(shard: Shard, meta: Mapping[str, str]) -> bool:
    """Whether a shard was made with another model or sampling rule than the library."""
    other_model = shard.weights_hash is not None and shard.weights_hash != meta.get("weights_hash")
    return other_model or shard.rule != meta.get("rule")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _problems(library: Path, connection: sqlite3.Connection) -> Iterator[Problem]:
    for message in integrity_messages(connection):
        yield Problem(catalog.CATALOG, message, RUN_REPAIR)
    yield from _shard_problems(library, connection)
    broken = broken_metadata(connection)
    for path in broken:
        yield Problem(
            f"file {printable(catalog.loaded_path(path))}",
            "its metadata is not what was written",
            f"{RUN_REPAIR}, then {SET_AGAIN}",
        )
    yield from _text_problems(connection, broken)
    yield from _element_problems(library, connection)


def _shard_problems(library: Path, connection: sqlite3.Connection) -> Iterator[Problem]:
    meta, vectors = catalog.get_meta(connection), _matrix(library, connection)
    known = set()
    rows = connection.execute(
        "SELECT clip_id, shard_hash, first_row, count FROM clips LEFT JOIN vector_rows USING (clip_id)"
    )
    for clip_id, digest, first, count in rows:
        path = shard_path(library / SHARDS, clip_id)
        known.add(path)
        try:
            shard = read_shard(path, digest)
        except LibraryError as error:
            yield Problem(f"clip {clip_id}", str(error), _remedy(error))
            continue
        if foreign(shard, meta):
            what = "its shard is of another model or sampling rule than the library"
            yield Problem(f"clip {clip_id}", what, f"{RUN_REPAIR}, then {SET_AGAIN}")
        if rows_of(shard, digest) != stored_rows(connection, clip_id):
            yield Problem(f"clip {clip_id}", "its rows in the catalog are not those of its shard", RUN_REPAIR)
        if not _vectors_agree(vectors, first, count, shard):
            yield Problem(f"clip {clip_id}", "its rows of the vector matrix are not those of its shard", RUN_REPAIR)
    for path in shard_files(library / SHARDS):
        if path not in known:
            yield Problem(path.name, "no clip of the catalog has this shard", RUN_REPAIR)


def _remedy(error: LibraryError) -> str:
    if isinstance(error, DamagedShardError):
        return f"{RUN_REPAIR}, then {SET_AGAIN}"
    return UPDATE if isinstance(error, NewerShardError) else AGAIN


def _matrix(library: Path, connection: sqlite3.Connection) -> ExactVectors | None:
    try:
        return open_vectors(library, catalog.get_meta(connection))
    except LibraryError:
        return None


def _vectors_agree(vectors: ExactVectors | None, first: int | None, count: int, shard: Shard) -> bool:
    """Whether the matrix has the frames of a shard, and nothing of a clip without frames."""
    if shard.frames is None or first is None or vectors is None:
        return shard.frames is None and first is None
    try:
        return np.array_equal(vectors.read(first, count), shard.frames)
    except (LibraryError, OSError):
        return False


def _text_problems(connection: sqlite3.Connection, broken: list[str | bytes]) -> Iterator[Problem]:
    """Compare the full text with one that is built anew, in memory; broken metadata counts as none."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        catalog.create_schema(fresh)
        for table in ("clips", "tracks", "files"):
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                fresh.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        fresh.executemany("UPDATE files SET metadata = '{}' WHERE path = ?", [(path,) for path in broken])
        try:
            rebuild_full_text(fresh)
        except ValueError:
            yield Problem("on-screen readings", "they are not what was written", RUN_REPAIR)
            return
        for query, what in (
            ("SELECT rowid, text FROM track_words ORDER BY rowid", "on-screen words"),
            ("SELECT word, tracks FROM vocabulary ORDER BY word", "vocabulary"),
            ("SELECT word FROM vocabulary_trigrams ORDER BY word", "vocabulary's trigrams"),
            ("SELECT path, name, caption FROM about ORDER BY path", "file names and captions"),
        ):
            if difference := _difference(connection, fresh, query):
                yield Problem(f"full text of {what}", difference, RUN_REPAIR)


def _element_problems(library: Path, connection: sqlite3.Connection) -> Iterator[Problem]:
    path = named_elements(connection, library)
    if path is None:
        return
    try:
        read_elements(path, catalog.get_meta(connection).get("weights_hash"))
    except DamagedElementsError as error:
        yield Problem("scene elements", str(error).rstrip("."), f"{RUN_REPAIR}, then {FIND_AGAIN}")
    except LibraryError as error:
        yield Problem("scene elements", str(error).rstrip("."), AGAIN)
    if changed_elements(connection):
        yield Problem("scene elements", "those of the clips are not what was written", RUN_REPAIR)


def _difference(connection: sqlite3.Connection, fresh: sqlite3.Connection, query: str) -> str | None:
    try:
        found = connection.execute(query).fetchall()
    except sqlite3.DatabaseError as error:
        return f"SQLite cannot read it ({error})"
    return None if found == fresh.execute(query).fetchall() else "it is not that of the catalog's tables"
