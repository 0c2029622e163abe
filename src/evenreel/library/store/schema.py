"""Tables of a catalog, laid down from `schema.sql`."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from functools import cache
from importlib import resources
from typing import NamedTuple

FULL_TEXT = tuple(
    f"{of}_{part}" if part else of
    for of, words in (("track", "words"), ("said", "words"), ("about", ""))
    for part in (words, "vocabulary", "blocks")
)
"""Word indexes over other tables (`evenreel.library.store.fulltext`)."""

_CREATE = re.compile(r"^CREATE ((?:VIRTUAL )?TABLE|INDEX) ", re.MULTILINE)
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\w+|[^\w\s]""", re.DOTALL)


class Column(NamedTuple):
    """Name and declared type of a column."""

    name: str
    type: str


def lay_down(connection: sqlite3.Connection) -> None:
    """Create every table and index that is missing, inside the caller's transaction."""
    for statement in _statements():
        connection.execute(statement)


@cache
def tables() -> dict[str, tuple[Column, ...]]:
    """Return every ordinary table of the schema with its columns; word indexes that FTS5 keeps are none."""
    with closing(_empty()) as empty:
        names = re.findall(r"^CREATE TABLE IF NOT EXISTS (\w+)", "\n".join(_statements()), re.MULTILINE)
        return {
            name: tuple(Column(*row) for row in empty.execute("SELECT name, type FROM pragma_table_info(?)", (name,)))
            for name in names
        }


def differences(connection: sqlite3.Connection) -> list[str]:
    """Return the tables and indexes that differ from the schema: changed, missing, or unknown.

    Comments and spaces in their definitions do not count.
    """
    with closing(_empty()) as empty:
        wanted, found = _definitions(empty), _definitions(connection)
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def _definitions(connection: sqlite3.Connection) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    rows = connection.execute("SELECT name, type, tbl_name, sql FROM main.sqlite_master").fetchall()
    return {name: (kind, table, _tokens(sql or "")) for name, kind, table, sql in rows}


def _tokens(sql: str) -> tuple[str, ...]:
    """What a statement says: its words, numbers, quoted texts and signs."""
    return tuple(token for token in _TOKEN.findall(sql) if not token.startswith(("--", "/*")))


def _empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    lay_down(connection)
    return connection


@cache
def _statements() -> tuple[str, ...]:
    """The script cut into statements: `executescript` would end the caller's transaction."""
    script = resources.files("evenreel.library.store").joinpath("schema.sql").read_text(encoding="utf-8")
    found, pending = [], ""
    for piece in _CREATE.sub(r"CREATE \1 IF NOT EXISTS ", script).split(";"):
        pending += f"{piece};"
        if sqlite3.complete_statement(pending):  # not where the semicolon stands in a comment
            found.append(pending)
            pending = ""
    return tuple(found)
