"""The REST API: its routes, what they take, and their limits.

Beside trying again and adding folders, whose runs write the catalog, marks and saved searches alone write: tables of a
person's own (`evenreel.library.personal`), which any number of processes may serve.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import StringConstraints, TypeAdapter

from evenreel.errors import UsageError
from evenreel.library import Library, Marked, Then, UnfinishedText, Without
from evenreel.library.contents import BrowseOrder, TriedExample
from evenreel.library.people import LONGEST_NAME as PERSON_NAME
from evenreel.library.people import person_still
from evenreel.library.personal import LONGEST_NAME, PlacedMark, SavedSearch
from evenreel.library.search.asking import (
    MOST_MARKS,
    MOST_WITHIN_S,
    ONE_QUERY,
    WITHIN_S,
    Question,
    read_mark,
    read_question,
)
from evenreel.library.search.result import SearchResult
from evenreel.server.adding import Adder
from evenreel.server.desk import Desk
from evenreel.server.media import Playback, SentAs
from evenreel.server.pictures import PREVIEW_PART_S, Pictures, Uploads
from evenreel.server.records import (
    LATEST_S,
    LONGEST_QUERY,
    Clip,
    ClipId,
    Files,
    Health,
    Highlights,
    ListedClips,
    MarkRecord,
    NewMark,
    NewSearch,
    Retry,
    SavedNews,
    SavedRecord,
    SearchAnswer,
    Spoken,
    Stats,
    Where,
    about,
    add_reading,
    as_json,
    mark_records,
)
from evenreel.server.settings import MOST_RESULTS
from evenreel.wording import printable

FILES_AT_ONCE = 200
FURTHEST_FILE = 10**9
MOST_HIGHLIGHTS = 100
FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
"""Header of what never changes: a clip's id is a digest of its content, and so is what is made from it."""
PICTURE = {
    "required": True,
    "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
}
"""What `POST /api/v1/search/image` takes, in the words of OpenAPI."""

Sentence = Annotated[
    str,
    Query(
        max_length=LONGEST_QUERY,
        description="What is to be seen, read on screen, said or heard; in quotes, words as they are written and no "
        "pictures; said:, on-screen:, seen: or sounds: before it chooses one of the four.",
    ),
]
Marks = list[Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}(@[0-9]{1,7}(\.[0-9]{1,6})?)?$")]]
Words = Annotated[
    str, Query(max_length=LONGEST_QUERY, description="What is to be seen beside what the picture shows: 'at night'.")
]
Count = Annotated[int, Query(ge=1, le=MOST_RESULTS, description="How many clips at most.")]
Rerank = Annotated[bool, Query(description="Let the server's matcher order the first clips anew, where it has one.")]
Fold = Annotated[bool, Query(description="Put clips that are nearly the same under the best of them.")]
Seconds = Annotated[float, Query(ge=0, le=LATEST_S, allow_inf_nan=False, description="From the clip's start.")]
PartNumber = Annotated[int, Query(ge=0, le=int(LATEST_S / PREVIEW_PART_S), description="Parts follow one another.")]
Width = Annotated[int, Query(ge=16, le=1280, description="In pixels; the next larger of a few is sent.")]

At = Annotated[
    float | None, Query(ge=0, le=LATEST_S, allow_inf_nan=False, description="The moment; the whole clip without it.")
]
Who = Annotated[str, Query(min_length=1, max_length=PERSON_NAME, description="Name or number of the person.")]
SavedName = Annotated[str, Query(min_length=1, max_length=LONGEST_NAME, description="Name of the saved search.")]


def asked_for(
    q: Sentence,
    then: Annotated[str, Query(max_length=LONGEST_QUERY, description="What is to come after `q` in a clip.")] = "",
    within: Annotated[
        float,
        Query(gt=0, le=MOST_WITHIN_S, allow_inf_nan=False, description="Most seconds from one moment to the other."),
    ] = WITHIN_S,
    right: Annotated[Marks, Query(max_length=MOST_MARKS, description="Clips that are it: ID or ID@SECONDS.")] = [],  # noqa: B006
    wrong: Annotated[Marks, Query(max_length=MOST_MARKS, description="Clips that are not it.")] = [],  # noqa: B006
    typing: Annotated[
        bool, Query(description="The sentence is still typed: its last word may be the beginning of one.")
    ] = False,
) -> tuple[Question, bool]:
    """What is asked of the library with a sentence, which with `then` is not looked through for one; and `typing`."""
    made = UnfinishedText if typing else str
    asked: str | Then | Without = Then(q, made(then), within) if then.strip() else read_question(made(q), within)
    marks = (*(read_mark(one, right=True) for one in right), *(read_mark(one, right=False) for one in wrong))
    if not marks:
        return asked, typing
    if not isinstance(asked, str):
        raise UsageError(ONE_QUERY)
    return Marked(asked, marks), typing


