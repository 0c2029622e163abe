"""The catalog of a library: one SQLite file that is the truth about its clips and files.

Opened with a write-ahead log and full synchronisation: what a transaction committed survives `kill -9` and a
power cut, and readers see a consistent state while an indexer writes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from evenreel.documents import whole_number
from evenreel.errors import EvenreelError, LibraryError
from evenreel.features.shards import shard_files
from evenreel.files import TEMPORARY_SUFFIX, replacing
from evenreel.library.store.filesystem import is_network_filesystem
from evenreel.library.store.model_folders import MAKING, library_of
from evenreel.library.store.schema import lay_down, tables
from evenreel.types import Metadata

SCHEMA_VERSION = 8
"""Version of the catalog's tables; 8 has a person's own tables, numbers of clips, vocabularies that tell what
changed, and no checksums of rows."""

CATALOG = "catalog.sqlite"
SQLITE_ERROR = 1  # Python 3.10 does not name SQLite's codes

PASSING = (
    "database is locked",
    "database table is locked",
    "database schema is locked",
    "database schema has changed",
    "locking protocol",
    "unable to open database",
    "attempt to write a readonly database",
    "database or disk is full",
    "disk I/O error",
    "interrupted",
    "query aborted",
    "callback requested query abort",
    "access permission denied",
    "large file support is disabled",
)
"""Beginnings of SQLite's messages about a lock, a disk or a permission, for errors whose code is not known."""
NO_ROOM = ("database or disk is full", "disk I/O error", "unable to open database")
"""Those of them that a full disk has, where the memory that readers share is to be made, of so many bytes."""
JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
SHARED_MEMORY_BYTES = 32_768
SHARDS = "shards"
STILLS = "stills"
NUMBERS = (
    *("dimension", "vectors_end", "vectors_generation", "changes", "personal_changes", "schema_version"),
    *("sounds_dimension", "sounds_vectors_end", "sounds_vectors_generation"),
)
"""Entries of `meta` that are whole numbers."""
LISTS = (MAKING, "ignored")
"""Entries that are JSON."""

log = logging.getLogger("evenreel")


class FrozenConnection(sqlite3.Connection):
    """Connection to a catalog that does not see what is written to it, and must be opened anew where that may be."""


def stored_path(path: str) -> str | bytes:
    """Convert a path to the form the catalog keeps: text, or its bytes where they are not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def loaded_path(stored: str | bytes) -> str:
    """Convert a path from the form of the catalog, the inverse of `stored_path`."""
    return os.fsdecode(stored)


def create_schema(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty catalog."""
    with transaction(connection):
        lay_down(connection)
        set_meta(connection, {"schema_version": str(SCHEMA_VERSION)})


def open_for_writing(library: Path) -> sqlite3.Connection:
    """Open or create the catalog of a library folder."""
    path = library / CATALOG
    if not (path.exists() and path.stat().st_size) and next(shard_files(library / SHARDS), None):
        raise LibraryError(  # a new one beside old shards would have all videos read again
            f"The catalog of {library} is gone but its feature shards are there; evenreel verify --repair --library "
            f"{library_of(library)} makes a new one from them."
        )
    return open_for_repair(library, CATALOG)


def open_for_repair(library: Path, file: str) -> sqlite3.Connection:
    """Open or create a catalog under some name, also beside shards that it does not know."""
    try:
        library.mkdir(parents=True, exist_ok=True)
        if not (place := library / file).exists() or not place.stat().st_size:
            # Under another name first: a catalog that is there has its tables, wherever a run is killed.
            for left in library.glob(f".{file}.*{TEMPORARY_SUFFIX}*"):
                left.unlink()
            with replacing(place) as new, contextlib.closing(sqlite3.connect(new, isolation_level=None)) as empty:
                create_schema(empty)
        connection = sqlite3.connect(place, isolation_level=None, check_same_thread=False, timeout=30)
    except (OSError, sqlite3.Error) as error:
        raise LibraryError(f"The library {library} cannot be written: {error}.") from error
    try:
        with readable(library):
            _prepare_for_writing(connection, library)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare_for_writing(connection: sqlite3.Connection, library: Path) -> None:
    if is_network_filesystem(library):
        log.warning(
            "the library %s is on a network file system, where a write-ahead log is unsafe: a rollback journal "
            "is used; keep to one machine at a time, or put the library on a local disk (--library)",
            library,
        )
        connection.execute("PRAGMA journal_mode = TRUNCATE")
    else:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # for `evenreel.library.people`
    check_version(connection, library)


