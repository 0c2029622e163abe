"""Forgetting people: no vector, picture or name of them is left in any file of the library.

Kill it at any point: what was begun is noted before anything is deleted, and the next command that looks at the people
finishes it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from pathlib import Path

from evenreel.errors import LibraryError, UsageError
from evenreel.library.people.grouping import drop_empty
from evenreel.library.people.listing import Person, all_people, find_person
from evenreel.library.people.store import (
    HOW_TO_FIND,
    erase_whole,
    finish_forgetting,
    has_people,
    mark_forgetting,
    people_store,
    set_entry,
    transaction,
)
from evenreel.library.store.filesystem import library_lock


def forget_person(library: Path, who: str) -> Person:
    """Delete a person: its name, and vectors and pictures of all its faces.

    Clips that were looked at are not looked at again, so that only new clips can bring the person back, without a name.
    """
    with library_lock(library), people_store(library) as connection:
        person = find_person(connection, who)
        mark_forgetting(connection, [person.number])
        finish_forgetting(connection)
        return person


def forget_everyone(library: Path) -> int:
    """Delete the file of the people, overwritten; none are looked for from then on, until they are asked for again.

    A damaged file is deleted too.
    """
    with library_lock(library):
        if not has_people(library):
            raise UsageError(f"There is nothing to forget: no people were looked for in {library}; {HOW_TO_FIND}.")
        try:
            with people_store(library) as connection:
                there = len(all_people(connection))
        except LibraryError:  # damaged, or of a later version
            there = 0
        erase_whole(library)
        return there


def drop_clips(connection: sqlite3.Connection, clip_ids: Collection[str]) -> int:
    """Delete the faces of clips that the library no longer has, with people of whom nothing is left; returns how many.

    Names go with them: without a face nobody could be told again.
    """
    if not clip_ids:
        return 0
    with transaction(connection):
        gone = 0
        for clip_id in clip_ids:
            gone += connection.execute("DELETE FROM faces WHERE clip_id = ?", (clip_id,)).rowcount
            connection.execute("DELETE FROM looked WHERE clip_id = ?", (clip_id,))
        drop_empty(connection)
        if gone:
            set_entry(connection, "erase", "1")
    finish_forgetting(connection)
    return gone
