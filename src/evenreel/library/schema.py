"""The tables of a catalog, laid down from `schema.sql`."""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from importlib import resources


def lay_down(connection: sqlite3.Connection) -> None:
    """Make every table and index that is not there yet, inside the caller's transaction."""
    for statement in _statements():
        connection.execute(statement)


@cache
def _statements() -> tuple[str, ...]:
    """The script cut into statements: `executescript` would end the caller's transaction."""
    script = resources.files("evenreel.library").joinpath("schema.sql").read_text(encoding="utf-8")
    script = re.sub(r"^CREATE ((?:VIRTUAL )?TABLE|INDEX) ", r"CREATE \1 IF NOT EXISTS ", script, flags=re.MULTILINE)
    found, pending = [], ""
    for piece in script.split(";"):
        pending += f"{piece};"
        if sqlite3.complete_statement(pending):  # not where the semicolon stands in a comment
            found.append(pending)
            pending = ""
    return tuple(found)