def open_for_reading(library: Path) -> sqlite3.Connection:
    """Open the catalog of an existing library without ever changing it."""
    path = library / CATALOG
    if not path.is_file():
        raise LibraryError(
            f"There is no library at {library}; make one with: evenreel index FOLDER --library {library_of(library)}."
        )
    # A folder that cannot be written, and a full disk, cannot hold the log's shared memory; with no log left over,
    # the file alone is the whole truth.
    wal = path.with_name(f"{CATALOG}-wal")
    with readable(library):
        is_whole = not wal.exists() or not wal.stat().st_size
        if not (is_whole and not os.access(library, os.W_OK)):
            try:
                return _opened(path, "", sqlite3.Connection)
            except sqlite3.OperationalError as error:
                if not is_whole or not str(error).startswith(NO_ROOM):
                    raise
        return _opened(path, "&immutable=1", FrozenConnection)


def _opened(path: Path, option: str, kind: type[sqlite3.Connection]) -> sqlite3.Connection:
    place = f"{path.absolute().as_uri()}?mode=ro{option}"
    connection = sqlite3.connect(
        place, uri=True, isolation_level=None, check_same_thread=False, timeout=30, factory=kind
    )
    try:
        check_version(connection, path.parent)
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def readable(library: Path) -> Iterator[None]:
    """Turn errors of SQLite within the `with` into a `LibraryError` in one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        if is_damage(error):
            raise damaged(library, error) from error
        raise LibraryError(f"The catalog of {library} cannot be opened: {_why(error, library)}.") from error


@contextlib.contextmanager
def reading(connection: sqlite3.Connection, library: Path | None) -> Iterator[None]:
    """Turn errors of reading an open catalog within the `with` into a `LibraryError` in one sentence."""
    try:
        yield
    except EvenreelError:
        raise
    except sqlite3.Error as error:
        if is_damage(error):
            raise damaged(library, error) from error
        raise LibraryError(f"The catalog cannot be read: {_why(error, library)}.") from error
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        if isinstance(error, json.JSONDecodeError) or is_spoilt(connection):
            raise damaged(library, error) from error
        raise  # the error is ours


def _why(error: Exception, library: Path | None) -> str:
    """Why a catalog that is not damaged cannot be read, and what to do."""
    journal = library and library / f"{CATALOG}-journal"
    if journal and journal.is_file():
        with journal.open("rb") as file:  # one that is done with is empty, or begins with zeros
            if (head := file.read(len(JOURNAL_MAGIC))).strip(b"\0") and head != JOURNAL_MAGIC:
                return f"{journal} is no journal of SQLite; move it away"
    is_full = library is not None and shutil.disk_usage(library).free < SHARED_MEMORY_BYTES
    return "its disk is full; make room on it" if is_full else f"{error}; run the same command again"


def faults(connection: sqlite3.Connection, most: int = 5) -> list[str]:
    """List what SQLite finds wrong with a catalog, word indexes aside, and values of other kinds than were declared."""
    found = [text for (text,) in connection.execute(f"PRAGMA integrity_check({most})") if text != "ok"]
    found = [text for text in found if "FTS5 table" not in text]
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(most):
        found.append(f"row {row} of table {table} belongs to none of {parent}")
    found += [f"table {table} holds a value of a wrong kind" for table in tables() if not kinds_hold(connection, table)]
    return found[:most]


def kinds_hold(connection: sqlite3.Connection, table: str) -> bool:
    """Return whether every value of a table is of the kind that its column was declared with."""
    kinds = {"TEXT": "'text', 'blob'", "INTEGER": "'integer'", "REAL": "'real', 'integer'", "BLOB": "'blob'"}
    wrong = " OR ".join(f"typeof({name}) NOT IN ({kinds[kind]}, 'null')" for name, kind in tables()[table])
    return connection.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchone() is None


def is_spoilt(connection: sqlite3.Connection) -> bool:
    """Return whether anything in a catalog is seen to be damaged; reads all of it."""
    try:
        return bool(faults(connection, 1))
    except sqlite3.Error as error:
        return is_damage(error)


def is_damage(error: BaseException | None) -> bool:
    """Return whether an error is due to damaged data, not to a lock, a full disk, a permission or an I/O error."""
    if isinstance(error, sqlite3.OperationalError):
        # Our statements are right where the schema is: what SQLite calls an error of the statement is one of the data.
        # Text that cannot be decoded has no code, and nothing has one before Python 3.11.
        code = getattr(error, "sqlite_errorcode", None)
        return not str(error).startswith(PASSING) if code is None else code == SQLITE_ERROR
    return isinstance(error, sqlite3.DatabaseError)


def damaged(library: Path | None, error: Exception) -> LibraryError:
    """Make the error for a damaged catalog."""
    of, option = (f" of {library}", f" --library {library_of(library)}") if library else ("", "")
    return LibraryError(
        f"The catalog{of} is damaged ({error}); evenreel verify --repair{option} rebuilds it from the feature shards."
    )


def check_version(connection: sqlite3.Connection, library: Path) -> None:
    """Check the format of a catalog; another one is refused before anything else is read from it."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "meta" not in tables:
        raise sqlite3.DatabaseError("it has no table 'meta'")
    (version,) = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone() or (None,)
    number = whole_number(version) if isinstance(version, str) else None
    if number is None:
        raise sqlite3.DatabaseError("its format is not what was written")
    if number > SCHEMA_VERSION:
        raise LibraryError(
            f"The library {library} has format {version}, this evenreel reads format {SCHEMA_VERSION}; update evenreel "
            "to read it."
        )
    if number < SCHEMA_VERSION:
        raise LibraryError(
            f"The library {library} has format {version}, this evenreel reads format {SCHEMA_VERSION}; index its "
            "folders anew into another folder (evenreel index FOLDER --library NEW), and copy personal.jsonl there to "
            "keep favourites, notes and saved searches: the next index takes it in."
        )


