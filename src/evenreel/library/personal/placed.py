"""Marks of a person beside the clips that a library has now, and what filters read of them.

A mark belongs to a content, so it stays with a file that is moved or renamed. Where no file has that content any more,
it goes to the clip that has taken its place: the one whose file is where the marked file was.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evenreel.errors import LibraryError
from evenreel.library.personal.file import personal_state, read_personal
from evenreel.library.personal.records import PersonalMark, PersonalRecords
from evenreel.library.store.catalog import loaded_path, reading, stored_path

MarkState = Literal["here", "replaced", "gone"]


@dataclass(frozen=True)
class PlacedMark:
    """A mark with the clip that it is on now.

    Attributes:
        mark: what was said.
        clip_id: clip that has it now; None where its file is gone.
        path: file of that clip, or of the mark where there is none.
        state: `here`; `replaced`: the file has another content than when it was marked; `gone`: no file has it.
        duration_s: length of the clip in seconds; None where it is not known.
    """

    mark: PersonalMark
    clip_id: str | None
    path: str
    state: MarkState
    duration_s: float | None = None


def place_marks(connection: sqlite3.Connection, marks: Iterable[PersonalMark]) -> list[PlacedMark]:
    """Find the clip that each mark is on in the catalog as it is now."""
    given = list(marks)
    rows = connection.execute(
        "SELECT clips.clip_id, min(files.path), duration_s FROM json_each(?) AS wanted"
        " CROSS JOIN files ON files.clip_id = wanted.value CROSS JOIN clips ON clips.clip_id = files.clip_id"
        " WHERE state = 'indexed' GROUP BY clips.clip_id",
        (json.dumps(sorted({mark.clip_id for mark in given})),),
    )
    here = {clip_id: (loaded_path(path), duration_s) for clip_id, path, duration_s in rows}
    return [
        PlacedMark(mark, mark.clip_id, here[mark.clip_id][0], "here", here[mark.clip_id][1])
        if mark.clip_id in here
        else _replaced(connection, mark)
        for mark in given
    ]


def _replaced(connection: sqlite3.Connection, mark: PersonalMark) -> PlacedMark:
    row = connection.execute(
        "SELECT clip_id, duration_s FROM files JOIN clips USING (clip_id) WHERE path = ? AND state = 'indexed'",
        (stored_path(mark.path),),
    ).fetchone()
    if row is None:
        return PlacedMark(mark, None, mark.path, "gone")
    return PlacedMark(mark, row[0], mark.path, "replaced", row[1])


class PersonalView:
    """A person's records of an open library, read again where they or the catalog have changed."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self._folder, self._connection = folder, connection
        self._seen_at: tuple[object, ...] | None = None
        self._records, self._placed = PersonalRecords(), list[PlacedMark]()
        self._favourites, self._notes = "[]", "{}"
        connection.create_function("personal_favourites", 0, lambda: self._favourites)
        connection.create_function("personal_notes", 0, lambda: self._notes)

    def refresh(self) -> None:
        """Read what has changed."""
        (changes,) = self._connection.execute("PRAGMA data_version").fetchone()
        at = (personal_state(self._folder), changes)
        if at == self._seen_at:
            return
        self._records = read_personal(self._folder)
        with reading(self._connection, self._folder):
            self._placed = place_marks(self._connection, self._records.marks.values())
        notes: dict[str, str] = {}
        for one in self._placed:
            if one.clip_id and one.mark.note:
                before = notes.get(one.clip_id)
                notes[one.clip_id] = one.mark.note if before is None else f"{before}\n{one.mark.note}"
        favourites = {one.clip_id for one in self._placed if one.clip_id and one.mark.favourite}
        self._favourites, self._notes = json.dumps(sorted(favourites)), json.dumps(notes)
        self._seen_at = at

    def of_filter(self, sql: str) -> None:
        """Read what has changed if a filter asks for it."""
        if "personal_" in sql:
            self.refresh()

    @property
    def records(self) -> PersonalRecords:
        """The records as they are now."""
        self.refresh()
        return self._records

    @property
    def placed(self) -> list[PlacedMark]:
        """The marks with their clips, in the order in which they were made."""
        self.refresh()
        return self._placed

    def length_of(self, clip_id: str) -> float | None:
        """Return the length of a clip in seconds; None where it is not known."""
        with reading(self._connection, self._folder):
            row = self._connection.execute("SELECT duration_s FROM clips WHERE clip_id = ?", (clip_id,)).fetchone()
        return None if row is None else row[0]

    def path_of(self, clip_id: str) -> str:
        """Return the first file of a clip, as the system names it."""
        with reading(self._connection, self._folder):
            row = self._connection.execute(
                "SELECT path FROM files WHERE clip_id = ? AND state = 'indexed' ORDER BY path", (clip_id,)
            ).fetchone()
        if row is None:
            raise LibraryError(f"No file has the clip {clip_id} just now; run evenreel index on its folder.")
        return os.path.abspath(loaded_path(row[0]))
