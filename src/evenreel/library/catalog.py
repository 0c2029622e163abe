"""The catalog of a library: one SQLite file that is the truth about its clips and files.

Opened with a write-ahead log and full synchronisation: what a transaction committed survives `kill -9` and a
power cut, and readers see a consistent state while an indexer writes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from evenreel.errors import LibraryError
from evenreel.features.shards import shard_files
from evenreel.library.filesystem import is_network_filesystem
from evenreel.library.schema import lay_down
from evenreel.types import Metadata

SCHEMA_VERSION = 1
CATALOG = "catalog.sqlite"
SHARDS = "shards"

log = logging.getLogger("evenreel")


def stored_path(path: str) -> str | bytes:
    """A path as the catalog keeps it: text, or its bytes where they are not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def loaded_path(stored: str | bytes) -> str:
    """The opposite of `stored_path`."""
    return os.fsdecode(stored)


def create_schema(connection: sqlite3.Connection) -> None:
    """Lay down the tables of an empty catalog."""
    with transaction(connection):
        lay_down(connection)
        set_meta(connection, {"schema_version": str(SCHEMA_VERSION)})


def open_for_writing(library: Path, file: str = CATALOG) -> sqlite3.Connection:
    """Open or create the catalog of a library folder.

    Args:
        library: the folder.
        file: name of the catalog; a repair builds a new one under another name.

    Raises:
        LibraryError: the folder cannot be written, holds a catalog of another version or a damaged one, or its
            catalog is gone while its shards are there.
    """
    if file == CATALOG:
        _refuse_to_forget(library)
    try:
        library.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(library / file, isolation_level=None, check_same_thread=False, timeout=30)
    except (OSError, sqlite3.Error) as error:
        raise LibraryError(f"The library {library} cannot be written: {error}.") from error
    try:
        with readable(library):
            _prepare_for_writing(connection, library)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_to_forget(library: Path) -> None:
    """A new catalog beside old shards would know none of them, and have every video read again."""
    path = library / CATALOG
    if not (path.exists() and path.stat().st_size) and next(shard_files(library / SHARDS), None):
        raise LibraryError(
            f"The catalog of {library} is gone but its feature shards are there; evenreel repair --library {library} "
            "makes a new one from them."
        )


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
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        create_schema(connection)
    check_version(connection, library)


def open_for_reading(library: Path) -> sqlite3.Connection:
    """Open the catalog of an existing library without ever changing it.

    Raises:
        LibraryError: there is none, it is of another version, or it is damaged.
    """
    path = library / CATALOG
    if not path.is_file():
        raise LibraryError(
            f"There is no library at {library}; make one with: evenreel index FOLDER --library {library}."
        )
    # A folder that cannot be written cannot hold the log's shared memory; with no log left over,
    # the file alone is the whole truth.
    frozen = not os.access(library, os.W_OK) and not path.with_name(f"{CATALOG}-wal").exists()
    with readable(library):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if frozen else ''}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=30,
        )
    try:
        with readable(library):
            check_version(connection, library)
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def readable(library: Path) -> Iterator[None]:
    """What SQLite refuses inside becomes one sentence, whose cause is SQLite's error.

    Raises:
        LibraryError: the catalog is damaged, or it cannot be opened just now.
    """
    try:
        yield
    except sqlite3.Error as error:
        if is_damage(error):
            raise damaged(library, error) from error
        raise LibraryError(
            f"The catalog of {library} cannot be opened: {error}; run the same command again."
        ) from error


def is_damage(error: BaseException | None) -> bool:
    """Whether the data are to blame; a lock, a full disk, a permission or an I/O error says nothing about them."""
    if isinstance(error, sqlite3.OperationalError):  # SQLite's own reasons: the schema is not what it should be
        return str(error).startswith(("no such table", "no such column", "vtable constructor failed", "malformed JSON"))
    return isinstance(error, sqlite3.DatabaseError)


@contextlib.contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Reads inside see the catalog at one moment."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # SQLite ends it by itself after some errors
            connection.execute("ROLLBACK")


def damaged(library: Path, error: Exception) -> LibraryError:
    """The sentence for a catalog that SQLite cannot read."""
    return LibraryError(
        f"The catalog of {library} is damaged ({error}); evenreel repair --library {library} rebuilds it "
        "from the feature shards."
    )


def check_version(connection: sqlite3.Connection, library: Path) -> None:
    """Refuse a catalog of another version before anything is read from it."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "meta" not in tables:
        raise sqlite3.DatabaseError("it has no table 'meta'")
    version = get_meta(connection).get("schema_version", "")
    if version == str(SCHEMA_VERSION):
        return
    if version.isdigit() and int(version) > SCHEMA_VERSION:
        way = "update evenreel to read it"
    else:
        way = "index its folders into a new library (nothing in this one was changed)"
    raise LibraryError(
        f"The library {library} has format {version or 'unknown'}, this evenreel reads format {SCHEMA_VERSION}; {way}."
    )


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the block or nothing of it; on disk when the block has ended."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite has ended it by itself where the disk was full
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def get_meta(connection: sqlite3.Connection) -> dict[str, str]:
    """Everything in the table `meta`."""
    return dict(connection.execute("SELECT key, value FROM meta").fetchall())


def set_meta(connection: sqlite3.Connection, values: Mapping[str, str]) -> None:
    """Set some entries of the table `meta`."""
    connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", values.items())


def metadata_keys(connection: sqlite3.Connection) -> set[str]:
    """Every key that the metadata of any indexed file has."""
    rows = connection.execute("SELECT DISTINCT entry.key FROM files, json_each(files.metadata) AS entry")
    return {key for (key,) in rows}


def has_elements(connection: sqlite3.Connection) -> bool:
    """Whether the library has a dictionary of scene elements; a catalog of before has no table for them either."""
    return connection.execute("SELECT 1 FROM meta WHERE key = 'elements'").fetchone() is not None


def dump_metadata(metadata: Metadata) -> str:
    """Metadata as canonical JSON, so that equal metadata is equal text."""
    return json.dumps(metadata, sort_keys=True, ensure_ascii=False)


def load_metadata(stored: str) -> Metadata:
    """The opposite of `dump_metadata`."""
    loaded: Metadata = json.loads(stored)
    return loaded


def delete_clips(connection: sqlite3.Connection, clip_ids: Iterable[str]) -> None:
    """Delete clips with all that hangs on them; files that pointed to them must be gone already."""
    from evenreel.library.fulltext import remove_clip_text

    for clip_id in clip_ids:
        remove_clip_text(connection, clip_id)
        connection.execute("DELETE FROM null_scores WHERE clip_id = ?", (clip_id,))
        connection.execute("DELETE FROM clips WHERE clip_id = ?", (clip_id,))
