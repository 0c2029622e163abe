"""The file of a library's people: faces with their vectors and pictures, who they are, and what is still to be erased.

It lies beside the catalog and not in it: a library without people has no such file, no second copy and no snapshot
holds any of it, and forgetting is deleting from one file. What is deleted there is overwritten (`secure_delete`); there
is no write-ahead log, whose pages would outlive it, and no temporary file.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from evenreel.errors import LibraryError, UsageError
from evenreel.files import FileState, file_state, sync_folder

FILE = "people.sqlite"
LEAVING = f"{FILE}.forgotten"
"""Name of the file from when it is to be erased as a whole until it is."""

FORMAT = 1

EVERYONE = "ALL"
"""Word that stands for all people, and is nobody's name."""

HOW_TO_FIND = "find them with: evenreel index FOLDER --people --face-models MODELS"

_WAIT_S = 30
_CHUNK = 2**20
_ENTRY = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # Clips in which faces were looked for; `problem` is a sentence where that failed.
    "CREATE TABLE looked (clip_id TEXT PRIMARY KEY, problem TEXT) WITHOUT ROWID",
    # AUTOINCREMENT: a number that somebody noted never comes to mean another person.
    "CREATE TABLE people (person_id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT)",
    "CREATE TABLE faces (face_id INTEGER PRIMARY KEY AUTOINCREMENT, clip_id TEXT NOT NULL, time_s REAL NOT NULL,"
    " box TEXT NOT NULL, score REAL NOT NULL, vector BLOB NOT NULL, crop BLOB NOT NULL,"
    " checksum INTEGER NOT NULL, person_id INTEGER REFERENCES people ON DELETE CASCADE)",
    "CREATE INDEX faces_by_person ON faces (person_id, clip_id)",
    "CREATE INDEX faces_by_clip ON faces (clip_id)",
    # A face that a person was told not to be.
    "CREATE TABLE refused (face_id INTEGER NOT NULL REFERENCES faces ON DELETE CASCADE,"
    " person_id INTEGER NOT NULL REFERENCES people ON DELETE CASCADE, PRIMARY KEY (face_id, person_id)) WITHOUT ROWID",
)


def has_people(library: Path) -> bool:
    """Return whether people were looked for in a library; erases what a forgetting that was killed has left."""
    finish_erasing(library)
    return (library / FILE).exists()


def people_state(library: Path | None) -> FileState | None:
    """Return what differs wherever the people of a library were changed: inode, size, time; None without them."""
    return None if library is None else file_state(library / FILE)


@contextlib.contextmanager
def people_store(library: Path, *, create: bool = False) -> Iterator[sqlite3.Connection]:
    """Open the people of a library for a `with` block; a forgetting that was killed is finished first."""
    path = library / FILE
    if not has_people(library):
        if not create:
            raise UsageError(f"No people were looked for in {library}; {HOW_TO_FIND}.")
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # faces are nobody else's business
    readonly = "?mode=ro&immutable=1" if not os.access(library, os.W_OK) else ""
    try:
        uri = f"{path.absolute().as_uri()}{readonly}"
        with contextlib.closing(
            sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_WAIT_S)
        ) as connection:
            _prepare(connection, library)
            if not readonly:
                with contextlib.suppress(sqlite3.OperationalError):  # another process reads; the next command does it
                    finish_forgetting(connection)
            yield connection
    except (sqlite3.Error, ValueError) as error:
        raise LibraryError(
            f"The people of {library} cannot be read ({error}); run the same command again, or where their file is "
            f"damaged, evenreel people --forget ALL --library {library} deletes it, and they can be looked for anew."
        ) from error


def _prepare(connection: sqlite3.Connection, library: Path) -> None:
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")  # VACUUM writes what is left to a file elsewhere otherwise
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        with transaction(connection):
            for statement in _SCHEMA:
                connection.execute(statement)
            set_entry(connection, "format", str(FORMAT))
    if int(entry(connection, "format") or 0) > FORMAT:
        raise LibraryError(f"The people of {library} are of a later version; update evenreel to read them.")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all changes of the `with` or none; they are on disk when it has ended."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def entry(connection: sqlite3.Connection, key: str) -> str | None:
    """Read an entry of the table `meta`; None where there is none."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def set_entry(connection: sqlite3.Connection, key: str, value: str | None) -> None:
    """Set an entry of the table `meta`; None deletes it."""
    if value is None:
        connection.execute("DELETE FROM meta WHERE key = ?", (key,))
    else:
        connection.execute(_ENTRY, (key, value))


def face_checksum(clip_id: str, time_s: float, vector: bytes, crop: bytes) -> int:
    """Return the checksum of a face, by which `evenreel verify` tells what is not what was written."""
    return crc32(crop, crc32(vector, crc32(f"{clip_id} {time_s!r}".encode())))


def mark_forgetting(connection: sqlite3.Connection, person_ids: list[int]) -> None:
    """Note durably that people are to be forgotten, so that whoever opens the file next finishes it."""
    with transaction(connection):
        set_entry(connection, "forgetting", json.dumps(person_ids))


def finish_forgetting(connection: sqlite3.Connection) -> None:
    """Delete the people that are marked, and write the file anew without the room that they took."""
    marked = entry(connection, "forgetting")
    if marked is not None:
        with transaction(connection):
            for person_id in json.loads(marked):
                connection.execute("DELETE FROM faces WHERE person_id = ?", (person_id,))
                connection.execute("DELETE FROM people WHERE person_id = ?", (person_id,))
            set_entry(connection, "forgetting", None)
            set_entry(connection, "erase", "1")
    if entry(connection, "erase") is not None:
        connection.execute("VACUUM")
        set_entry(connection, "erase", None)


def erase_whole(library: Path) -> None:
    """Overwrite and delete the file of the people; where that is killed, the next look at it finishes."""
    try:
        if (library / FILE).exists():
            (library / FILE).replace(library / LEAVING)
            sync_folder(library)
    except OSError as error:
        raise LibraryError(f"{library / FILE} cannot be deleted ({error.strerror or error}).") from error
    finish_erasing(library)


def finish_erasing(library: Path) -> None:
    """Overwrite and delete the file that `erase_whole` has put aside, and what SQLite has left beside it."""
    leaving = library / LEAVING
    if not leaving.exists():
        return
    try:
        for path in [*(one for one in library.glob(f"{FILE}-*") if one.is_file()), leaving]:
            _overwrite(path)
            path.unlink(missing_ok=True)
        sync_folder(library)
    except OSError as error:
        raise LibraryError(f"{leaving} cannot be deleted ({error.strerror or error}); delete it.") from error


def _overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        left = path.stat().st_size
        while left > 0:
            left -= file.write(bytes(min(left, _CHUNK)))
        file.flush()
        os.fsync(file.fileno())
