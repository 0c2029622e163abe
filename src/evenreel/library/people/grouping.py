"""New faces of a library put to its people: to those that are known, or to new ones without a name."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from evenreel.arrays import Indices
from evenreel.faces.grouping import SAME_PERSON, chinese_whispers, join_groups
from evenreel.library.people.store import transaction
from evenreel.types import FloatArray

VECTOR = "<f2"
"""How the numbers of a vector are stored."""


def loaded_vector(stored: bytes) -> FloatArray:
    """Read a vector (D,) as it is stored, of unit length."""
    vector = np.frombuffer(stored, VECTOR).astype(np.float32)
    return vector / max(float(np.linalg.norm(vector)), 1e-12)


def group_new(connection: sqlite3.Connection) -> None:
    """Put every face that is nobody's yet to a person, in one transaction; faces that are somebody's stay."""
    with transaction(connection):
        rows = connection.execute(
            "SELECT face_id, vector FROM faces WHERE person_id IS NULL ORDER BY clip_id, time_s, face_id"
        ).fetchall()
        if rows:
            _put(connection, [face_id for face_id, _ in rows], np.stack([loaded_vector(stored) for _, stored in rows]))


def split_faces(connection: sqlite3.Connection, person_id: int, thresholds: Sequence[float]) -> list[int]:
    """Take a person apart at the first threshold that tells its faces into two or more; return the numbers of all.

    The largest part stays the person, with its name; without a threshold that does it nothing changes.
    """
    with transaction(connection):
        rows = connection.execute(
            "SELECT face_id, vector FROM faces WHERE person_id = ? ORDER BY clip_id, time_s, face_id", (person_id,)
        ).fetchall()
        vectors = np.stack([loaded_vector(stored) for _, stored in rows])
        for threshold in thresholds:
            labels = chinese_whispers(vectors, threshold)
            if labels.max() > 0:
                faces = [face_id for face_id, _ in rows]
                largest = int(np.bincount(labels).argmax())
                made = _new_people(connection, faces, np.where(labels == largest, -1, labels))
                return [person_id, *made]
    return [person_id]


def drop_empty(connection: sqlite3.Connection) -> None:
    """Delete people of whom no face is left, inside the caller's transaction."""
    connection.execute(
        "DELETE FROM people WHERE person_id NOT IN (SELECT person_id FROM faces WHERE person_id NOTNULL)"
    )


def _put(connection: sqlite3.Connection, faces: list[int], vectors: FloatArray) -> None:
    people, means = _means(connection)
    place = {person_id: number for number, person_id in enumerate(people)}
    row_of = {face_id: row for row, face_id in enumerate(faces)}
    refused: dict[int, set[int]] = defaultdict(set)
    for face_id, person_id in connection.execute("SELECT face_id, person_id FROM refused"):
        if face_id in row_of and person_id in place:
            refused[row_of[face_id]].add(place[person_id])
    joined = join_groups(vectors, means, {row: frozenset(groups) for row, groups in refused.items()}, SAME_PERSON)
    connection.executemany(
        "UPDATE faces SET person_id = ? WHERE face_id = ?",
        [(people[group], faces[row]) for row, group in enumerate(joined.tolist()) if group >= 0],
    )
    rest = np.flatnonzero(joined < 0)
    _new_people(connection, [faces[row] for row in rest], chinese_whispers(vectors[rest]))


def _means(connection: sqlite3.Connection) -> tuple[list[int], FloatArray]:
    """The people, and the mean of the vectors of each, (G, D)."""
    sums: dict[int, FloatArray] = {}
    counts: dict[int, int] = defaultdict(int)
    for person_id, stored in connection.execute("SELECT person_id, vector FROM faces WHERE person_id NOTNULL"):
        vector = loaded_vector(stored)
        sums[person_id] = sums[person_id] + vector if person_id in sums else vector
        counts[person_id] += 1
    people = sorted(sums)
    if not people:
        return [], np.zeros((0, 0), np.float32)
    return people, np.stack([sums[person_id] / counts[person_id] for person_id in people])


def _new_people(connection: sqlite3.Connection, faces: list[int], labels: Indices) -> list[int]:
    """Make a person of each label, the one of most faces first; -1 is none."""
    made = []
    counts = np.bincount(labels[labels >= 0])
    for label in sorted(np.flatnonzero(counts).tolist(), key=lambda one: (-counts[one], one)):
        person_id = connection.execute("INSERT INTO people (name) VALUES (NULL)").lastrowid
        assert person_id is not None  # a row was inserted
        made.append(person_id)
        own = [(person_id, faces[row]) for row in np.flatnonzero(labels == label)]
        connection.executemany("UPDATE faces SET person_id = ? WHERE face_id = ?", own)
    return made
