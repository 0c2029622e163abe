"""Records of a person's own: marks on clips (a favourite, a note) and searches under a name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from evenreel.errors import UsageError

LONGEST_NOTE = 10_000
LONGEST_NAME = 200
LONGEST_QUERY = 2_000
MOST_MARKS, MOST_SEARCHES = 20_000, 1_000
"""Most of a library: all are written anew with each change."""
MOST_NOTE_BYTES = 16 * 2**20
"""Most of all notes together."""
MOST_SEEN = 10_000
"""Clips of a saved search that are known to have been seen, the latest ones."""
LATEST_S = 1e6

MarkKey = tuple[str, float | None]
"""Clip and time in seconds of a mark; no time is the whole clip."""


@dataclass(frozen=True)
class PersonalMark:
    """What a person has said of a clip, or of a moment of it.

    Attributes:
        clip_id: digest of the clip's content, which stays where its file is moved.
        time_s: the moment, to the millisecond; None for the whole clip.
        favourite: whether it is one.
        note: text of the person; '' for none.
        path: its file when it was marked.
        made: when it was first marked, ISO 8601 in UTC.
    """

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

    @property
    def key(self) -> MarkKey:
        """What no two marks share: the clip and the time."""
        return self.clip_id, self.time_s

    @property
    def says_something(self) -> bool:
        """Whether anything of it is left."""
        return self.favourite or bool(self.note)

    def changed(self, favourite: bool | None, note: str | None) -> PersonalMark:
        """Return the mark with another favourite or note; None leaves it as it is."""
        return replace(
            self,
            favourite=self.favourite if favourite is None else favourite,
            note=self.note if note is None else note.strip(),
        )


@dataclass(frozen=True)
class SavedSearch:
    """A search under a name, with the clips that it has shown.

    Attributes:
        name: its name.
        query: sentence that it looks for.
        where: filter of the search; None for none.
        seen: ids of the clips that answered when it was last looked at, or before.
        looked: when that was, ISO 8601 in UTC; '' for never.
    """

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
        """Return the search after somebody has seen these clips."""
        seen = (*(one for one in self.seen if one not in set(clip_ids)), *clip_ids)
        return replace(self, seen=seen[-MOST_SEEN:], looked=now())


@dataclass
class PersonalRecords:
    """All that a person has put into a library: marks by clip and time, and saved searches by name."""

    marks: dict[MarkKey, PersonalMark] = field(default_factory=dict)
    searches: dict[str, SavedSearch] = field(default_factory=dict)

    @property
    def note_bytes(self) -> int:
        """Size of all notes together."""
        return sum(len(one.note.encode()) for one in self.marks.values())

    def check_room(self, notes_before: int) -> None:
        """Refuse one more than are kept."""
        if self.note_bytes > max(MOST_NOTE_BYTES, notes_before):
            raise UsageError(
                f"A library keeps at most {MOST_NOTE_BYTES // 2**20} MiB of notes in all; shorten or delete some first."
            )
        if len(self.marks) > MOST_MARKS or len(self.searches) > MOST_SEARCHES:
            raise UsageError(
                f"A library keeps at most {MOST_MARKS:,} favourites and notes, and {MOST_SEARCHES:,} saved searches; "
                "remove some first."
            )

    def add(self, table: str, row: Mapping[str, object]) -> None:
        """Add a row of a file, unless there is one of its key."""
        if table == "marks":
            mark = PersonalMark(**row)  # type: ignore[arg-type]
            self.marks.setdefault(mark.key, mark)
        elif table == "searches":
            search = SavedSearch(**{**row, "seen": tuple(row["seen"])})  # type: ignore[arg-type]
            self.searches.setdefault(search.name, search)


def now() -> str:
    """Return the present time, ISO 8601 in UTC to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def moment_of(time_s: float | None) -> float | None:
    """Return a time as marks have it: to the millisecond."""
    if time_s is not None and not math.isfinite(time_s):
        raise UsageError(f"{time_s} is no time in a clip; give seconds from its start.")
    return None if time_s is None else round(float(time_s), 3) + 0.0


def _check_text(text: str, most: int, what: str, *, empty: bool = True) -> None:
    if not text.strip() and not empty:
        raise UsageError(f"The {what} is empty; write something.")
    if len(text) > most:
        raise UsageError(f"The {what} has {len(text):,} characters; at most {most:,} are kept.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"The {what} holds bytes that are not text; write it in UTF-8.") from error
