"""What in a catalog is a person's own, and its one copy.

Everything else can be made again from the shards and the videos; these tables nobody else knows. The copy is a small
SQLite file, written by SQLite's backup when a run ends and after each change that a person makes, always as a whole. It
notes which state of the catalog it is of, so that two that should be equal and are not tell of damage, and a catalog
that is gone, or older than its copy, gets back what it lacks. `personal.jsonl`, where libraries before format 8 had
favourites, notes and saved searches, is taken in where it lies in the folder of a library.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from evenreel.errors import LibraryError, UsageError
from evenreel.files import TEMPORARY_SUFFIX, is_temporary, replacing
from evenreel.library.store.catalog import (
    SNAPSHOT_MARKER,
    damaged,
    free_name,
    is_damage,
    is_published,
    kinds_hold,
    library_of,
    number_of,
    open_for_writing,
    readable,
    set_meta,
    snapshot,
    stored_path,
    transaction,
)

AT_HOME = ("marks", "searches", "people")
"""Tables that a published snapshot has nothing of. A further table of a person's own is added here and to the schema;
it is copied, checked and restored with these. Its rows are told apart by what the schema says is unique of them."""

FACES = ("faces", "face_clips")
"""Tables that a published snapshot has nothing of either; they are derived, by hours of work, so that a repair keeps
them."""

OWN_TABLES = ("roots", *AT_HOME)  # tables that are copied

COPY, LOCK = "personal.sqlite", "personal.lock"
EARLIER = ("personal.jsonl", "personal.copy.jsonl")
"""Files of a person's own in libraries before format 8: the same lines twice, each behind its CRC-32."""
WAIT_S = 30.0  # for another writer

log = logging.getLogger("evenreel")

Row = dict[str, Any]


@dataclass
class Held:
    """What can be read of some tables of a catalog or of its copy."""

    rows: dict[str, list[Row]] = field(default_factory=dict)  # by table, a value by column
    damaged: set[str] = field(default_factory=set)  # tables of which rows may be lost or wrong
    changes: int | None = None  # how often the catalog had been changed; None where that cannot be read

    def is_newer(self, other: Held) -> bool:
        return self.changes is not None and (other.changes is None or self.changes > other.changes)

    def differs(self, other: Held) -> bool:
        """Whether a catalog and its copy are whole and of one state, and all the same not equal."""
        if self.changes is None or self.changes != other.changes or self.damaged or other.damaged:
            return False
        return any(self.rows[table] != other.rows[table] for table in OWN_TABLES)


def held_in(path: Path, names: Sequence[str] = OWN_TABLES) -> Held:
    """Read what is left of some tables of a file; where it is gone, or no catalog, all of them are damaged."""
    with _passing_damage():
        if path.is_file():
            place = f"{path.absolute().as_uri()}?mode=ro"
            with contextlib.closing(sqlite3.connect(place, uri=True, isolation_level=None, timeout=WAIT_S)) as found:
                return held_by(found, names)
    return Held({name: [] for name in names}, set(names))


def held_by(connection: sqlite3.Connection, names: Sequence[str] = OWN_TABLES) -> Held:
    """Read what is left of some tables of an open catalog, or of its copy."""
    held = Held()
    with snapshot(connection):
        with _passing_damage():
            if _is_sound(connection, "meta"):
                held.changes = sum(number_of(connection, counter) for counter in ("changes", "personal_changes"))
        for table in names:
            found: dict[tuple[Any, ...], Row] = {}
            held.damaged.add(table)
            for order in ("", " ORDER BY 1 DESC"):  # of a damaged one the rows before and behind what cannot be read
                with _passing_damage():
                    cursor = connection.execute(f"SELECT * FROM {table}{order}")
                    columns = [name for name, *_ in cursor.description]
                    for values in cursor:
                        found.setdefault(values, dict(zip(columns, values, strict=True)))
                    if _is_sound(connection, table) and kinds_hold(connection, table):
                        held.damaged.remove(table)
                        break
            held.rows[table] = list(found.values())
    return held


def _is_sound(connection: sqlite3.Connection, table: str) -> bool:
    return bool(connection.execute(f"PRAGMA integrity_check({table})").fetchone() == ("ok",))


@contextlib.contextmanager
def _passing_damage() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if not is_damage(error):
            raise


def best_of(catalog: Held, copy: Held) -> tuple[dict[str, list[Row]], list[str]]:
    """Choose a person's rows from a damaged catalog and its copy; also returns the tables that both may have lost of.

    What is whole and of the latest state is taken as it is, on a tie the copy's; else one adds what the other lacks.
    """
    rows, lost = {}, []
    for table in OWN_TABLES:
        whole = [held for held in (copy, catalog) if table not in held.damaged]
        first = max(whole, key=lambda held: -1 if held.changes is None else held.changes, default=copy)
        second = catalog if first is copy else copy
        rows[table] = list(first.rows[table])
        if not whole:
            lost.append(table)
        if not whole or second.changes is None or second.is_newer(first):
            rows[table] += second.rows[table]
    return rows, lost


