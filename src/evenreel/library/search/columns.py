"""Columns that a library can be filtered by, with their SQL over `files` joined with `clips`."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from typing import Literal, NamedTuple

from evenreel.files import name_key

ColumnKind = Literal["number", "text", "date", "name"]


class FilterColumn(NamedTuple):
    """SQL of a column, and the kind of its values; a date is text such as `2024-05-31`, a name is in any spelling.

    A column of which a clip has several values or none has `of_clip` too: SQL with `{}` for a comparison of `sql`, true
    where one of the clip's values passes it.
    """

    sql: str
    kind: ColumnKind
    of_clip: str = ""


PEOPLE = "people"
"""FilterColumn of the names of people who are in a clip."""
_PEOPLE_OF_CLIP = (
    "clips.clip_id IN (SELECT faces.clip_id FROM faces JOIN people ON people.person_id = faces.person_id WHERE {})"
)

_PATH = "CAST(files.path AS TEXT)"  # a path that is not UTF-8 is stored as bytes
_ROOT = f"rtrim(CAST(roots.path AS TEXT), '{os.sep}') || '{os.sep}'"
_ABOVE = f"(SELECT max(length({_ROOT})) FROM roots WHERE substr({_PATH}, 1, length({_ROOT})) = {_ROOT})"
RELATIVE_PATH = f"ifnull(substr({_PATH}, {_ABOVE} + 1), files.name)"
"""What is below the innermost indexed folder, as `contents.root_of` finds it."""

# What is left where all letters but separators are taken off the end.
_ITS_FOLDER = f"rtrim({_PATH}, replace({_PATH}, '{os.sep}', ''))"
_FOLDER = f"ifnull(rtrim(substr({_ITS_FOLDER}, {_ABOVE} + 1), '{os.sep}'), '')"
_MODIFIED = "date(files.mtime_ns / 1000000000, 'unixepoch', 'localtime')"
_CREATED = (
    "(SELECT CASE WHEN created LIKE '%Z' THEN date(created, 'localtime') ELSE substr(created || '-01-01', 1, 10) END"
    " FROM recorded WHERE recorded.clip_id = clips.clip_id)"
)

COLUMNS: Mapping[str, FilterColumn] = {
    "path": FilterColumn(_PATH, "name"),
    "name": FilterColumn("files.name", "name"),
    "folder": FilterColumn(_FOLDER, "name"),
    "container": FilterColumn("clips.container", "text"),
    "codec": FilterColumn("clips.codec", "text"),
    "duration_s": FilterColumn("clips.duration_s", "number"),
    "size_bytes": FilterColumn("files.size", "number"),
    "fps": FilterColumn("clips.fps", "number"),
    "width": FilterColumn("clips.width", "number"),
    "height": FilterColumn("clips.height", "number"),
    "orientation": FilterColumn(
        "CASE WHEN clips.width > clips.height THEN 'landscape' WHEN clips.width < clips.height THEN 'portrait'"
        " ELSE 'square' END",
        "text",
    ),
    "modified": FilterColumn(_MODIFIED, "date"),
    "has_vision": FilterColumn("clips.has_vision", "number"),
    "has_text": FilterColumn("clips.has_text", "number"),
    "has_words": FilterColumn("EXISTS (SELECT 1 FROM tracks WHERE tracks.clip_id = clips.clip_id)", "number"),
}
"""Columns of every library: `folder` is below the indexed one, '' at its top; `has_text` says that words on screen were
looked for, `has_words` that there are some."""

_NOTES = "json_each(personal_notes())"
_PERSONAL = {
    "favourite": FilterColumn("clips.clip_id IN (SELECT value FROM json_each(personal_favourites()))", "number"),
    "note": FilterColumn(
        f"CASE WHEN clips.clip_id IN (SELECT key FROM {_NOTES})"
        f" THEN (SELECT value FROM {_NOTES} WHERE key = clips.clip_id) END",
        "text",
    ),
}
"""Columns of a person's own, where the connection has the functions of `evenreel.library.personal`."""
FLAGS = frozenset(("favourite", "has_vision", "has_text", "has_words", "has_speech"))
"""Columns of yes and no, which are conditions by themselves."""
_SPEECH = {
    "has_speech": FilterColumn("EXISTS (SELECT 1 FROM utterances WHERE utterances.clip_id = clips.clip_id)", "number")
}
_DATES = {"created": FilterColumn(_CREATED, "date"), "date": FilterColumn(f"coalesce({_CREATED}, {_MODIFIED})", "date")}


def columns_of(connection: sqlite3.Connection, *, relative_paths: bool = False) -> dict[str, FilterColumn]:
    """Return the columns of a catalog.

    `created` is the day on which a file says that it was recorded, the first one of a year or month alone; `date` that
    day or else `modified`.
    """
    if not _has_function(connection, "name_key"):
        connection.create_function("name_key", 1, lambda name: name and name_key(name), deterministic=True)
    found = {**COLUMNS, **_DATES, **_SPEECH}
    found |= _PERSONAL if _has_function(connection, "personal_notes") else {}
    if connection.execute("SELECT 1 FROM people LIMIT 1").fetchone():
        found[PEOPLE] = FilterColumn("people.name", "text", _PEOPLE_OF_CLIP)
    return found | ({"path": FilterColumn(RELATIVE_PATH, "name")} if relative_paths else {})


def _has_function(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM pragma_function_list WHERE name = ?", (name,)).fetchone() is not None
