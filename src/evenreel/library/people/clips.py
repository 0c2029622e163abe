"""In which clips somebody is: the column `people` of a filter, and the moments of a face."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from evenreel.errors import LibraryError
from evenreel.library.people.listing import find_person
from evenreel.library.people.store import has_people, people_store


def folder_of_catalog(connection: sqlite3.Connection) -> Path | None:
    """Return the folder of a catalog by its connection; None for one in memory."""
    for _, name, file in connection.execute("PRAGMA database_list"):
        if name == "main" and file:
            return Path(file).parent
    return None


def knows_names(connection: sqlite3.Connection) -> bool:
    """Return whether anybody has a name in the library of a catalog; nobody where the people cannot be read."""
    folder = folder_of_catalog(connection)
    if folder is None:
        return False
    try:
        if not has_people(folder):
            return False
        with people_store(folder) as people:
            return people.execute("SELECT 1 FROM people WHERE name NOTNULL").fetchone() is not None
    except LibraryError:  # which is told where people are asked for, and by verify
        return False


def named_clips(connection: sqlite3.Connection) -> str:
    """Return which named people are in which clips of a catalog's library: JSON, a list of pairs of id and name."""
    folder = folder_of_catalog(connection)
    if folder is None or not has_people(folder):
        return "[]"
    with people_store(folder) as people:
        rows = people.execute(
            "SELECT DISTINCT clip_id, name FROM faces JOIN people USING (person_id) WHERE name NOTNULL"
        )
        return json.dumps([list(row) for row in rows])


def face_times(library: Path, who: list[str]) -> dict[str, list[tuple[float, float]]]:
    """Return when people are seen: for each clip the times of their faces in seconds, rising, with their scores."""
    found: dict[str, list[tuple[float, float]]] = {}
    with people_store(library) as connection:
        numbers = [find_person(connection, one).number for one in who]
        rows = connection.execute(
            "SELECT clip_id, time_s, max(score) FROM faces WHERE person_id IN (SELECT value FROM json_each(?))"
            " GROUP BY clip_id, time_s ORDER BY clip_id, time_s",
            (json.dumps(numbers),),
        )
        for clip_id, time_s, score in rows:
            found.setdefault(clip_id, []).append((time_s, score))
    return found
