"""The catalog of a library: one SQLite file that is the truth about its clips and files; and its folder.

Opened with a write-ahead log and full synchronisation: what a transaction committed survives `kill -9` and a
power cut, and readers see a consistent state while an indexer writes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from evenreel.encoders.loading import BUILTIN
from evenreel.errors import LibraryError, NotFoundError
from evenreel.features.pool import writer_lock
from evenreel.features.shards import shard_files
from evenreel.files import TEMPORARY_SUFFIX, printable, replacing
from evenreel.language.folding import FOLDING
from evenreel.types import Metadata
from evenreel.wording import count

SCHEMA_VERSION = 8

CATALOG = "catalog.sqlite"

NO_ROOM = ("database or disk is full", "disk I/O error", "unable to open database")
"""Beginnings of SQLite's messages of a full disk, where the memory that readers share is to be made."""
PASSING = (
    *("database is locked", "database table is locked", "database schema is locked", "database schema has changed"),
    *("locking protocol", "attempt to write a readonly database", "interrupted", "query aborted"),
    *("callback requested query abort", "access permission denied", "large file support is disabled", *NO_ROOM),
)
"""Beginnings of those about a lock, a disk or a permission."""
JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
SHARED_MEMORY_BYTES = 32_768  # that readers of a write-ahead log share
SHARDS, STILLS, MODELS = "shards", "stills", "models"
MAKING = "making"
"""Entry of `meta`: the model whose vectors will take the place of the library's own, as JSON: folder -> its name."""
SNAPSHOT_MARKER = "snapshot.json"  # name of the file that says which published snapshot a folder was copied from
BROKEN = ".broken"  # ending of the name of a file that was put aside
RENDERED_PX = ((320, 240), (160, 120))
"""Width and height of the scenes of `evenreel demo` and `planted`; hardly any camera makes such."""
_NUMBERS = ("dimension", "vectors_end", "vectors_generation", "changes", "schema_version")
"""Ends of the names of entries of `meta` that are whole numbers."""
_JSON = (MAKING, "ignored")

LATER = ("meaning_rows", "meaning_null_scores")
"""Tables that libraries of this format may lack until they are next written."""

_WHOLE = re.compile("[0-9]{1,18}")
_CREATE = re.compile("^CREATE ((?:VIRTUAL )?TABLE|INDEX) ")
_COMMENT = re.compile("--[^\n]*")
_MODEL = re.compile("[0-9a-f]{16}")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)

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
    return os.fsdecode(stored)


# Opening -------------------------------------------------------------------------------------------------------------