@contextlib.contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Make all reads within the `with` see the catalog at one moment."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # SQLite ends it by itself after some errors
            connection.execute("ROLLBACK")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, counter: str = "changes") -> Iterator[None]:
    """Commit all changes of the `with` or none; they are on disk when it has ended.

    A change counts up an entry of `meta`, by which whoever keeps what it read of a catalog knows its states.
    """
    connection.execute("BEGIN IMMEDIATE")
    before = connection.total_changes
    try:
        yield
        if connection.total_changes != before:
            set_meta(connection, {counter: str(number_of(connection, counter) + 1)})
    except BaseException:
        if connection.in_transaction:  # SQLite has ended it by itself where the disk was full
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def number_of(connection: sqlite3.Connection, entry: str) -> int:
    """Read an entry of `meta` that is a whole number; 0 where there is none."""
    row = connection.execute("SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?", (entry,)).fetchone()
    return int(row[0]) if row else 0


def get_meta(connection: sqlite3.Connection) -> dict[str, str]:
    """Read the table `meta`."""
    found: dict[str, str] = dict(connection.execute("SELECT key, value FROM meta"))
    for name, value in found.items():
        if not is_entry(name, value):
            raise sqlite3.DatabaseError(f"its entry {name!r} is not what was written")
    return found


def is_entry(name: object, value: object) -> bool:
    """Return whether a key and a value can be an entry of `meta`."""
    if not (isinstance(name, str) and isinstance(value, str)) or (name in NUMBERS and whole_number(value) is None):
        return False
    try:
        return name not in LISTS or isinstance(json.loads(value), (dict, list))
    except ValueError:
        return False


def set_meta(connection: sqlite3.Connection, values: Mapping[str, str]) -> None:
    """Set entries of the table `meta`; setting one to its present value is no change."""
    connection.executemany(
        "INSERT INTO meta (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value",
        values.items(),
    )


def metadata_keys(connection: sqlite3.Connection) -> set[str]:
    """Return every key that the metadata of any indexed file has."""
    rows = connection.execute("SELECT DISTINCT entry.key FROM files, json_each(files.metadata) AS entry")
    return {key for (key,) in rows}


def dump_metadata(metadata: Metadata) -> str:
    """Encode metadata as canonical JSON, so that equal metadata is equal text."""
    return json.dumps(metadata, sort_keys=True, ensure_ascii=False)


def load_metadata(stored: str) -> Metadata:
    """Decode metadata, the inverse of `dump_metadata`."""
    loaded: Metadata = json.loads(stored)
    return loaded


def delete_clips(connection: sqlite3.Connection, clip_ids: Iterable[str]) -> None:
    """Delete clips with their rows in all tables; files that pointed to them must be gone already."""
    from evenreel.library.store.fulltext import remove_clip_text

    for clip_id in clip_ids:
        remove_clip_text(connection, clip_id)
        for nulls in ("null_scores", "sound_null_scores"):
            connection.execute(f"DELETE FROM {nulls} WHERE clip_id = ?", (clip_id,))
        connection.execute("DELETE FROM clips WHERE clip_id = ?", (clip_id,))
