"""Checksums over the rows of a catalog, which reveal at reading what evenreel did not write.

A seal is the sum of the checksums of some rows: of all rows of a table, or, where a reader wants to know of one clip or
one entry alone, of the rows of that part. The table `seals` has them. The writer's connection keeps it up to date
by triggers that only this connection has, inside every statement that changes a row: a changed bit, a page of an
earlier state and a statement of another program change rows without the seal. The sum says no more than that something
is wrong with a part; `evenreel.library.index.integrity` and `rebuild` look further.

The triggers are made from the schema, so a new table or column is sealed without a word said here; a table of its own
seal is summed as a whole. Word indexes of FTS5 have no seals: they are compared with the tables they are made of.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from evenreel.library.store.checksums import crc32_of_rows
from evenreel.library.store.schema import tables

SEALS = "seals"

SEALED_WITH = dict.fromkeys(("moments", "shots", "tracks", "transcripts", "utterances", "recorded"), "clips")
"""Tables whose rows are under the seal of another table's part."""

PART = {
    "meta": "key",
    "clips": "clip_id",
    "moments": "clip_id",
    "shots": "clip_id",
    "tracks": "clip_id",
    "transcripts": "clip_id",
    "utterances": "clip_id",
    "recorded": "clip_id",
    "files": "clip_id",
}
"""Table -> the column by which it is sealed in parts; others are sealed as a whole, which is the part ''."""

MASK = 2**62 - 1
"""Totals wrap here: a sum of two of them is still an integer to SQLite."""

Totals = dict[tuple[str, str], int]
"""(scope, part) -> the sum of the checksums of its rows."""


def row_checksum(table: str, *values: bytes | str | float | None) -> int:
    """Compute the CRC-32 of a row's values, which detects any change of up to 32 neighbouring bits."""
    checksum = crc32(table.encode())
    for value in values:
        checksum = crc32(_packed(value), checksum)
    return checksum


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _packed(value: bytes | str | float | None) -> bytes:
    if isinstance(value, str):
        value = _bytes(value)
    if isinstance(value, bytes):
        return b"%d:" % len(value) + value
    if value is None:
        return b"-"
    # SQLite stores no negative zero.
    return struct.pack("<q", value) if isinstance(value, int) else struct.pack("<d", value + 0.0)


def total_of(
    table: str, keys: Sequence[str] | NDArray[np.bytes_], *columns: NDArray[np.int64] | NDArray[np.float64]
) -> int:
    """Compute the seal of a table with a key and columns of numbers, for all rows together."""
    if isinstance(keys, np.ndarray):
        encoded, lengths = keys, np.char.str_len(keys)
    else:  # where a zero at the end counts
        texts = [_bytes(key) for key in keys]
        encoded, lengths = np.array(texts, np.bytes_), np.array([len(text) for text in texts], np.int64)
    # A sum with 0 leaves no negative zero.
    numbers = np.stack([(column + 0).view("<i8") for column in columns], axis=1).view(np.uint8)
    start, total = crc32(table.encode()), 0
    for length in np.unique(lengths).tolist():
        chosen = np.flatnonzero(lengths == length)
        text = encoded[chosen].astype(f"S{max(1, length)}").view(np.uint8).reshape(len(chosen), -1)[:, :length]
        rows = np.concatenate([text, numbers[chosen]], axis=1)
        total += int(crc32_of_rows(rows, crc32(b"%d:" % length, start)).sum(dtype=np.uint64))
    return total & MASK


def guard(connection: sqlite3.Connection) -> None:
    """Have a connection update seals with whatever it writes; called again, it adds what is missing."""
    connection.create_function("row_checksum", -1, row_checksum, deterministic=True)
    connection.execute("PRAGMA recursive_triggers = ON")  # else a row that is replaced is not seen to go
    for table in _sealed():
        put, take = _add_sql(table), _subtract_sql(table)
        for event, changes in {"INSERT": put, "DELETE": take, "UPDATE": take + put}.items():
            trigger = f"CREATE TEMP TRIGGER IF NOT EXISTS seal_{table}_{event} AFTER {event} ON main.{table}"
            connection.execute(f"{trigger} BEGIN {changes} END")


def is_sealed(connection: sqlite3.Connection) -> bool:
    """Return whether a catalog has seals; one that is being made has none."""
    if has_seals(connection) and connection.execute("SELECT 1 FROM seals LIMIT 1").fetchone():
        return True
    if connection.execute("SELECT 1 FROM main.meta WHERE key = 'schema_version'").fetchone() is not None:
        raise sqlite3.DatabaseError("its seals are gone")
    return False


def has_seals(connection: sqlite3.Connection) -> bool:
    """Return whether a catalog has the table of seals."""
    return connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'seals'").fetchone() is not None


def stored(connection: sqlite3.Connection, scopes: Collection[str] | None = None) -> Totals | None:
    """Read the stored seals of some scopes, or of all; None for a catalog without seals."""
    if not is_sealed(connection):
        return None
    columns = "CAST(scope AS BLOB), CAST(part AS BLOB), CAST(total AS INTEGER)"
    where = "" if scopes is None else f" WHERE scope IN ({', '.join('?' * len(scopes))})"
    rows = connection.execute(f"SELECT {columns} FROM seals{where}", tuple(scopes or ()))
    return {(_text(scope), _text(part)): total for scope, part, total in rows}