def open_for_writing(library: Path) -> sqlite3.Connection:
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
            if is_network := is_network_filesystem(library):
                remedy = "keep to one machine at a time, or put the library on a local disk (--library)"
                where = f"the library {library} is on a network file system, where a write-ahead log is unsafe"
                log.warning("%s: a rollback journal is used; %s", where, remedy)
            connection.execute(f"PRAGMA journal_mode = {'TRUNCATE' if is_network else 'WAL'}")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")  # for `evenreel.library.people`
            check_version(connection, library)
            lay_down(connection, LATER)
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(library: Path) -> sqlite3.Connection:
    """Open the catalog of an existing library without ever changing it."""
    path = library / CATALOG
    if not path.is_file():
        remedy = f"make one with: evenreel index FOLDER --library {library_of(library)}"
        raise LibraryError(f"There is no library at {library}; {remedy}.")
    # A folder that cannot be written, and a full disk, cannot hold the log's shared memory; with no log left over,
    # the file alone is the whole truth.
    is_whole = True
    with readable(library):
        with contextlib.suppress(FileNotFoundError):  # whoever wrote may close it at any moment
            is_whole = not path.with_name(f"{CATALOG}-wal").stat().st_size
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
def readable(library: Path | None) -> Iterator[None]:
    """Turn errors of SQLite within the `with` into a `LibraryError` in one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        if is_damage(error):
            raise damaged(library, error) from error
        of = f" of {library}" if library else ""
        raise LibraryError(f"The catalog{of} cannot be read: {_why(error, library)}.") from error


@contextlib.contextmanager
def reading(connection: sqlite3.Connection, library: Path | None) -> Iterator[None]:
    """The same for an open catalog, where values that it never could hold are damage too."""
    try:
        with readable(library):
            yield
    except (ValueError, TypeError, LookupError, StopIteration, ArithmeticError) as error:
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
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    held = (table for table in tables() if table in there or table not in LATER)
    found += [f"table {table} holds a value of a wrong kind" for table in held if not kinds_hold(connection, table)]
    return found[:most]


def kinds_hold(connection: sqlite3.Connection, table: str) -> bool:
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
    """Return whether an error is due to damaged data: our statements are right where the schema is.

    Told by its message: text that cannot be decoded has no code, and nothing has one before Python 3.11.
    """
    if isinstance(error, sqlite3.OperationalError):
        return not str(error).startswith(PASSING)
    return isinstance(error, sqlite3.DatabaseError)


def damaged(library: Path | None, error: Exception) -> LibraryError:
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
    number = int(version) if isinstance(version, str) and _WHOLE.fullmatch(version) else None
    if number is None:
        raise sqlite3.DatabaseError("its format is not what was written")
    has = f"The library {library} has format {version}, this evenreel reads format {SCHEMA_VERSION}"
    if number > SCHEMA_VERSION:
        raise LibraryError(f"{has}; update evenreel to read it.")
    if number < SCHEMA_VERSION:
        raise LibraryError(
            f"{has}; index its folders anew into another folder (evenreel index FOLDER --library NEW), and copy "
            "personal.jsonl there to keep favourites, notes and saved searches: the next index takes it in."
        )


# Transactions and settings -------------------------------------------------------------------------------------------


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
    """Commit all changes of the `with` durably, or none; a change counts up an entry of `meta`, which readers watch."""
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
    found: dict[str, str] = dict(connection.execute("SELECT key, value FROM meta"))
    for name, value in found.items():
        if not is_entry(name, value):
            raise sqlite3.DatabaseError(f"its entry {name!r} is not what was written")
    return found


def is_entry(name: object, value: object) -> bool:
    if not (isinstance(name, str) and isinstance(value, str)) or (
        name.endswith(_NUMBERS) and not _WHOLE.fullmatch(value)
    ):
        return False
    try:
        return name not in _JSON or isinstance(json.loads(value), (dict, list))
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
    rows = connection.execute("SELECT DISTINCT entry.key FROM files, json_each(files.metadata) AS entry")
    return {key for (key,) in rows}


def dump_metadata(metadata: Metadata) -> str:
    return json.dumps(metadata, sort_keys=True, ensure_ascii=False)


def load_metadata(stored: str) -> Metadata:
    loaded: Metadata = json.loads(stored)
    return loaded


# Indexed folders, and what is said of clips --------------------------------------------------------------------------


def roots(connection: sqlite3.Connection, *, with_files: bool = False) -> list[str]:
    """The folders of the library; of one whose first run failed no file may be known."""
    some = "WHERE path IN (SELECT root FROM files)" if with_files else ""
    return [loaded_path(stored) for (stored,) in connection.execute(f"SELECT path FROM roots {some}")]


def root_of(path: str, known: Sequence[str]) -> str:
    """Return the innermost indexed folder that holds a file; its own folder where none does."""
    holding = [root for root in known if path.startswith(root.rstrip(os.sep) + os.sep)]
    return max(holding, key=len, default=os.path.dirname(path))


def folder_of(path: str, known: Sequence[str]) -> str:
    """Return the folder of a file for people: relative to the indexed folder, '' at its top."""
    return printable(os.path.dirname(path)[len(root_of(path, known)) :].strip(os.sep))


def no_clip(clip_id: str) -> NotFoundError:
    """Make the error for an id, or a path, that no clip has; of a long one the end is shown, with the file's name."""
    shown = clip_id if len(clip_id) <= 80 else f"…{clip_id[-80:]}"
    remedy = "" if re.fullmatch("[0-9a-f]{32}", clip_id) else "; give the name or path of its video"
    return NotFoundError(f"The library has no clip {printable(shown)!r}{remedy}.")


