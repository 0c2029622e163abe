"""Second copy of what only the catalog knows: folders, files, their metadata, and the library's settings.

No shard says these, and to find them out again every file would have to be read. The copy is a file of lines, each with
a checksum of its own, so that damage costs single lines. It is written when an index run ends, whether it succeeds or
not, and says which state of the catalog it is of: a run that was killed leaves a copy that is behind, and a catalog
that is behind its copy, or is of the same state and has other seals, is not what was written.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from evenreel.errors import LibraryError
from evenreel.files import TEMPORARY_SUFFIX, is_temporary, write_durably
from evenreel.library.store import seals
from evenreel.library.store.filesystem import free_name
from evenreel.library.store.schema import NOT_KEPT, kept_tables, tables
from evenreel.library.store.sealed_lines import record_of, sealed_line

FILE = "kept.jsonl"
FORMAT = 1

log = logging.getLogger("evenreel")

Row = dict[str, Any]
Rows = dict[str, list[Row]]
"""Table -> its rows, by the names of their columns; text that is not UTF-8 is bytes."""


class UnreadableCopyError(LibraryError):
    """Raised where the second copy exists and cannot be read: a permission, a failing disk, or no regular file."""


class CatalogState(NamedTuple):
    """State of a catalog: number of its changes, and a digest of its seals."""

    changes: int
    seals: str


@dataclass(frozen=True)
class SecondCopy:
    """Second copy of a catalog as read from disk.

    Attributes:
        state: state of the catalog that the copy is of.
        rows: rows of the catalog's tables, by table.
        lost: number of the copy's damaged lines, which `rows` lacks.
    """

    state: CatalogState
    rows: Rows
    lost: int


def state_of(connection: sqlite3.Connection) -> CatalogState:
    """Read the state of a catalog: its number of changes and a digest of its checksums."""
    written = sorted((seals.stored(connection) or {}).items())
    return CatalogState(changes_of(connection), hashlib.sha256(repr(written).encode()).hexdigest())


def changes_of(connection: sqlite3.Connection) -> int:
    """Read how often a catalog was changed."""
    row = connection.execute("SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'changes'").fetchone()
    return int(row[0]) if row else 0


@contextmanager
def copied(library: Path, connection: sqlite3.Connection) -> Iterator[None]:
    """Write the second copy when the `with` ends; after an error, only of rows that are undamaged."""
    try:
        yield
    except BaseException:
        try:
            if not connection.in_transaction and not _is_spoilt(connection):
                write_copy(library, connection)
        except Exception as error:  # what broke the block off is what is to be told
            log.info("the second copy was not written: %s", error)
        raise
    write_copy(library, connection)


def _is_spoilt(connection: sqlite3.Connection) -> bool:
    """Whether what the copy has is not what was written; it would take the place of what is."""
    broken = seals.broken(connection, kept_tables())
    return any(scope != "meta" or part not in NOT_KEPT for scope, part in broken)


def write_copy(library: Path, connection: sqlite3.Connection) -> None:
    """Write the second copy of a catalog (`kept.jsonl`: folders, files, metadata, settings) unless it is up to date.

    A file in its place that cannot be read is renamed first, so that nothing is lost.
    """
    if _noted_changes(library / FILE) == changes_of(connection):
        return
    state = state_of(connection)
    lines = [sealed_line(record) for record in _records(connection)]
    head = sealed_line({"format": FORMAT, "changes": state.changes, "seals": state.seals, "lines": len(lines)})
    payload = "".join([head, *lines]).encode()
    try:
        for left in library.glob(f".{FILE}.*{TEMPORARY_SUFFIX}"):  # by a run that was killed
            if is_temporary(left.name):
                left.unlink(missing_ok=True)
        put_aside_unreadable(library)
        write_durably(library / FILE, payload)
    except OSError as error:
        raise LibraryError(f"Cannot write {library / FILE} ({error.strerror or error}).") from error


def put_aside_unreadable(library: Path) -> Path | None:
    """Rename a second copy that cannot be read, so that nothing is lost; returns its new path, or None."""
    path = library / FILE
    try:
        path.open("rb").close()
    except FileNotFoundError:
        return None
    except OSError:
        return path.rename(free_name(path))
    return None


def read_copy(library: Path) -> SecondCopy | None:
    """Read the second copy of a library; None where there is none, or nothing of it can be used."""
    path = library / FILE
    try:
        head, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableCopyError(
            f"{path} cannot be read ({error.strerror or error}); check the disk and the permissions."
        ) from error
    about, records = record_of(head), [record for record in map(record_of, lines) if record is not None]
    if about is None:
        about = {"changes": 0, "seals": "", "lines": len(records) + 1}
    elif about["format"] > FORMAT:
        raise LibraryError(f"{path} has format {about['format']}; update evenreel to read it.")
    found: Rows = {table: [] for table in kept_tables()}
    for record in records:
        found.setdefault(record["table"], []).append({name: _loaded(value) for name, value in record["row"].items()})
    lost = max(about["lines"], len(lines)) - len(records)
    return SecondCopy(CatalogState(about["changes"], about["seals"]), found, lost)


def forget_copy(library: Path) -> None:
    """Delete the second copy that an earlier library left in this folder."""
    path = library / FILE
    if not path.exists():
        return
    lines = path.read_bytes().splitlines()
    if lines and not any(map(record_of, lines)):
        raise LibraryError(
            f"{path} has the name of a file of a library but is none; move it away, or use another --library."
        )
    path.unlink(missing_ok=True)


def _noted_changes(path: Path) -> int | None:
    """The state that a copy says it is of; None where it cannot say so."""
    try:
        with path.open("rb") as file:
            about = record_of(file.readline().rstrip(b"\n"))
    except OSError:
        return None
    return None if about is None else int(about["changes"])


def _records(connection: sqlite3.Connection) -> Iterator[Mapping[str, Any]]:
    for table in kept_tables():
        names = [column.name for column in tables()[table]]
        for values in connection.execute(f"SELECT {seals.selected(table)} FROM {table}"):
            row = dict(zip(names, map(_dumped, values), strict=True))
            if table != "meta" or row["key"] not in NOT_KEPT:
                yield {"table": table, "row": row}


def _dumped(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _loaded(value: Any) -> Any:
    """The opposite: bytes that are no text were stored as such."""
    if not isinstance(value, str):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape")
    return value
