"""Checks of a library: finds what is damaged and names the fix (`evenreel.library.repair`)."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evenreel.errors import LibraryError
from evenreel.features.shards import (
    DamagedShardError,
    NewerShardError,
    Shard,
    is_clip_id,
    read_shard,
    shard_files,
    shard_path,
)
from evenreel.library.index.exchange import named_shard, unfinished_exchange
from evenreel.library.people.damage import trouble_with_people
from evenreel.library.people.store import FILE as PEOPLE
from evenreel.library.personal.file import personal_problems
from evenreel.library.store import catalog, schema, seals
from evenreel.library.store.catalog import SHARDS, STILLS
from evenreel.library.store.filesystem import library_lock, refuse_published
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.kept import FILE, UnreadableCopyError, changes_of, read_copy, state_of
from evenreel.library.store.kept_stills import known_clips, trouble_with
from evenreel.library.store.model_folders import SOUNDS, models_of, places, unnamed_folders
from evenreel.library.store.rows import rows_of, stored_rows
from evenreel.library.store.salvage import salvage
from evenreel.library.store.schema import FULL_TEXT
from evenreel.library.store.vectors import ExactVectors
from evenreel.library.store.writer import open_vectors
from evenreel.wording import printable

SET_AGAIN = "run: evenreel index FOLDER (it reads the file again)"
RUN_REPAIR = "run: evenreel repair"
AGAIN = "check the disk and the permissions, then run: evenreel verify"
UPDATE = "update evenreel"

NUMBERED_AT_WILL = ("vocabulary_trigrams", "said_trigrams", "name_trigrams")
"""Word indexes whose row numbers say nothing; those of the others are the rows that they are made of."""


@dataclass(frozen=True)
class LibraryProblem:
    """One problem of a library: where it is, what it is, and how to fix it."""

    where: str
    what: str
    remedy: str


def verify(library: Path) -> list[LibraryProblem]:
    """Check everything a library holds: database, row checksums, shard checksums, vectors, full text.

    Raises:
        LibraryError: there is no library, it is of another version, it cannot be opened just now, or an indexer is
            writing it.
    """
    refuse_published(library)
    if not (library / catalog.CATALOG).is_file():
        if next(shard_files(library / SHARDS), None) is None:
            raise LibraryError(f"There is no library at {library}.")
        gone = LibraryProblem(catalog.CATALOG, "it is gone, its feature shards are there", RUN_REPAIR)
        return [gone, *_problems_of_models(library), *_personal_problems(library)]
    # Shards and catalog are two things: beside a writer they could only be compared with excuses.
    with library_lock(library) if os.access(library, os.W_OK) else nullcontext():
        return [*_all_problems(library), *_problems_of_models(library), *_personal_problems(library)]


def _personal_problems(library: Path) -> Iterator[LibraryProblem]:
    """What is wrong with the files of a person's favourites, notes and saved searches."""
    for name, what in personal_problems(library):
        yield LibraryProblem(name, what, RUN_REPAIR)


def _problems_of_models(library: Path) -> Iterator[LibraryProblem]:
    """What is wrong with the vectors beside the library's own."""
    meta = _settings(library)
    for place, name in places(library, meta).items():
        where = f"model {name}"
        if (place / catalog.CATALOG).is_file():
            for problem in _all_problems(place):
                yield replace(problem, where=f"{where}: {problem.where}")
        elif next(shard_files(place / SHARDS), None) is not None:
            yield LibraryProblem(f"{where}: {catalog.CATALOG}", "it is gone, its feature shards are there", RUN_REPAIR)
        elif place.name in models_of(meta, SOUNDS):  # one in the making may not have begun
            yield LibraryProblem(where, "its vectors are gone", SET_AGAIN)
    if unfinished_exchange(library, meta) is None:  # else those that it has made its shards of are left over
        for place in unnamed_folders(library, meta):
            what = "the catalog does not name these vectors"
            yield LibraryProblem(f"folder models/{place.name}", what, f"{RUN_REPAIR} (sounds are taken up again)")


def _settings(library: Path) -> dict[str, str]:
    """Entries of a catalog; what is left of them where it is gone or damaged."""
    with suppress(LibraryError), closing(catalog.open_for_reading(library)) as connection, catalog.readable(library):
        return catalog.get_meta(connection)
    with suppress(LibraryError, sqlite3.Error):
        return salvage(library, library / catalog.CATALOG).settings
    return {}