def enter(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    """Insert rows into a table, inside the caller's transaction; one that is there already, by its key, stays."""
    for row in rows:
        values = {name: value for name, value in row.items() if name != "number"}  # only keeps the order; may be taken
        connection.execute(
            f"INSERT OR IGNORE INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
            tuple(values.values()),
        )


# The copy --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def copied(library: Path, connection: sqlite3.Connection) -> Iterator[None]:
    """Give a catalog back what it lacks of a person's own; write the copy when the `with` ends, also in an error."""
    if library_of(library) != library:
        yield
        return
    with alone(library):
        settle(library, connection)
    try:
        yield
    except BaseException:
        try:
            with alone(library):
                write_copy(library, connection)
        except Exception as error:  # what broke the block off is what is to be told
            log.info("the copy of a person's own was not written: %s", error)
        raise
    with alone(library):
        write_copy(library, connection)


@contextlib.contextmanager
def changing(library: Path) -> Iterator[sqlite3.Connection]:
    """Give the catalog to change a person's own in; catalog and copy are on disk when the `with` has ended well."""
    with alone(library), readable(library), contextlib.closing(open_for_writing(library)) as connection:
        settle(library, connection)
        with transaction(connection, "personal_changes"):
            yield connection
        write_copy(library, connection)


@contextlib.contextmanager
def alone(library: Path) -> Iterator[None]:
    """Keep all other processes from changing what is a person's own, or its copy."""
    from filelock import FileLock, Timeout

    if is_published(library) or (library / SNAPSHOT_MARKER).exists():
        raise UsageError(
            "A published snapshot is only read; keep favourites, notes and saved searches in the library that it was "
            "made of."
        )
    lock = FileLock(library / LOCK)
    try:
        lock.acquire(timeout=WAIT_S)
    except Timeout as error:
        raise LibraryError(
            f"The favourites, notes and saved searches of {library} are being written by another process; try again."
        ) from error
    except OSError as error:
        told = f"{library / LOCK} is a folder; move it away" if (library / LOCK).is_dir() else error.strerror or error
        raise LibraryError(f"{library} cannot be written ({told}).") from error
    try:
        yield
    finally:
        lock.release()


def write_copy(library: Path, connection: sqlite3.Connection) -> None:
    """Write the copy of a person's own unless it is up to date; the caller keeps others away."""
    here, copy = held_by(connection), held_in(library / COPY)
    check(library, here, copy)
    if not copy.damaged and copy.changes == here.changes:
        return
    for left in library.glob(f".{COPY}.*{TEMPORARY_SUFFIX}"):  # by a process that was killed
        if is_temporary(left.name):
            left.unlink(missing_ok=True)
    if copy.damaged and (library / COPY).exists():
        (library / COPY).rename(free_name(library / COPY))
    with contextlib.closing(sqlite3.connect(":memory:")) as memory:
        for table in (*OWN_TABLES, "meta"):
            memory.execute(*connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone())
            for row in here.rows.get(table, ()):
                memory.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
        # Which model the library has, and which state this is; how nonsense scores is measured anew.
        entries = connection.execute("SELECT key, value FROM meta WHERE key NOT GLOB '*null_*'").fetchall()
        memory.executemany("INSERT INTO meta VALUES (?, ?)", entries)
        memory.commit()
        try:
            with replacing(library / COPY) as new, contextlib.closing(sqlite3.connect(new)) as file:
                memory.backup(file)
        except OSError as error:
            raise LibraryError(f"{library / COPY} cannot be written ({error.strerror or error}).") from error


def check(library: Path, here: Held, copy: Held) -> None:
    """Refuse to go on from a person's own that is damaged: it would take the place of what is not."""
    if here.damaged or here.changes is None:
        table = min(here.damaged, default="meta")
        raise damaged(library, sqlite3.DatabaseError(f"its table {table} is not what was written"))
    if here.differs(copy):
        raise damaged(library, sqlite3.DatabaseError(f"a person's own is not what it is in {COPY}"))


def settle(library: Path, connection: sqlite3.Connection) -> None:
    """Take in what a catalog lacks: from its copy where that is newer, and from the files of an earlier library."""
    here, copy = held_by(connection), held_in(library / COPY)
    check(library, here, copy)
    earlier = [path for name in EARLIER if (path := library / name).is_file()]
    if not (earlier or copy.is_newer(here)):
        return
    with transaction(connection, "personal_changes"):
        if copy.is_newer(here) and copy.changes is not None:
            for table in OWN_TABLES:
                enter(connection, table, copy.rows[table])
            set_meta(connection, {"personal_changes": str(copy.changes)})
        for path in earlier:
            _take_in(connection, path)
    for path in earlier:
        path.rename(path.with_name(f"{path.name}.taken"))


def _take_in(connection: sqlite3.Connection, path: Path) -> None:
    """Take in what a person had in a library before format 8; a damaged line is in the other file."""
    for line in path.read_bytes().split(b"\n"):
        checksum, _, text = line.partition(b" ")
        if checksum != b"%08x" % crc32(text):
            continue
        with contextlib.suppress(KeyError, TypeError, ValueError, sqlite3.Error):  # the first line, and what is unknown
            record = json.loads(text)
            table, row = record["table"], record["row"]
            if table == "marks":
                at = -1.0 if row["time_s"] is None else float(row["time_s"])
                row = {**row, "time_s": at, "favourite": int(row["favourite"]), "path": stored_path(row["path"])}
            elif table == "searches":
                row = {**row, "filter": row["where"], "seen": json.dumps(row["seen"])}
                del row["where"]
            if table in AT_HOME:
                enter(connection, table, [row])


def forget_copy(library: Path) -> None:
    """Delete the copy in a library that is taken back, unless it has something that a person made."""
    held = held_in(library / COPY)
    if not held.damaged and not any(held.rows[table] for table in AT_HOME):
        (library / COPY).unlink(missing_ok=True)
    (library / LOCK).unlink(missing_ok=True)
