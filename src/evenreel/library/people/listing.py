"""The people of a library, and the faces of one of them."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from evenreel.errors import NotFoundError
from evenreel.library.people.store import people_store
from evenreel.wording import printable

FEW_FACES = 3
"""A person without a name and with fewer faces is left out of lists, unless all are asked for."""

MAX_TOLD = 20
"""Most names that an error lists."""


@dataclass(frozen=True)
class Person:
    """A person of a library: the faces that were put together.

    Attributes:
        number: number, which no other person ever has.
        name: name that was given; None without one.
        faces: number of faces.
        clips: number of clips that they are in.
    """

    number: int
    name: str | None
    faces: int
    clips: int

    @property
    def label(self) -> str:
        """Name, or the number where there is none."""
        return self.name or f"person {self.number}"


@dataclass(frozen=True)
class PersonFace:
    """A face of a person.

    Attributes:
        number: number of the face.
        clip_id: clip that it is in.
        time_s: when it is on screen, in seconds.
        box: left, top, right and bottom edge, as fractions of the picture.
        score: how sure the detector is, 0 to 1.
    """

    number: int
    clip_id: str
    time_s: float
    box: tuple[float, float, float, float]
    score: float


def list_people(library: Path, *, everyone: bool = False) -> list[Person]:
    """List the people of a library: those with names first, by name, then the others by the number of their faces."""
    with people_store(library) as connection:
        found = all_people(connection)
    return [one for one in found if everyone or one.name or one.faces >= FEW_FACES]


def all_people(connection: sqlite3.Connection) -> list[Person]:
    """List everyone of an open store, those with names first."""
    rows = connection.execute(
        "SELECT person_id, name, count(face_id), count(DISTINCT clip_id) FROM people LEFT JOIN faces USING (person_id)"
        " GROUP BY person_id"
    )
    people = [Person(*row) for row in rows]
    return sorted(people, key=lambda one: (one.name is None, (one.name or "").casefold(), -one.faces, one.number))


def list_faces(library: Path, who: str) -> list[PersonFace]:
    """List the faces of a person, by clip and time."""
    with people_store(library) as connection:
        rows = connection.execute(
            "SELECT face_id, clip_id, time_s, box, score FROM faces WHERE person_id = ?"
            " ORDER BY clip_id, time_s, face_id",
            (find_person(connection, who).number,),
        )
        return [PersonFace(number, clip, time_s, _box(box), score) for number, clip, time_s, box, score in rows]


def best_crops(connection: sqlite3.Connection, person_id: int, most: int) -> list[tuple[int, bytes]]:
    """Read the surest faces of a person, at most one a clip until all clips have one: their numbers and JPEGs."""
    rows = connection.execute(
        "SELECT face_id, crop FROM (SELECT face_id, crop, score, row_number() OVER"
        " (PARTITION BY clip_id ORDER BY score DESC, face_id) AS place FROM faces WHERE person_id = ?)"
        " ORDER BY place, score DESC, face_id LIMIT ?",
        (person_id, most),
    )
    return [(face_id, bytes(crop)) for face_id, crop in rows]


def find_person(connection: sqlite3.Connection, who: str) -> Person:
    """Find a person by name, in any case, or by number."""
    people = all_people(connection)
    wanted = who.strip().casefold()
    for one in people:
        if wanted and wanted in ((one.name or "").casefold(), str(one.number)):
            return one
    raise no_person(who, people)


def no_person(who: str, people: list[Person]) -> NotFoundError:
    """Make the error for a name or number that nobody has."""
    names = [one.name for one in people if one.name]
    more = [f"{len(names) - MAX_TOLD} more"] if len(names) > MAX_TOLD else []
    known = f"there are: {', '.join([*names[:MAX_TOLD], *more])}" if names else "nobody has a name yet"
    return NotFoundError(
        f"Nobody is called {printable(who[:80])!r} among the {len(people):,} people of the library; "
        f"{known} (evenreel people lists everyone)."
    )


def _box(stored: str) -> tuple[float, float, float, float]:
    left, top, right, bottom = json.loads(stored)
    return left, top, right, bottom