def _all_problems(library: Path) -> list[LibraryProblem]:
    """What is wrong with a library, or with the vectors of one of the models beside its own."""
    found: list[LibraryProblem] = []
    try:
        with (
            closing(catalog.open_for_reading(library)) as connection,
            catalog.readable(library),
            seals.snapshot(connection),
        ):
            found.extend(_catalog_problems(library, connection))
            found.extend(_problems(library, connection))
    except LibraryError as error:
        if not found and not catalog.is_damage(error.__cause__):
            raise
        found.append(LibraryProblem(catalog.CATALOG, f"it cannot be read to its end ({error.__cause__})", RUN_REPAIR))
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        if not found:  # a sound catalog holds nothing that we could not read: the error is ours
            raise
        found.append(LibraryProblem(catalog.CATALOG, f"it holds what it never could ({error})", RUN_REPAIR))
    return found


def unreadable_parts(library: Path, connection: sqlite3.Connection) -> list[str]:
    """List the faults of a catalog file (header, pages, schema) that require a new one.

    The full text is left out, and tables that are not there: these are made anew in any case.
    """
    with (library / catalog.CATALOG).open("rb") as file:
        header = file.read(20)
    there = _names(connection)
    return [
        *(["its header does not say how it is to be written"] if header[18] not in {1, 2} else []),
        *(
            text
            for (text,) in connection.execute("PRAGMA integrity_check(5)")
            if text != "ok" and "FTS5 table" not in text
        ),
        *(f"its table {name} is not what was laid down" for name in schema.differences(connection) if name in there),
    ]


def broken_metadata(connection: sqlite3.Connection) -> list[str | bytes]:
    """List the files, as the catalog names them, whose metadata is no JSON object."""
    rows = connection.execute("SELECT path, metadata FROM files").fetchall()
    return [path for path, metadata in rows if not _is_object(metadata)]


def foreign(shard: Shard, meta: Mapping[str, str]) -> bool:
    """Check whether a shard was made with another model or sampling rule than the library."""
    other_model = shard.weights_hash is not None and shard.weights_hash != meta.get("weights_hash")
    return other_model or shard.rule != meta.get("rule")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _catalog_problems(library: Path, connection: sqlite3.Connection) -> Iterator[LibraryProblem]:
    """The catalog by itself: the file, what its seals say, and the note of its last state."""
    for what in (*unreadable_parts(library, connection), *_missing_tables(connection)):
        yield LibraryProblem(catalog.CATALOG, what, RUN_REPAIR)
    parts: dict[str, list[str]] = {}
    for scope, part in seals.broken(connection):
        parts.setdefault(scope, []).append(part)
    for scope, names in parts.items():
        yield LibraryProblem(f"table {scope} of {catalog.CATALOG}", _changed(names), RUN_REPAIR)
    yield from _copy_problems(library, connection)


def _missing_tables(connection: sqlite3.Connection) -> list[str]:
    there = _names(connection)
    return [f"its table {name} is gone" for name in schema.differences(connection) if name not in there]