def unknown_to_builtin(connection: sqlite3.Connection, meta: Mapping[str, str]) -> str | None:
    """Return a sentence where a library of `builtin` holds more than the rendered scenes that alone it has seen."""
    if meta.get("model") != BUILTIN:
        return None
    rendered = " OR ".join("(width = ? AND height = ?)" for _ in RENDERED_PX)
    sizes = [side for size in RENDERED_PX for side in size]
    (number,) = connection.execute(f"SELECT count(*) FROM clips WHERE NOT ({rendered})", sizes).fetchone()
    if not number:
        return None
    have = "is no rendered scene" if number == 1 else "are no rendered scenes"
    return (
        f"The model builtin knows only the scenes that evenreel demo renders, and {count(number, 'clip')} here {have}: "
        "what is found there by what is seen is chance. Exchange it with evenreel reindex --model default "
        "(docs/encoders.md names others)."
    )


# The tables, laid down from `schema.sql` -----------------------------------------------------------------------------

FULL_TEXT = (
    *("track_words", "track_vocabulary", "track_blocks", "said_words", "said_vocabulary", "said_blocks"),
    *("about", "about_vocabulary", "about_blocks"),
)
"""Word indexes over other tables (`evenreel.library.store.fulltext`)."""


def create_schema(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        lay_down(connection)
        set_meta(connection, {"schema_version": str(SCHEMA_VERSION), "folding": FOLDING})


def lay_down(connection: sqlite3.Connection, names: Sequence[str] = ()) -> None:
    """Create every table and index that is missing, or some tables: `executescript` would end a transaction."""
    for statement in _statements():
        if not names or any(f"TABLE {name} " in statement for name in names):
            connection.execute(_CREATE.sub(r"CREATE \1 IF NOT EXISTS ", statement))


@cache
def _statements() -> tuple[str, ...]:
    script = resources.files("evenreel.library.store").joinpath("schema.sql").read_text(encoding="utf-8")
    return tuple(filter(None, map(str.strip, _COMMENT.sub("", script).split(";"))))


@cache
def tables() -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the names and types of the columns of every ordinary table; word indexes that FTS5 keeps are none."""
    names = [found[1] for one in _statements() if (found := re.match(r"CREATE TABLE (\w+)", one))]
    with _empty() as empty:
        return {
            name: tuple(empty.execute("SELECT name, type FROM pragma_table_info(?)", (name,)).fetchall())
            for name in names
        }


def differences(connection: sqlite3.Connection) -> list[str]:
    """Return the tables and indexes that differ from the schema; comments and spaces in definitions do not count."""
    with _empty() as empty:
        wanted, found = _definitions(empty), _definitions(connection)
    wanted = {name: made for name, made in wanted.items() if name in found or made[1] not in LATER}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def _definitions(connection: sqlite3.Connection) -> dict[str, tuple[str, str, list[str]]]:
    rows = connection.execute("SELECT name, type, tbl_name, sql FROM main.sqlite_master").fetchall()
    return {name: (kind, table, _COMMENT.sub(" ", sql or "").split()) for name, kind, table, sql in rows}


@contextlib.contextmanager
def _empty() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        lay_down(connection)
        yield connection


# The folder: its lock, its file system, and what is published --------------------------------------------------------

NETWORK_FILESYSTEMS = frozenset(
    ("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "afpfs", "9p", "ncpfs", "ceph", "lustre", "gpfs", "beegfs")
    + ("glusterfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone")
)


def library_lock(library: Path) -> AbstractContextManager[None]:
    refuse_published(library)
    return writer_lock(library, LibraryError, "use another --library")


def is_network_filesystem(path: Path) -> bool:
    """Return whether a path is on a file system where SQLite's write-ahead log and locks are not safe."""
    import psutil

    place = str(path.absolute())
    mounts = [
        (len(part.mountpoint), part.fstype.lower())
        for part in psutil.disk_partitions(all=True)
        if place == part.mountpoint or place.startswith(part.mountpoint.rstrip("/") + "/")
    ]
    return max(mounts, default=(0, ""))[1] in NETWORK_FILESYSTEMS


def free_name(path: Path) -> Path:
    """Return the first name beside a path, with `BROKEN` and a number, that is not taken."""
    number = 1
    while (name := path.with_name(f"{path.name}{BROKEN}-{number}")).exists():
        number += 1
    return name


def remote_url(given: str | Path) -> str | None:
    """Return the URL that a text or a path names, such as `s3://bucket/prefix`; None for a path on this machine.

    A URL that was taken for a path has lost one of its slashes.

    >>> remote_url(Path("s3://bucket/films")), remote_url("films"), remote_url("C:/films")
    ('s3://bucket/films', None, None)
    """
    text = given.as_posix() if isinstance(given, Path) else str(given)
    found = _URL.fullmatch(text)
    return f"{found[1].lower()}://{found[2]}" if found else None


def is_published(place: str | Path) -> bool:
    """Return whether a place holds published snapshots: a URL, or a folder with a pointer to one and no catalog."""
    if remote_url(place) is not None:
        return True
    folder = Path(place)
    try:
        return (folder / "current.json").is_file() and not (folder / CATALOG).exists()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise LibraryError(f"{folder} cannot be opened ({why}); name another --library.") from error


def refuse_published(library: Path) -> None:
    if is_published(library) or (library / SNAPSHOT_MARKER).exists():
        shown = "The library" if remote_url(library) else f"The library {library}"
        remedy = "change the library that it was made of, and publish that again"
        raise LibraryError(f"{shown} is a published snapshot, which is only read; {remedy}.")


# The vectors of a model in the making (`evenreel.library.index.reindex`) ---------------------------------------------
#
# They lie in a library of its own below the folder `models`: the same files and clips, without words on screen.


class Making(NamedTuple):
    folder: str  # below `models`: the beginning of the digest of its weights
    name: str


def making_of(meta: Mapping[str, str]) -> Making | None:
    found: dict[str, str] = json.loads(meta.get(MAKING, "{}"))
    return next((Making(*one) for one in found.items() if _MODEL.fullmatch(one[0])), None)


def place_of(library: Path, weights_hash: str) -> Path:
    return library / MODELS / weights_hash[:16]


def library_of(place: Path) -> Path:
    """Return the library that a folder belongs to: itself, or the one whose `models` it lies in."""
    return place.parent.parent if place.parent.name == MODELS and _MODEL.fullmatch(place.name) else place


def clear_unnamed(library: Path, meta: Mapping[str, str]) -> None:
    """Delete the vectors that the catalog names no longer; of a link only the link."""
    making = making_of(meta)
    for place in (library / MODELS).glob("*"):
        if not _MODEL.fullmatch(place.name) or (making and making.folder == place.name):
            continue
        if place.is_symlink():
            place.unlink()
        elif place.is_dir():
            shutil.rmtree(place, ignore_errors=True)  # a reader that closes a catalog takes its -wal and -shm away
    with contextlib.suppress(OSError):  # others are in it, or there is none
        (library / MODELS).rmdir()


def other_model(library: Path, made_with: str, offered: str) -> str:
    return (
        f"The library {library} was made with the model {made_with}, and {offered} has other weights; vectors of two "
        "models cannot be compared: leave --model and --precision out, exchange it by evenreel reindex, or use another "
        "--library."
    )


def other_sounds(library: Path, made_with: str, offered: str) -> str:
    return (
        f"The library {library} has sounds by {made_with}, and {offered} has other weights: evenreel index FOLDER "
        f"--set sound={offered} --library {library} encodes them anew."
    )
