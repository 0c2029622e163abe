"""Damage of the file of the people: what `evenreel verify` tells of, and `evenreel verify --repair` mends."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from evenreel.errors import LibraryError
from evenreel.library.people.forgetting import drop_clips
from evenreel.library.people.store import FILE, face_checksum, has_people, people_store
from evenreel.wording import count


def trouble_with_people(library: Path) -> tuple[str, str] | None:
    """Return what is wrong with the people of a library and what to do about it; None where all is as written."""
    if not has_people(library):
        return None
    try:
        with people_store(library) as connection:
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise LibraryError("its pages are not what was written")
            wrong = len(_damaged(connection))
    except LibraryError as error:
        return str(error), "run: evenreel people --forget ALL, then: evenreel index FOLDER --people"
    if not wrong:
        return None
    return f"{count(wrong, 'clip')} with faces that are not what was written", "run: evenreel verify --repair"


def repair_people(library: Path, catalog: sqlite3.Connection) -> Iterator[str]:
    """Drop the faces of clips that have damaged ones or are gone; the next index run looks at the former anew."""
    if not has_people(library):
        return
    try:
        with people_store(library) as connection:
            damaged = _damaged(connection)
            there = {clip_id for (clip_id,) in catalog.execute("SELECT clip_id FROM clips")}
            looked = {clip_id for (clip_id,) in connection.execute("SELECT clip_id FROM looked")}
            drop_clips(connection, damaged | (looked - there))
    except LibraryError as error:
        yield f"left {FILE} as it is: {error}"
        return
    if damaged:
        yield f"dropped the faces of {count(len(damaged), 'clip')}, which were damaged; run: evenreel index FOLDER"


def _damaged(connection: sqlite3.Connection) -> set[str]:
    """The clips with a face that is not what was written."""
    rows = connection.execute("SELECT clip_id, time_s, vector, crop, checksum FROM faces")
    return {row[0] for row in rows if face_checksum(*row[:4]) != row[4]}