@dataclass(frozen=True)
class PictureWays:
    """How a picture, or a moment of a clip, is searched for."""

    fold: Fold = True
    q: Words = ""

    @property
    def words(self) -> str | None:
        """What is to be seen beside it; None for nothing."""
        return self.q.strip() or None


@dataclass(frozen=True)
class Wanted:
    """A search that is to be run: for `k` clips that pass `where`, but for the one that it cannot find (`left_out`)."""

    search: Callable[[Library, int], SearchResult]
    k: int
    where: str | None
    fold: bool
    left_out: str | None = None


class Api:
    """Routes of the API over one library."""

    def __init__(self, desk: Desk, pictures: Pictures, uploads: Uploads, playback: Playback, adder: Adder) -> None:
        self._desk, self._pictures, self._uploads = desk, pictures, uploads
        self._playback, self._adder = playback, adder

    def router(self) -> APIRouter:
        """Make the router with all routes below `/api/v1`."""
        router = APIRouter(prefix="/api/v1")
        for path, endpoint, described in self._reading():
            add_reading(router, path, endpoint, described)
        described = about("Clips with a frame that looks like a picture.", SearchAnswer, 408, 413, 415)
        described["openapi_extra"] = {"requestBody": PICTURE}
        router.add_api_route("/search/image", self.search_image, methods=["POST"], **described)
        described = about("Try again what was set aside.", Retry)
        router.add_api_route("/retry", self.retry, methods=["POST"], status_code=202, **described)
        for method, path, writes, described in (
            ("POST", "/clips/{clip_id}/mark", self.mark, about("Make a favourite, write a note.", MarkRecord, 404)),
            ("DELETE", "/clips/{clip_id}/mark", self.unmark, about("Delete a favourite and its note.", None, 404)),
            ("POST", "/saved", self.save, about("Save a search; what it finds now is seen.", SavedRecord)),
            ("DELETE", "/saved", self.remove, about("Delete a saved search.", None, 404)),
            ("POST", "/saved/seen", self.seen, about("The same, and none of it is new from now on.", SavedNews, 404)),
        ):
            router.add_api_route(path, writes, methods=[method], **described)
        return router

    def _reading(self) -> list[tuple[str, Callable[..., Any], dict[str, Any]]]:
        media = about("The clip's file, or ranges of it.", "video/*", 404, 416)
        media["responses"][206] = {**media["responses"][200], "description": "Ranges of the file."}
        return [
            ("/search", self.search, about("Clips that answer a sentence, best first.", SearchAnswer, 404)),
            ("/clips/{clip_id}/similar", self.similar, about("Clips that look like a clip.", SearchAnswer, 404)),
            ("/clips/{clip_id}", self.clip, about("All that is known of a clip.", Clip, 404)),
            ("/clips/{clip_id}/transcripts", self.transcripts, about("What is said in a clip.", list[Spoken], 404)),
            ("/clips/{clip_id}/media", self.media, media),
            ("/clips/{clip_id}/still", self.still, about("What is on screen at a time.", "image/jpeg", 404)),
            ("/clips/{clip_id}/preview", self.preview, about("A part of it, small and silent.", "video/mp4", 404)),
            ("/stats", self.stats, about("What the library holds and can be filtered by.", Stats)),
            ("/examples", self.examples, about("Searches that some clip answers.", list[TriedExample])),
            ("/browse", self.browse, about("Clips without a query, by day or by path.", ListedClips)),
            ("/files", self.files, about("Files of the library, also those that were set aside.", Files)),
            ("/retry", self.retry_state, about("How trying again goes.", Retry)),
            ("/health", self.health, about("Whether the server answers and its model is loaded.", Health)),
            ("/marks", self.marks, about("Favourites and notes.", list[MarkRecord])),
            ("/saved", self.saved, about("Saved searches.", list[SavedRecord])),
            ("/saved/news", self.news, about("What a saved search finds that is new.", SavedNews, 404)),
            ("/highlights", self.highlights, about("Clips that are unlike the rest.", Highlights)),
            ("/people/still", self.face, about("The surest face of a person.", "image/jpeg", 404)),
        ]

    async def search(
        self,
        sentence: Annotated[tuple[Question, bool], Depends(asked_for)],
        where: Where = None,
        k: Count = 20,
        rerank: Rerank = True,
        fold: Fold = True,
    ) -> Response:
        """Search clips by what is seen, written and said, see `Library.search`."""
        self._desk.need_model()
        asked, typing = sentence
        matcher = self._desk.matcher if rerank and isinstance(asked, str) else None
        depth = self._desk.rerank_depth

        def found(library: Library, most: int) -> SearchResult:
            return library.search(asked, most, where, rerank=matcher, rerank_depth=depth)

        key = ("text", asked, typing, where, k, fold, matcher is not None)
        return await self._found(Wanted(found, k, where, fold), key, rerank=matcher is not None)

    async def search_image(
        self, request: Request, asked: Annotated[PictureWays, Depends()], where: Where = None, k: Count = 20
    ) -> Response:
        """Search clips by a picture, which is the body of the request, and words beside it."""
        self._desk.need_vision()
        async with self._uploads.picture(request) as pixels:

            def found(library: Library, most: int) -> SearchResult:
                return library.search_image(pixels, most, where, words=asked.words)

            return await self._found(Wanted(found, k, where, asked.fold))

    async def similar(
        self,
        clip_id: ClipId,
        t: Seconds | None = None,
        where: Where = None,
        k: Count = 20,
        asked: Annotated[PictureWays, Depends()] = PictureWays(),
    ) -> Response:
        """Search clips like the one at hand, by the stored frame nearest to `t` or all of them, and words beside it."""

        def found(library: Library, most: int) -> SearchResult:
            return library.similar(clip_id, t, most, where, words=asked.words)

        key, needs_model = ("similar", clip_id, t, where, k, asked), asked.words is not None
        return await self._found(Wanted(found, k, where, asked.fold, clip_id), key, model=needs_model)

    async def clip(self, clip_id: ClipId) -> Response:
        """Return a clip with its files, its signs and its notes."""
        return _json(as_json(Clip.of(await self._desk.look_up(lambda library: library.clip(clip_id)))))

    async def transcripts(self, clip_id: ClipId) -> list[Spoken]:
        """Return what is said in a clip, by each source that says something."""
        return Spoken.of(await self._desk.look_up(lambda library: library.transcripts(clip_id)))

    async def media(self, clip_id: ClipId) -> Response:
        """Send the file as it is, for a player."""
        return await self._playback.media(clip_id)

    async def still(self, clip_id: ClipId, t: Seconds = 0.0, width: Width = 320) -> Response:
        """Send the picture on screen at a time, or the last one where the clip ends before it."""
        clip = await self._desk.locate(clip_id)
        time_s = t if clip.duration_s is None else min(t, clip.duration_s)
        picture = await self._pictures.kept_still(clip_id, time_s, width)
        if picture is None:
            picture = await self._pictures.still(clip_id, await self._playback.unchanged(clip_id, clip), time_s, width)
        return Response(picture, media_type="image/jpeg", headers=FOR_EVER)

    async def preview(self, clip_id: ClipId, part: PartNumber = 0) -> Response:
        """Send a part of a clip re-encoded, for browsers that cannot show the file; made once, then cached."""
        clip = await self._desk.locate(clip_id)
        made = self._pictures.preview_path(clip_id, part)
        if not await asyncio.to_thread(made.is_file):
            made = await self._pictures.preview(clip_id, await self._playback.unchanged(clip_id, clip), part)
        return await self._playback.sent(made, SentAs("video/mp4", made.name, made.stem))

    async def stats(self) -> Response:
        """Return totals and facets."""
        vision = self._desk.model in {"loading", "ready"}

        def answer(library: Library) -> bytes:
            return as_json(Stats.of(library, vision=vision, opens_folders=self._desk.opens_folders))

        return _json(await self._desk.query_once("stats", answer))

    async def examples(self) -> Response:
        """Return up to three searches, each of which was run and is answered by a clip."""
        self._desk.need_model()
        found = TypeAdapter(list[TriedExample])

        def answer(library: Library) -> bytes:
            return found.dump_json(library.tried_examples())

        return _json(await self._desk.query_once("examples", answer, model=True))

    async def files(
        self,
        state: Literal["indexed", "set_aside", "missing"] | None = None,
        text: Annotated[str, Query(max_length=400, description="Part of a name or folder.")] = "",
        limit: Annotated[int, Query(ge=1, le=FILES_AT_ONCE)] = 50,
        offset: Annotated[int, Query(ge=0, le=FURTHEST_FILE)] = 0,
    ) -> Response:
        """List files by path; past the last there are none."""
        page = await self._desk.query(lambda library: library.files(state, text, limit=limit, offset=offset))
        return _json(as_json(Files.of(page)))

    async def browse(
        self,
        where: Where = None,
        order: BrowseOrder = "latest",
        limit: Annotated[int, Query(ge=1, le=MOST_RESULTS)] = 48,
        offset: Annotated[int, Query(ge=0, le=FURTHEST_FILE)] = 0,
    ) -> Response:
        """List clips without a query; past the last there are none."""

        def answer(library: Library) -> bytes:
            return as_json(ListedClips.of(library.browse(where, order, limit, offset), library.roots()))

        return _json(await self._desk.query_once(("browse", where, order, limit, offset), answer))

    async def retry(self) -> Retry:
        """Index the folders again, with what was set aside; one run at a time."""
        return await self._desk.query(self._adder.retry)

    async def retry_state(self) -> Retry:
        """Return the state of the run that `retry` started."""
        return self._adder.retry_state()

    async def health(self) -> Health:
        """Return the state of the server and of its model; of several workers, those of the one that answers."""
        return Health(status="ok", model=self._desk.model)

    async def marks(self) -> list[MarkRecord]:
        """List favourites and notes."""
        return await self._desk.look_up(lambda library: mark_records(library, library.personal.marks()))

    async def mark(self, clip_id: ClipId, said: NewMark) -> MarkRecord:
        """Make a clip or a moment a favourite, or write a note to it."""

        def written(library: Library) -> MarkRecord:
            mark = library.personal.mark(clip_id, said.time_s, favourite=said.favourite, note=said.note)
            gone = PlacedMark(mark, clip_id, mark.path, "here")  # where it says nothing any more
            return mark_records(library, [next((one for one in library.personal.marks() if one.mark == mark), gone)])[0]

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
        return await self._news(name, keep=True)

    async def seen(self, name: SavedName) -> SavedNews:
        """Return what is new; from now on it is not."""
        return await self._news(name, keep=False)

    async def highlights(
        self,
        where: Where = None,
        k: Annotated[int, Query(ge=1, le=MOST_HIGHLIGHTS, description="How many clips at most.")] = 12,
    ) -> Response:
        """Choose clips that are unlike the rest."""

        def answer(library: Library) -> bytes:
            return as_json(Highlights.of(library.highlights(k=k, where=where), library.roots()))

        return _json(await self._desk.query_once(("highlights", where, k), answer))

    async def face(self, who: Who) -> Response:
        """Send the surest face of a person, which no browser keeps: it is gone when the person is forgotten."""
        jpeg = await self._desk.look_up(lambda library: person_still(library.path, who))
        return Response(jpeg, media_type="image/jpeg", headers={"cache-control": "no-store"})

    async def _news(self, name: str, *, keep: bool) -> SavedNews:
        self._desk.need_model()
        found = await self._desk.query(lambda library: library.personal.run_search(name, keep=keep), model=True)
        return SavedNews(name=printable(name), new=[hit.clip_id for hit in found.new])

    async def _found(
        self, wanted: Wanted, key: Hashable = None, *, model: bool = True, rerank: bool = False
    ) -> Response:
        """The answer to a search; where it has a key, one that was given before is given again."""
        notices = self._desk.notices()

        def answer(library: Library) -> bytes:
            began = time.perf_counter()
            search = partial(wanted.search, library)
            result = library.folded(search, wanted.k) if wanted.fold else search(wanted.k)
            took_ms = 1000 * (time.perf_counter() - began)
            favours = library.favours([hit.clip_id for hit in result.hits], wanted.where, wanted.left_out)
            return as_json(SearchAnswer.of(result, library, favours, notices, took_ms))

        if key is None:
            return _json(await self._desk.query(answer, model=model, rerank=rerank))
        return _json(await self._desk.query_once(key, answer, model=model, rerank=rerank))


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")
