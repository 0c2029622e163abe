"""What a person keeps in a library: favourites and notes on clips or moments, and searches under a name.

They are tables of the catalog (`evenreel.library.store.user_tables`). A mark belongs to a content, so it stays with a
file that is moved or renamed. Where no file has that content any more, it goes to the clip that has taken its place:
the one whose file is where the marked file was.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from evenreel.errors import LibraryError, NotFoundError, UsageError
from evenreel.files import printable
from evenreel.library.search.result import Hit, SearchResult
from evenreel.library.store.catalog import loaded_path, reading, stored_path
from evenreel.library.store.user_tables import changing

LONGEST_NOTE, LONGEST_NAME, LONGEST_QUERY = 10_000, 200, 2_000  # characters
MOST_MARKS, MOST_SEARCHES, MOST_NOTE_BYTES = 20_000, 1_000, 16 * 2**20
"""Most of a library, of all notes together: the copy of all is written anew with each change."""
MOST_SEEN = 10_000  # clips of a saved search that are known to have been seen, the latest ones
NEWEST = 100  # clips of a saved search that are looked at for new ones, the best
LATEST_S = 1e6
WHOLE_CLIP = -1.0  # time that the catalog has for no moment

MarkState = Literal["here", "replaced", "gone"]
RunSearch = Callable[[str, int, str | None], SearchResult]
"""Function from a query, a number of clips and a filter to a result."""


@dataclass(frozen=True)
class PersonalMark:
    """What a person has said of a clip, or of a moment of it; `path` is the file when it was marked."""

    clip_id: str
    time_s: float | None = None
    favourite: bool = False
    note: str = ""
    path: str = ""
    made: str = ""

    def __post_init__(self) -> None:
        if self.time_s is not None and not (math.isfinite(self.time_s) and 0 <= self.time_s <= LATEST_S):
            raise UsageError(f"{self.time_s} is no time in a clip; give seconds from its start.")
        _check_text(self.note, LONGEST_NOTE, "note")


@dataclass(frozen=True)
class PlacedMark:
    """A mark with the clip that it is on now, None where its file is gone, and a file of that.

    In the state `replaced` the file has another content than when it was marked.
    """

    mark: PersonalMark
    clip_id: str | None
    path: str
    state: MarkState
    duration_s: float | None = None


@dataclass(frozen=True)
class SavedSearch:
    """A search under a name, with the clips that answered when it was last looked at, or before."""

    name: str
    query: str
    where: str | None = None
    seen: tuple[str, ...] = field(default=(), repr=False)
    looked: str = ""

    def __post_init__(self) -> None:
        _check_text(self.name, LONGEST_NAME, "name of a saved search", empty=False)
        _check_text(self.query, LONGEST_QUERY, "query", empty=False)
        _check_text(self.where or "", LONGEST_QUERY * 2, "filter")

    def looked_at(self, clip_ids: tuple[str, ...]) -> SavedSearch:
        seen = (*(one for one in self.seen if one not in set(clip_ids)), *clip_ids)
        return replace(self, seen=seen[-MOST_SEEN:], looked=_now())


@dataclass(frozen=True)
class SavedResult:
    saved: SavedSearch
    result: SearchResult
    new: tuple[Hit, ...]


class PersonalData:
    """Favourites, notes and saved searches of an open library; they can be changed while another process indexes.

    The marks are read again where they or the catalog have changed; the connection has functions for filters by them.
    """

    def __init__(
        self, folder: Path, connection: sqlite3.Connection, find: Callable[[str], str], search: RunSearch
    ) -> None:
        self._folder, self._connection, self._find, self._search = folder, connection, find, search
        self._seen_at: tuple[object, ...] | None = None
        self._placed: list[PlacedMark] = []
        self._favourites, self._notes = "[]", "{}"
        connection.create_function("personal_favourites", 0, lambda: self._favourites)
        connection.create_function("personal_notes", 0, lambda: self._notes)

    def refresh(self) -> None:
        with reading(self._connection, self._folder):
            at = self._connection.execute("PRAGMA data_version").fetchone()
            if at == self._seen_at:
                return
            self._placed = _placed(self._connection)
        notes: dict[str, list[str]] = {}
        for one in self._placed:
            if one.clip_id and one.mark.note:
                notes.setdefault(one.clip_id, []).append(one.mark.note)
        favourites = {one.clip_id for one in self._placed if one.clip_id and one.mark.favourite}
        self._favourites = json.dumps(sorted(favourites))
        self._notes = json.dumps({clip_id: "\n".join(several) for clip_id, several in notes.items()})
        self._seen_at = at

    def marks(self) -> tuple[PlacedMark, ...]:
        """List the marks with the clips that they are on now, in the order in which they were made."""
        self.refresh()
        return tuple(self._placed)

    def mark(
        self, clip: str, time_s: float | None = None, *, favourite: bool | None = None, note: str | None = None
    ) -> PersonalMark:
        clip_id, at = self._find(clip), moment_of(time_s)
        with reading(self._connection, self._folder):
            row = self._connection.execute(
                "SELECT path, duration_s FROM files JOIN clips USING (clip_id)"
                " WHERE clip_id = ? AND state = 'indexed' ORDER BY path",
                (clip_id,),
            ).fetchone()
        if row is None:
            raise LibraryError(f"No file has the clip {clip_id} just now; run evenreel index on its folder.")
        path, length_s = os.path.abspath(loaded_path(row[0])), row[1]
        if at is not None and (favourite or note) and length_s is not None and at > length_s:
            # What was marked before its length was known can still be deleted.
            raise UsageError(f"{at:g} s is after the end of the clip, which is {length_s:.2f} s long.")
        here = [one.mark.clip_id for one in self.marks() if (one.clip_id, one.mark.time_s) == (clip_id, at)]
        with changing(self._folder) as connection:
            known = {mark.clip_id: (number, mark) for number, mark in _marks(connection) if mark.time_s == at}
            # Under its own content, or under that which its file had before.
            held = next((one for one in (clip_id, *here) if one in known), clip_id)
            number, before = known.get(held, (None, PersonalMark(clip_id, at, made=_now())))
            changed = replace(
                before,
                clip_id=clip_id,
                path=path,
                favourite=before.favourite if favourite is None else favourite,
                note=before.note if note is None else note.strip(),
            )
            connection.execute("DELETE FROM marks WHERE number = ?", (number,))
            if changed.favourite or changed.note:
                key = number, clip_id, WHOLE_CLIP if at is None else at
                said = int(changed.favourite), changed.note, stored_path(path), changed.made
                connection.execute("INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?, ?)", (*key, *said))
            _check_room(connection, grown=len(changed.note) > len(before.note))
        return changed

    def unmark(self, clip: str, time_s: float | None = None) -> None:
        """Delete the mark of a clip, or of a moment of it; also of a clip whose files are gone."""
        at = moment_of(time_s)
        held = {one.mark.clip_id for one in self.marks() if clip in {one.clip_id, one.path, one.mark.clip_id}}
        with changing(self._folder) as connection:
            gone = [number for number, mark in _marks(connection) if mark.clip_id in held and mark.time_s == at]
            connection.executemany("DELETE FROM marks WHERE number = ?", [(number,) for number in gone])
            if not gone:
                raise NotFoundError(f"There is no favourite or note on {printable(clip[-80:])!r} at this place.")

    def searches(self) -> tuple[SavedSearch, ...]:
        return tuple(self._saved().values())

    def _saved(self) -> dict[str, SavedSearch]:
        with reading(self._connection, self._folder):
            return _searches(self._connection)

    def save_search(self, query: str, where: str | None = None, name: str | None = None) -> SavedSearch:
        saved = SavedSearch((name or query).strip(), query.strip(), where)
        taken = f"There is a saved search {printable(saved.name)!r}; give another --name, or remove it first."
        if saved.name in self._saved():
            raise UsageError(taken)
        found = self._search(saved.query, NEWEST, where)
        saved = saved.looked_at(tuple(hit.clip_id for hit in found.hits if not hit.weaker))
        with changing(self._folder) as connection:
            if saved.name in _searches(connection):
                raise UsageError(taken)
            connection.execute(
                "INSERT INTO searches (name, query, filter, seen, looked) VALUES (?, ?, ?, ?, ?)",
                (saved.name, saved.query, saved.where, json.dumps(saved.seen), saved.looked),
            )
            _check_room(connection)
        return saved

    def run_search(self, name: str, *, keep: bool = False) -> SavedResult:
        saved = self._saved().get(name)
        if saved is None:
            raise _unknown(name)
        result = self._search(saved.query, NEWEST, saved.where)
        answering = tuple(hit for hit in result.hits if not hit.weaker)
        if not keep:
            with changing(self._folder) as connection:
                if latest := _searches(connection).get(name):
                    latest = latest.looked_at(tuple(hit.clip_id for hit in answering))
                    connection.execute(
                        "UPDATE searches SET seen = ?, looked = ? WHERE name = ?",
                        (json.dumps(latest.seen), latest.looked, name),
                    )
        return SavedResult(saved, result, tuple(hit for hit in answering if hit.clip_id not in saved.seen))

    def remove_search(self, name: str) -> None:
        with changing(self._folder) as connection:
            if not connection.execute("DELETE FROM searches WHERE name = ?", (name,)).rowcount:
                raise _unknown(name)


def moment_of(time_s: float | None) -> float | None:
    if time_s is not None and not math.isfinite(time_s):
        raise UsageError(f"{time_s} is no time in a clip; give seconds from its start.")
    return None if time_s is None else round(float(time_s), 3) + 0.0


def _marks(connection: sqlite3.Connection) -> list[tuple[int, PersonalMark]]:
    rows = connection.execute("SELECT number, clip_id, time_s, favourite, note, path, made FROM marks ORDER BY number")
    found = []
    for number, clip_id, time_s, favourite, note, path, made in rows:
        at = None if time_s == WHOLE_CLIP else time_s
        found.append((number, PersonalMark(clip_id, at, bool(favourite), note, loaded_path(path), made)))
    return found


def _searches(connection: sqlite3.Connection) -> dict[str, SavedSearch]:
    rows = connection.execute("SELECT name, query, filter, seen, looked FROM searches ORDER BY number")
    return {
        name: SavedSearch(name, query, where, tuple(json.loads(seen)), looked)
        for name, query, where, seen, looked in rows
    }


def _check_room(connection: sqlite3.Connection, *, grown: bool = False) -> None:
    """Refuse one more than are kept; notes can be shortened whatever there are."""
    marks, note_bytes = connection.execute(
        "SELECT count(*), coalesce(sum(length(CAST(note AS BLOB))), 0) FROM marks"
    ).fetchone()
    (searches,) = connection.execute("SELECT count(*) FROM searches").fetchone()
    if grown and note_bytes > MOST_NOTE_BYTES:
        raise UsageError(
            f"A library keeps at most {MOST_NOTE_BYTES // 2**20} MiB of notes in all; shorten or delete some first."
        )
    if marks > MOST_MARKS or searches > MOST_SEARCHES:
        raise UsageError(
            f"A library keeps at most {MOST_MARKS:,} favourites and notes, and {MOST_SEARCHES:,} saved searches; "
            "remove some first."
        )


def _placed(connection: sqlite3.Connection) -> list[PlacedMark]:
    """The marks with the clip that each is on in the catalog as it is now."""
    rows = connection.execute(
        "WITH placed AS (SELECT *,"
        " (SELECT min(path) FROM files WHERE files.clip_id = marks.clip_id AND state = 'indexed') AS here,"
        " (SELECT clip_id FROM files WHERE files.path = marks.path AND state = 'indexed') AS other FROM marks)"
        " SELECT here, other, duration_s FROM placed LEFT JOIN clips"
        " ON clips.clip_id = CASE WHEN here IS NULL THEN other ELSE placed.clip_id END ORDER BY number"
    )
    placed = []
    for (_, mark), (here, other, duration_s) in zip(_marks(connection), rows, strict=True):
        if here is not None:
            placed.append(PlacedMark(mark, mark.clip_id, loaded_path(here), "here", duration_s))
        else:
            placed.append(PlacedMark(mark, other, mark.path, "replaced" if other else "gone", duration_s))
    return placed


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"There is no saved search {printable(name[:80])!r}; evenreel saved list lists them.")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _check_text(text: str, most: int, what: str, *, empty: bool = True) -> None:
    if not text.strip() and not empty:
        raise UsageError(f"The {what} is empty; write something.")
    if len(text) > most:
        raise UsageError(f"The {what} has {len(text):,} characters; at most {most:,} are kept.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"The {what} holds bytes that are not text; write it in UTF-8.") from error
