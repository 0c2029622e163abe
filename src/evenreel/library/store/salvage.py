"""Salvage of the tables that nothing else has, from a catalog that may be damaged.

Rows are checked in parts, by their seals: the files of one clip, one entry of `meta`, all indexed folders. A part whose
seal does not fit is taken from the second copy; everything is where no seal can be read, or the catalog is older than
its copy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenreel.library.store import seals
from evenreel.library.store.catalog import is_damage
from evenreel.library.store.kept import FILE, Row, Rows, SecondCopy, UnreadableCopyError, changes_of, read_copy
from evenreel.library.store.schema import NOT_KEPT, kept_tables, tables

Parts = dict[str, list[Row]]
"""The rows of a table by the part that they are sealed with."""


@dataclass
class Salvaged:
    """Rows recovered of the tables that only the catalog has.

    Attributes:
        rows: recovered rows by table.
        changes: least number of changes of the catalog.
        restored: number of rows from the second copy, since those of the catalog are damaged.
        lost: number of parts of tables, or lines of the copy, that are damaged and nowhere else.
        sealed: True if the rows could be checked.
    """

    rows: Rows = field(default_factory=dict)
    changes: int = 0
    restored: int = 0
    lost: int = 0
    sealed: bool = True

    @property
    def settings(self) -> dict[str, str]:
        """Entries of the table `meta`."""
        return {str(row["key"]): str(row["value"]) for row in self.rows["meta"]}


@dataclass
class _Held:
    """What SQLite still reads of a catalog; `totals` are its seals, None where it has none that can be read."""

    rows: Rows = field(default_factory=lambda: {table: [] for table in kept_tables()})
    totals: seals.Totals | None = None
    found: seals.Totals = field(default_factory=dict)
    changes: int = 0

    def damaged(self, table: str) -> set[str]:
        """The parts of a table whose rows are not what was written."""
        written = self.totals or {}
        keys = {key for key in written.keys() | self.found.keys() if key[0] == table}
        return {key[1] for key in keys if written.get(key, 0) != self.found.get(key, 0)}

    @property
    def is_sound(self) -> bool:
        """Whether all rows are what was written."""
        return self.totals is not None and not any(map(self.damaged, kept_tables()))


def salvage(library: Path, catalog: Path) -> Salvaged:
    """Read what is left of a catalog, and the rest from its second copy."""
    held = _read(catalog)
    try:
        copy = read_copy(library)
    except UnreadableCopyError:
        if not held.is_sound and not (library / FILE).is_dir():
            raise
        copy = None
    salvaged = Salvaged(changes=max(held.changes, copy.state.changes if copy else 0))
    salvaged.sealed = held.totals is not None or copy is not None
    for table in kept_tables():
        salvaged.rows[table] = _chosen(salvaged, table, held, copy)
    if copy and held.totals is None:
        salvaged.lost += copy.lost
    return salvaged


def _chosen(salvaged: Salvaged, table: str, held: _Held, copy: SecondCopy | None) -> list[Row]:
    here, there = _parts(table, held.rows[table]), _parts(table, copy.rows.get(table, []) if copy else [])
    damaged = held.damaged(table)
    if held.totals is None and copy is None:
        return held.rows[table]
    believed = {part: rows for part, rows in here.items() if part not in damaged and held.totals is not None}
    if copy is None or not (held.totals is None or copy.state.changes > held.changes):
        there = {part: rows for part, rows in there.items() if part in damaged}
    elif not copy.lost:  # the copy is newer and whole: what it does not have is gone
        believed = {part: rows for part, rows in believed.items() if table == "meta" and part in NOT_KEPT}
    salvaged.restored += sum(len(rows) for part, rows in there.items() if rows != here.get(part))
    salvaged.lost += len(damaged - there.keys() - (NOT_KEPT if table == "meta" else set()))
    return [row for rows in {**believed, **there}.values() for row in rows]


def _parts(table: str, rows: Sequence[Row]) -> Parts:
    names = [column.name for column in tables()[table]]
    parts: Parts = {}
    for row in rows:
        parts.setdefault(seals.part_of(table, [row.get(name) for name in names]), []).append(row)
    return parts


def _read(catalog: Path) -> _Held:
    """Whatever SQLite still reads of a file; nothing of one that it cannot open."""
    held = _Held()
    if not catalog.is_file():
        return held
    with _beyond_damage(), closing(_opened(catalog)) as connection:
        for table in kept_tables():
            names = [column.name for column in tables()[table]]
            for values in _rows(connection, table):
                key = table, seals.part_of(table, values)
                held.found[key] = seals.added(held.found.get(key, 0), seals.row_checksum(table, *values))
                held.rows[table].append(dict(zip(names, map(_text, values), strict=True)))
        with _beyond_damage():
            held.changes = changes_of(connection)
        with _beyond_damage():
            held.totals = seals.stored(connection, kept_tables())
    return held


def _opened(catalog: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{catalog.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a table from its beginning and, where a page in the middle cannot be read, from its end."""
    seen = set()
    for order in ("", f" ORDER BY {tables()[table][0].name} DESC"):
        with _beyond_damage():
            for values in connection.execute(f"SELECT {seals.selected(table)} FROM {table}{order}"):
                if values not in seen:
                    seen.add(values)
                    yield values
            return


@contextmanager
def _beyond_damage() -> Iterator[None]:
    """What is damaged is passed over; a lock or a failing disk is not."""
    try:
        yield
    except sqlite3.Error as error:
        if not is_damage(error):
            raise


def _text(value: Any) -> Any:
    """Text from its bytes; bytes that are no text were stored as such."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