def _names(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM main.sqlite_master")}


def _changed(parts: list[str]) -> str:
    """What is not what was written, of a table that is sealed in parts or as a whole."""
    named = ", ".join(repr(printable(part)) for part in parts[:3] if part)
    of = f" ({named}{', ...' if len(parts) > 3 else ''})" if named else ""
    return f"its rows are not what was written{of}"


def _copy_problems(library: Path, connection: sqlite3.Connection) -> Iterator[LibraryProblem]:
    """The second copy by itself, and whether the catalog is as the last run left it."""
    try:
        copy = read_copy(library)
    except LibraryError as error:
        remedy = f"check the permissions, or {RUN_REPAIR}" if isinstance(error, UnreadableCopyError) else UPDATE
        yield LibraryProblem(FILE, str(error).rstrip("."), remedy)
        return
    if copy is None:
        return
    if copy.lost:
        yield LibraryProblem(FILE, f"{copy.lost} of its lines are not what was written", RUN_REPAIR)
    changes = changes_of(connection)
    if changes < copy.state.changes or (changes == copy.state.changes and copy.state != state_of(connection)):
        yield LibraryProblem(catalog.CATALOG, "it is not as the last run left it", RUN_REPAIR)


def _problems(library: Path, connection: sqlite3.Connection) -> Iterator[LibraryProblem]:
    """The catalog beside the shards, and all that is derived from both."""
    yield from _shard_problems(library, connection)
    broken = broken_metadata(connection)
    for path in broken:
        yield LibraryProblem(
            f"file {printable(catalog.loaded_path(path))}",
            "its metadata is not what was written",
            f"{RUN_REPAIR}, then {SET_AGAIN}",
        )
    yield from _text_problems(connection, broken)
    yield from _still_problems(library, connection)
    if trouble := trouble_with_people(library):
        yield LibraryProblem(PEOPLE, *trouble)


def _shard_problems(library: Path, connection: sqlite3.Connection) -> Iterator[LibraryProblem]:
    meta, vectors = catalog.get_meta(connection), _matrix(library, connection)
    known, waiting = set(), unfinished_exchange(library, meta)
    if waiting is not None:
        what = "its exchange was broken off before all of its shards were in their place"
        remedy = f"{RUN_REPAIR} (evenreel index finishes it too)"
        yield LibraryProblem(f"model {meta.get('encoder_id')}", what, remedy)
    if not (coded := _has_codes(vectors, meta)):
        what = "they are missing, short or of another version, so that searches are right but slower"
        yield LibraryProblem("codes of the vectors", what, f"{RUN_REPAIR} (evenreel index makes them too)")
    rows = connection.execute(
        "SELECT clip_id, shard_hash, first_row, count FROM clips LEFT JOIN vector_rows USING (clip_id)"
    )
    for clip_id, digest, first, count in rows:
        if not is_clip_id(clip_id):
            yield LibraryProblem(f"clip {printable(str(clip_id))[:80]}", "this is no clip's id", RUN_REPAIR)
            continue
        known.add(shard_path(library / SHARDS, clip_id))
        try:
            shard = read_shard(named_shard(library, waiting, clip_id), digest)
        except LibraryError as error:
            yield LibraryProblem(f"clip {clip_id}", str(error), _remedy(error))
            continue
        if foreign(shard, meta):
            what = "its shard is of another model or sampling rule than the library"
            yield LibraryProblem(f"clip {clip_id}", what, f"{RUN_REPAIR}, then {SET_AGAIN}")
        if rows_of(shard, digest) != stored_rows(connection, clip_id):
            yield LibraryProblem(f"clip {clip_id}", "its rows in the catalog are not those of its shard", RUN_REPAIR)
        if not _vectors_agree(vectors, first, count, shard):
            yield LibraryProblem(
                f"clip {clip_id}", "its rows of the vector matrix are not those of its shard", RUN_REPAIR
            )
        elif coded and first is not None and vectors is not None and not vectors.codes_agree(first, count):
            yield LibraryProblem(f"clip {clip_id}", "its codes are not those of its vectors", RUN_REPAIR)
    for path in shard_files(library / SHARDS):
        if path not in known:
            yield LibraryProblem(path.name, "no clip of the catalog has this shard", RUN_REPAIR)


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


def _has_codes(vectors: ExactVectors | None, meta: Mapping[str, str]) -> bool:
    """Whether there are codes of all rows of the matrix."""
    try:
        return vectors is None or vectors.has_codes(int(meta.get("vectors_end", "0")))
    except (OSError, ValueError):
        return False


def _text_problems(connection: sqlite3.Connection, broken: list[str | bytes]) -> Iterator[LibraryProblem]:
    """Check the full text of a copy by itself, and compare it with one that is built anew; broken metadata is none."""
    with closing(sqlite3.connect("", isolation_level=None)) as fresh:  # on disk, and gone in the end
        connection.backup(fresh)
        for name in FULL_TEXT:
            if difference := _inner_difference(fresh, name):
                yield LibraryProblem(f"full text {name}", difference, RUN_REPAIR)
        fresh.executemany("UPDATE files SET metadata = '{}' WHERE path = ?", [(path,) for path in broken])
        try:
            rebuild_full_text(fresh)
        except ValueError:
            yield LibraryProblem("on-screen readings", "they are not what was written", RUN_REPAIR)
            return
        for name in FULL_TEXT:
            if difference := _difference(connection, fresh, name):
                yield LibraryProblem(f"full text {name}", difference, RUN_REPAIR)


def _inner_difference(fresh: sqlite3.Connection, name: str) -> str | None:
    """What FTS5's own check of a word index against its own content says."""
    if name in schema.tables():
        return None
    try:
        fresh.execute(f"INSERT INTO {name} ({name}) VALUES ('integrity-check')")
    except sqlite3.DatabaseError as error:
        if not catalog.is_damage(error):
            raise
        return f"SQLite cannot read it ({error})"
    return None


def _still_problems(library: Path, connection: sqlite3.Connection) -> Iterator[LibraryProblem]:
    known = known_clips(connection)
    for path in shard_files(library / STILLS):
        try:
            if what := trouble_with(path, known):
                yield LibraryProblem(f"stills of {path.stem}", what, RUN_REPAIR)
        except OSError as error:
            yield LibraryProblem(f"stills of {path.stem}", f"they cannot be read ({error.strerror or error})", AGAIN)


def _difference(connection: sqlite3.Connection, fresh: sqlite3.Connection, name: str) -> str | None:
    columns = "*" if name in schema.tables() or name in NUMBERED_AT_WILL else "rowid, *"
    try:
        found = sorted(connection.execute(f"SELECT {columns} FROM {name}"), key=repr)
    except sqlite3.DatabaseError as error:
        return f"SQLite cannot read it ({error})"
    wanted = sorted(fresh.execute(f"SELECT {columns} FROM {name}"), key=repr)
    return None if found == wanted else "it is not that of the catalog's tables"
