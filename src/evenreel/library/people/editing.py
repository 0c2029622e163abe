"""What a person says of the people of a library: names, who is the same, and which face is somebody else's."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from evenreel.errors import NotFoundError, UsageError
from evenreel.faces.grouping import SAME_PERSON
from evenreel.library.people.grouping import drop_empty, group_new, split_faces
from evenreel.library.people.listing import Person, all_people, find_person
from evenreel.library.people.store import EVERYONE, people_store, transaction
from evenreel.wording import printable

LONGEST_NAME = 100
STRICTER = tuple(SAME_PERSON + step / 20 for step in range(1, 12))
"""Similarities that a person is taken apart at, the least strict first; to .913."""


def name_person(library: Path, who: str, name: str) -> Person:
    """Give a person a name, or another one."""
    wanted = checked_name(name)
    with people_store(library) as connection:
        with transaction(connection):
            one = find_person(connection, who)
            for other in all_people(connection):
                if other.number != one.number and (other.name or "").casefold() == wanted.casefold():
                    raise UsageError(
                        f"{other.name} is the name of person {other.number}; where both are the same, merge them: "
                        f'evenreel people --merge {other.number} "{one.name or one.number}".'
                    )
            connection.execute("UPDATE people SET name = ? WHERE person_id = ?", (wanted, one.number))
        return find_person(connection, str(one.number))


def checked_name(name: str) -> str:
    """Return a name without spaces around it."""
    wanted = " ".join(name.split())
    if not wanted or len(wanted) > LONGEST_NAME:
        raise UsageError(f"A name has 1 to {LONGEST_NAME} characters; {printable(wanted[:80])!r} has {len(wanted)}.")
    if wanted.isdigit() or wanted.upper() == EVERYONE:
        raise UsageError(f"{wanted!r} cannot be a name, since it means a person's number or everyone; choose another.")
    if '"' in wanted or not wanted.isprintable():
        raise UsageError(f"The name {printable(wanted)!r} has signs that no query could hold; leave them out.")
    return wanted


def merge_people(library: Path, into: str, other: str) -> Person:
    """Make two people one, who keeps the number and name of the first, or else the name of the second."""
    with people_store(library) as connection:
        with transaction(connection):
            kept, gone = find_person(connection, into), find_person(connection, other)
            if kept.number == gone.number:
                raise UsageError(f"{into!r} and {other!r} are the same person already.")
            both = (kept.number, gone.number)
            connection.execute("UPDATE faces SET person_id = ? WHERE person_id = ?", both)
            connection.execute("UPDATE OR IGNORE refused SET person_id = ? WHERE person_id = ?", both)
            connection.execute(
                "DELETE FROM refused WHERE person_id = ?1 AND face_id IN (SELECT face_id FROM faces"
                " WHERE person_id = ?1)",
                (kept.number,),
            )
            connection.execute("DELETE FROM people WHERE person_id = ?", (gone.number,))
            connection.execute("UPDATE people SET name = ? WHERE person_id = ?", (kept.name or gone.name, kept.number))
        return find_person(connection, str(kept.number))


def split_person(library: Path, who: str) -> list[Person]:
    """Take a person apart where its faces are of several: the largest part stays, the others are new people."""
    with people_store(library) as connection:
        parts = split_faces(connection, find_person(connection, who).number, STRICTER)
        return [find_person(connection, str(number)) for number in parts]


def refuse_face(library: Path, face: int) -> Person:
    """Say that a face is not the person's whom it was put to; it goes to another one, or to one of its own."""
    with people_store(library) as connection:
        with transaction(connection):
            row = connection.execute("SELECT person_id FROM faces WHERE face_id = ?", (face,)).fetchone()
            if row is None:
                raise NotFoundError(f"There is no face {face}; evenreel people --faces NAME lists those of a person.")
            if row[0] is not None:
                connection.execute("INSERT OR IGNORE INTO refused VALUES (?, ?)", (face, row[0]))
            connection.execute("UPDATE faces SET person_id = NULL WHERE face_id = ?", (face,))
        group_new(connection)
        with transaction(connection):
            drop_empty(connection)
        return find_person(connection, str(_person_of(connection, face)))


def _person_of(connection: sqlite3.Connection, face: int) -> int:
    (person_id,) = connection.execute("SELECT person_id FROM faces WHERE face_id = ?", (face,)).fetchone()
    return int(person_id)