def computed(connection: sqlite3.Connection, scopes: Collection[str] | None = None) -> Totals:
    """Compute the seals of some scopes, or of all, from the present rows."""
    totals: Totals = {}
    for table in _sealed():
        scope = SEALED_WITH.get(table, table)
        if scopes is None or scope in scopes:
            for values in connection.execute(f"SELECT {selected(table)} FROM {table}"):
                key = scope, part_of(table, values)
                totals[key] = added(totals.get(key, 0), row_checksum(table, *values))
    return totals


def added(total: int, checksum: int) -> int:
    """Return the seal with one more row: the sum of checksums."""
    return (total + checksum) & MASK


def part_of(table: str, values: Sequence[Any]) -> str:
    """Return the part of a table that a row, given by its values, is sealed with."""
    place = _part_column(table)
    return "" if place is None else _text(values[place])


@cache
def _part_column(table: str) -> int | None:
    return [column.name for column in tables()[table]].index(PART[table]) if table in PART else None


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


def broken(connection: sqlite3.Connection, scopes: Collection[str] | None = None) -> list[tuple[str, str]]:
    """Return the parts with damaged rows: changed, gone or added; none for a catalog without seals."""
    with snapshot(connection):
        written = stored(connection, scopes)
        found = {} if written is None else computed(connection, scopes)
    if written is None:
        return []
    return sorted(key for key in written.keys() | found.keys() if written.get(key, 0) != found.get(key, 0))


def broken_parts(connection: sqlite3.Connection, scope: str, parts: Sequence[str]) -> set[str]:
    """Return those of some parts of which rows are damaged; none for a catalog without seals."""
    if not is_sealed(connection):
        return set()
    totals, wanted = [0] * len(parts), json.dumps(list(parts))
    with snapshot(connection):
        sealed = dict(
            connection.execute(
                "SELECT wanted.key, seals.total FROM json_each(?) AS wanted"
                " CROSS JOIN seals ON seals.scope = ? AND seals.part = wanted.value",
                (wanted, scope),
            )
        )
        for table in _sealed():
            if SEALED_WITH.get(table, table) == scope:
                for place, *values in connection.execute(
                    f"SELECT wanted.key, {selected(table, f'{table}.')} FROM json_each(?) AS wanted"
                    f" CROSS JOIN {table} ON {table}.{PART[table]} = wanted.value",
                    (wanted,),
                ):
                    totals[place] += row_checksum(table, *values)
    return {part for place, part in enumerate(parts) if sealed.get(place, 0) != totals[place] & MASK}


def check_clip(connection: sqlite3.Connection, clip_id: str) -> None:
    """Refuse a clip with damaged rows."""
    if spoilt_clips(connection, [clip_id]):
        raise sqlite3.DatabaseError(f"the rows of clip {clip_id} are not what was written")


def spoilt_clips(connection: sqlite3.Connection, clip_ids: Sequence[str]) -> set[str]:
    """Return those of some clips whose own rows, or those of whose files, are damaged."""
    return broken_parts(connection, "clips", clip_ids) | broken_parts(connection, "files", clip_ids)


def renew(connection: sqlite3.Connection, scopes: Collection[str] | None = None) -> None:
    """Seal the present rows of some scopes, or of all, inside the caller's transaction."""
    for scope in {SEALED_WITH.get(table, table) for table in _sealed()} if scopes is None else scopes:
        connection.execute("DELETE FROM seals WHERE scope = ?", (scope,))
    if scopes is None:
        connection.execute("DELETE FROM seals")
    rows = [(*key, total) for key, total in computed(connection, scopes).items() if total]
    connection.executemany("INSERT INTO seals (scope, part, total) VALUES (?, ?, ?)", rows)


def seal_entries(connection: sqlite3.Connection, entries: Mapping[str, str]) -> None:
    """Seal entries of `meta` by their values; a damaged one that is set again is sound again."""
    if is_sealed(connection):
        connection.executemany(
            "INSERT INTO seals (scope, part, total) VALUES ('meta', ?, ?)"
            " ON CONFLICT (scope, part) DO UPDATE SET total = excluded.total WHERE total IS NOT excluded.total",
            [(key, row_checksum("meta", key, value)) for key, value in entries.items()],
        )


def _sealed() -> Iterator[str]:
    return (table for table in tables() if table != SEALS)


def selected(table: str, row: str = "") -> str:
    """Return SQL for the columns of a row, text as its bytes, which can always be read."""
    return ", ".join(
        f"CAST({row}{name} AS BLOB)" if declared == "TEXT" else f"{row}{name}" for name, declared in tables()[table]
    )


def _add_sql(table: str) -> str:
    part = f"coalesce(NEW.{PART[table]}, '')" if table in PART else "''"
    return (
        f"INSERT INTO seals VALUES ('{SEALED_WITH.get(table, table)}', {part},"
        f" row_checksum('{table}', {selected(table, 'NEW.')}))"
        f" ON CONFLICT (scope, part) DO UPDATE SET total = (total + excluded.total) & {MASK};"
    )


def _subtract_sql(table: str) -> str:
    part = f"coalesce(OLD.{PART[table]}, '')" if table in PART else "''"
    where = f"WHERE scope = '{SEALED_WITH.get(table, table)}' AND part = {part}"
    return (
        f"UPDATE seals SET total = (total - row_checksum('{table}', {selected(table, 'OLD.')})) & {MASK} {where};"
        f"DELETE FROM seals {where} AND total = 0;"
    )


def _text(value: bytes | str | None) -> str:
    return value if isinstance(value, str) else (value or b"").decode("utf-8", "surrogateescape")
