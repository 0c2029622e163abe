"""Routes of the API for what a person keeps: favourites, notes, saved searches; and for highlights.

Beside those of trying again and of adding folders, whose runs write the catalog, these alone write;
they write its tables of a person's own (`evenreel.library.personal`), and any number of processes may serve it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from evenreel.library import Library, contents
from evenreel.library.people import LONGEST_NAME as PERSON_NAME
from evenreel.library.people import person_still
from evenreel.library.personal import LONGEST_NAME, LONGEST_NOTE, MarkState, PlacedMark, SavedSearch
from evenreel.library.search.unlike import UnlikeClip, UnlikeClips
from evenreel.server.desk import Desk
from evenreel.server.records import (
    LATEST_S,
    LONGEST_QUERY,
    ClipId,
    HiddenText,
    Named,
    Seconds,
    Where,
    about,
    add_reading,
    as_json,
    finite,
    still_address,
)
from evenreel.wording import printable

MOST_HIGHLIGHTS = 100

At = Annotated[
    float | None, Query(ge=0, le=LATEST_S, allow_inf_nan=False, description="The moment; the whole clip without it.")
]
Who = Annotated[str, Query(min_length=1, max_length=PERSON_NAME, description="Name or number of the person.")]
SavedName = Annotated[str, Query(min_length=1, max_length=LONGEST_NAME, description="Name of the saved search.")]


class NewMark(BaseModel):
    """What is to be said of a clip, or of a moment of it; None leaves a favourite or note as it is."""

    time_s: Annotated[float | None, Field(ge=0, le=LATEST_S, allow_inf_nan=False)] = None
    favourite: bool | None = None
    note: Annotated[str | None, Field(max_length=LONGEST_NOTE)] = None


class MarkRecord(BaseModel):
    """A favourite or a note, with the clip that it is on now.

    `clip_id` is that clip; of a clip whose file is gone, the one that it was made for. `state` is `here`, `replaced`
    where the file has another content than it had, or `gone`. `made` is ISO 8601 in UTC.
    """

    clip_id: str
    time_s: float | None
    favourite: bool
    note: str
    made: str
    state: MarkState
    name: str
    folder: str
    duration_s: float | None
    still: str | None


class NewSearch(BaseModel):
    """A search to be saved; its name is the query where it has none."""

    query: Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY)]
    where: Annotated[str | None, Field(max_length=4_000)] = None
    name: Annotated[str | None, Field(max_length=LONGEST_NAME)] = None


class SavedRecord(BaseModel):
    """A saved search; `looked` is when somebody last looked at what it finds, ISO 8601 in UTC."""

    name: str
    query: str
    where: str | None
    looked: str


class SavedNews(BaseModel):
    """What a saved search finds that it had not shown before: ids of these clips, the best first."""

    name: str
    new: list[str]


@dataclass(frozen=True, kw_only=True)
class HighlightedClip(Named, UnlikeClip):
    """A clip that is unlike those before it; `apart` is its cosine distance to the nearest of them."""

    path: HiddenText
    folder: str
    duration_s: Seconds
    still: str


@dataclass(frozen=True, kw_only=True)
class Highlights(UnlikeClips):
    """Clips that are unlike the rest, in the order of choice; `compared` of `total` clips were looked at."""

    clips: tuple[HighlightedClip, ...]

    @staticmethod
    def of(found: UnlikeClips, roots: tuple[str, ...]) -> Highlights:
        clips = tuple(
            HighlightedClip(
                **vars(clip),
                folder=contents.folder_of(clip.path, roots),
                still=still_address(clip.clip_id, clip.time_s),
            )
            for clip in found.clips
        )
        return Highlights(**vars(found) | {"clips": clips})


class PersonalApi:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def add_to(self, router: APIRouter) -> None:
        reading: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
            ("/marks", self.marks, about("Favourites and notes.", list[MarkRecord])),
            ("/saved", self.saved, about("Saved searches.", list[SavedRecord])),
            ("/saved/news", self.news, about("What a saved search finds that is new.", SavedNews, 404)),
            ("/highlights", self.highlights, about("Clips that are unlike the rest.", Highlights)),
            ("/people/still", self.face, about("The surest face of a person.", "image/jpeg", 404)),
        ]
        for path, reads, described in reading:
            add_reading(router, path, reads, described)
        for method, path, writes, described in (
            ("POST", "/clips/{clip_id}/mark", self.mark, about("Make a favourite, write a note.", MarkRecord, 404)),
            ("DELETE", "/clips/{clip_id}/mark", self.unmark, about("Delete a favourite and its note.", None, 404)),
            ("POST", "/saved", self.save, about("Save a search; what it finds now is seen.", SavedRecord)),
            ("DELETE", "/saved", self.remove, about("Delete a saved search.", None, 404)),
            ("POST", "/saved/seen", self.seen, about("The same, and none of it is new from now on.", SavedNews, 404)),
        ):
            router.add_api_route(path, writes, methods=[method], **described)

    async def marks(self) -> list[MarkRecord]:
        """List favourites and notes."""
        return await self._desk.look_up(lambda library: _records(library, library.personal.marks()))

    async def mark(self, clip_id: ClipId, said: NewMark) -> MarkRecord:
        """Make a clip or a moment a favourite, or write a note to it."""

        def written(library: Library) -> MarkRecord:
            mark = library.personal.mark(clip_id, said.time_s, favourite=said.favourite, note=said.note)
            gone = PlacedMark(mark, clip_id, mark.path, "here")  # where it says nothing any more
            return _records(library, [next((one for one in library.personal.marks() if one.mark == mark), gone)])[0]

        return await self._desk.query(written)

    async def unmark(self, clip_id: ClipId, t: At = None) -> Response:
        """Delete what was said of a clip, or of a moment of it."""
        await self._desk.query(lambda library: library.personal.unmark(clip_id, t))
        return Response(status_code=204)

    async def saved(self) -> Sequence[SavedSearch]:
        """List the saved searches."""
        return await self._desk.look_up(lambda library: library.personal.searches())

    async def save(self, search: NewSearch) -> SavedSearch:
        """Save a search."""
        self._desk.need_model()
        name = search.name or None
        return await self._desk.query(
            lambda library: library.personal.save_search(search.query, search.where, name), model=True
        )

    async def remove(self, name: SavedName) -> Response:
        """Delete a saved search."""
        await self._desk.query(lambda library: library.personal.remove_search(name))
        return Response(status_code=204)

    async def news(self, name: SavedName) -> SavedNews:
        """Return what is new, and leave it so."""
        return await self._run(name, keep=True)

    async def seen(self, name: SavedName) -> SavedNews:
        """Return what is new; from now on it is not."""
        return await self._run(name, keep=False)

    async def highlights(
        self,
        where: Where = None,
        k: Annotated[int, Query(ge=1, le=MOST_HIGHLIGHTS, description="How many clips at most.")] = 12,
    ) -> Response:
        """Choose clips that are unlike the rest."""

        def answer(library: Library) -> bytes:
            return as_json(Highlights.of(library.highlights(k=k, where=where), library.roots()))

        content = await self._desk.query_once(("highlights", where, k), answer)
        return Response(content, media_type="application/json")

    async def face(self, who: Who) -> Response:
        """Send the surest face of a person, which no browser keeps: it is gone when the person is forgotten."""
        jpeg = await self._desk.look_up(lambda library: person_still(library.path, who))
        return Response(jpeg, media_type="image/jpeg", headers={"cache-control": "no-store"})

    async def _run(self, name: str, *, keep: bool) -> SavedNews:
        self._desk.need_model()
        found = await self._desk.query(lambda library: library.personal.run_search(name, keep=keep), model=True)
        return SavedNews(name=printable(name), new=[hit.clip_id for hit in found.new])


def _records(library: Library, marks: tuple[PlacedMark, ...] | list[PlacedMark]) -> list[MarkRecord]:
    roots = library.roots()
    return [
        MarkRecord(
            clip_id=one.clip_id or one.mark.clip_id,
            time_s=one.mark.time_s,
            favourite=one.mark.favourite,
            note=one.mark.note,
            made=one.mark.made,
            state=one.state,
            name=printable(PurePath(one.path).name),
            folder=contents.folder_of(one.path, roots),
            duration_s=finite(one.duration_s),
            still=still_address(one.clip_id, one.mark.time_s or (one.duration_s or 0.0) / 2) if one.clip_id else None,
        )
        for one in marks
    ]
