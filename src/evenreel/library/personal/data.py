"""What a person keeps in a library, for its users: marks on clips, and saved searches that say what is new."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from evenreel.errors import NotFoundError, UsageError
from evenreel.library.personal.file import changing
from evenreel.library.personal.placed import PersonalView, PlacedMark
from evenreel.library.personal.records import MarkKey, PersonalMark, SavedSearch, moment_of, now
from evenreel.library.search.hits import Hit, SearchResult
from evenreel.wording import printable

NEWEST = 100
"""Clips of a saved search that are looked at for new ones, the best."""

RunSearch = Callable[[str, int, str | None], SearchResult]
"""Function from a query, a number of clips and a filter to a result."""


@dataclass(frozen=True)
class SavedResult:
    """A saved search and what it finds now.

    Attributes:
        saved: the search, as it was last looked at.
        result: what it finds.
        new: the answering hits of the result that it had not shown before.
    """

    saved: SavedSearch
    result: SearchResult
    new: tuple[Hit, ...]


class PersonalData:
    """Favourites, notes and saved searches of an open library.

    They are written beside the catalog, also while another process indexes.
    """

    def __init__(self, folder: Path, view: PersonalView, find: Callable[[str], str], search: RunSearch) -> None:
        self._folder, self._view, self._find, self._search = folder, view, find, search

    def marks(self) -> tuple[PlacedMark, ...]:
        """List the marks with the clips that they are on now, in the order in which they were made."""
        return tuple(self._view.placed)

    def mark(
        self, clip: str, time_s: float | None = None, *, favourite: bool | None = None, note: str | None = None
    ) -> PersonalMark:
        """Make a clip, or a moment of it, a favourite, or write a note to it."""
        clip_id, at = self._find(clip), moment_of(time_s)
        path, before = self._view.path_of(clip_id), self._key_of(clip_id, at)
        if at is not None and (favourite or note):
            self._check_moment(clip_id, at)
        with changing(self._folder) as records:
            known = records.marks.get((clip_id, at)) or records.marks.get(before)
            changed = replace(known or PersonalMark(clip_id, at, made=now()), clip_id=clip_id, path=path)
            changed = changed.changed(favourite, note)
            if before != changed.key or not changed.says_something:
                records.marks.pop(before, None)
            if changed.says_something:
                records.marks[changed.key] = changed
            else:
                records.marks.pop(changed.key, None)
        return changed

    def _check_moment(self, clip_id: str, time_s: float) -> None:
        """Refuse a moment after the end of a clip; what was marked before its length was known can still be deleted."""
        length_s = self._view.length_of(clip_id)
        if length_s is not None and time_s > length_s:
            raise UsageError(f"{time_s:g} s is after the end of the clip, which is {length_s:.2f} s long.")

    def _key_of(self, clip_id: str, time_s: float | None) -> MarkKey:
        """Where the mark of a clip stands: under its own content, or under that which its file had before."""
        keys = [one.mark.key for one in self._view.placed if (one.clip_id, one.mark.time_s) == (clip_id, time_s)]
        own = clip_id, time_s
        return own if own in keys or not keys else keys[0]

    def unmark(self, clip: str, time_s: float | None = None) -> None:
        """Delete the mark of a clip, or of a moment of it; also of a clip whose files are gone."""
        at = moment_of(time_s)
        places = {(one.mark.clip_id, one.mark.time_s) for one in self._view.placed if clip in {one.clip_id, one.path}}
        with changing(self._folder) as records:
            keys = {key for key in records.marks if key[1] == at and (key[0] == clip or key in places)}
            if not keys:
                raise NotFoundError(f"There is no favourite or note on {printable(clip[-80:])!r} at this place.")
            for key in keys:
                del records.marks[key]

    def searches(self) -> tuple[SavedSearch, ...]:
        """List the saved searches, in the order in which they were made."""
        return tuple(self._view.records.searches.values())

    def save_search(self, query: str, where: str | None = None, name: str | None = None) -> SavedSearch:
        """Save a search; what it finds now counts as seen."""
        saved = SavedSearch((name or query).strip(), query.strip(), where)
        if saved.name in self._view.records.searches:
            raise _taken(saved.name)
        saved = saved.looked_at(_ids(_answering(self._search(saved.query, NEWEST, where))))
        with changing(self._folder) as records:
            if saved.name in records.searches:
                raise _taken(saved.name)
            records.searches[saved.name] = saved
        return saved

    def run_search(self, name: str, *, keep: bool = False) -> SavedResult:
        """Run a saved search, and note that its clips have been seen."""
        saved = self._view.records.searches.get(name)
        if saved is None:
            raise _unknown(name)
        result = self._search(saved.query, NEWEST, saved.where)
        answering, seen = _answering(result), frozenset(saved.seen)
        if not keep:
            with changing(self._folder) as records:
                if name in records.searches:
                    records.searches[name] = records.searches[name].looked_at(_ids(answering))
        return SavedResult(saved, result, tuple(hit for hit in answering if hit.clip_id not in seen))

    def remove_search(self, name: str) -> None:
        """Delete a saved search."""
        with changing(self._folder) as records:
            if records.searches.pop(name, None) is None:
                raise _unknown(name)


def _answering(result: SearchResult) -> tuple[Hit, ...]:
    return tuple(hit for hit in result.hits if not hit.weaker)


def _ids(hits: tuple[Hit, ...]) -> tuple[str, ...]:
    return tuple(hit.clip_id for hit in hits)


def _taken(name: str) -> UsageError:
    return UsageError(f"There is a saved search {printable(name)!r}; give another --name, or remove it first.")


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"There is no saved search {printable(name[:80])!r}; evenreel saved list lists them.")
