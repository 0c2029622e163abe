"""The REST API: its routes and their limits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import TypeAdapter

from evenreel.library import Library
from evenreel.library.browsing import BrowseOrder
from evenreel.library.search.hits import SearchResult
from evenreel.library.tried_examples import TriedExample
from evenreel.server import answers
from evenreel.server.answers import Searched
from evenreel.server.desk import Desk
from evenreel.server.peers import Peers
from evenreel.server.people import add_people
from evenreel.server.personal import PersonalApi
from evenreel.server.pictures import PREVIEW_PART_S, Pictures
from evenreel.server.playback import Playback
from evenreel.server.questions import LONGEST_QUERY, Beside, Words, beside
from evenreel.server.records import Clip, Files, Health, ListedClips, Problem, Retry, SearchAnswer, Spoken, Stats
from evenreel.server.retry import Retrier
from evenreel.server.settings import MOST_RESULTS
from evenreel.server.turns import RequestNeeds, Wanted
from evenreel.server.uploads import Uploads

log = logging.getLogger("evenreel")

LATEST_S = 1e6
FILES_AT_ONCE = 200
FURTHEST_FILE = 10**9
EVERYWHERE = (400, 401, 403, 422, 503)
"""Refusals of every address: host, token, origin, a parameter that is none, too many waiting."""
FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
"""Header of what never changes: a clip's id is a digest of its content, and so is what is made from it."""
PICTURE = {
    "required": True,
    "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
}
"""What `POST /api/v1/search/image` takes, in the words of OpenAPI."""

ClipId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="Digest of the clip's content.")]
Sentence = Annotated[
    str,
    Query(
        max_length=LONGEST_QUERY,
        description="What is to be seen, read on screen, said or heard; in quotes, words as they are written and no "
        "pictures; said:, on-screen:, seen: or sounds: before it chooses one of the four.",
    ),
]
BesideIt = Annotated[Beside, Depends(beside)]
Where = Annotated[str | None, Query(max_length=4_000, description="Filter, as `evenreel search --where` takes it.")]
Count = Annotated[int, Query(ge=1, le=MOST_RESULTS, description="How many clips at most.")]
Rerank = Annotated[bool, Query(description="Let the server's matcher order the first clips anew, where it has one.")]
Fold = Annotated[bool, Query(description="Put clips that are nearly the same under the best of them.")]
Seconds = Annotated[float, Query(ge=0, le=LATEST_S, allow_inf_nan=False, description="From the clip's start.")]
PartNumber = Annotated[int, Query(ge=0, le=int(LATEST_S / PREVIEW_PART_S), description="Parts follow one another.")]
Width = Annotated[int, Query(ge=16, le=1280, description="In pixels; the next larger of a few is sent.")]


@dataclass(frozen=True)
class SearchWays:
    """How a sentence is searched for."""

    rerank: Rerank = True
    fold: Fold = True


@dataclass(frozen=True)
class PictureWays:
    """How a picture, or a moment of a clip, is searched for."""

    fold: Fold = True
    q: Words = ""

    @property
    def words(self) -> str | None:
        """What is to be seen beside it; None for nothing."""
        return self.q.strip() or None


class Api:
    """Routes of the API over one library.

    Args:
        desk: runs queries on the library.
        pictures: makes stills and previews.
        uploads: receives and decodes pictures to search by.
        playback: sends the files of clips.
        retrier: indexes again what was set aside.
        peers: the other processes that serve the library; None for none.
    """

    def __init__(
        self,
        desk: Desk,
        pictures: Pictures,
        uploads: Uploads,
        playback: Playback,
        retrier: Retrier,
        peers: Peers | None = None,
    ) -> None:
        self._desk, self._pictures, self._uploads = desk, pictures, uploads
        self._playback, self._retrier, self._peers = playback, retrier, peers or Peers(all_ready=True)

    def router(self) -> APIRouter:
        """Make the router with all routes below `/api/v1`."""
        router = APIRouter(prefix="/api/v1")
        for path, endpoint, about in self._reading():
            router.add_api_route(path, endpoint, methods=["GET"], **about)
            router.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)
        about = _about("Clips with a frame that looks like a picture.", SearchAnswer, 408, 413, 415)
        about["openapi_extra"] = {"requestBody": PICTURE}
        router.add_api_route("/search/image", self.search_image, methods=["POST"], **about)
        about = _about("Try again what was set aside.", Retry)
        router.add_api_route("/retry", self.retry, methods=["POST"], status_code=202, **about)
        PersonalApi(self._desk, _about).add_to(router)
        add_people(router, self._desk, _about("The surest face of a person.", "image/jpeg", 404))
        return router

    def _reading(self) -> list[tuple[str, Callable[..., Any], dict[str, Any]]]:
        media = _about("The clip's file, or ranges of it.", "video/*", 404, 416)
        media["responses"][206] = {**media["responses"][200], "description": "Ranges of the file."}
        return [
            ("/search", self.search, _about("Clips that answer a sentence, best first.", SearchAnswer, 404)),
            ("/clips/{clip_id}/similar", self.similar, _about("Clips that look like a clip.", SearchAnswer, 404)),
            ("/clips/{clip_id}", self.clip, _about("All that is known of a clip.", Clip, 404)),
            ("/clips/{clip_id}/transcripts", self.transcripts, _about("What is said in a clip.", list[Spoken], 404)),
            ("/clips/{clip_id}/media", self.media, media),
            ("/clips/{clip_id}/still", self.still, _about("What is on screen at a time.", "image/jpeg", 404)),
            ("/clips/{clip_id}/preview", self.preview, _about("A part of it, small and silent.", "video/mp4", 404)),
            ("/stats", self.stats, _about("What the library holds and can be filtered by.", Stats)),
            ("/examples", self.examples, _about("Searches that some clip answers.", list[TriedExample])),
            ("/browse", self.browse, _about("Clips without a query, by day or by path.", ListedClips)),
            ("/files", self.files, _about("Files of the library, also those that were set aside.", Files)),
            ("/retry", self.retry_state, _about("How trying again goes.", Retry)),
            ("/health", self.health, _about("Whether the server answers and its model is loaded.", Health)),
        ]

    async def search(
        self,
        q: Sentence,
        more: BesideIt,
        where: Where = None,
        k: Count = 20,
        how: Annotated[SearchWays, Depends()] = SearchWays(),
    ) -> Response:
        """Search clips by what is seen, written and said, see `Library.search`."""
        self._desk.need_model()
        asked = more.asked(q)
        plain = isinstance(asked, str)
        matcher = self._desk.matcher if how.rerank and plain else None
        depth = self._desk.rerank_depth

        def found(library: Library) -> Searched:
            def search(most: int) -> SearchResult:
                return library.search(asked, most, where, rerank=matcher, rerank_depth=depth)

            return Searched(_folded(library, search, k, how.fold), where)

        key = ("text", asked, more.typing, where, k, how, matcher is not None)
        wanted = Wanted(q, everywhere=where is None) if plain else None
        return await self._found(found, key, RequestNeeds(model=True, rerank=matcher is not None, wanted=wanted))

    async def search_image(
        self, request: Request, asked: Annotated[PictureWays, Depends()], where: Where = None, k: Count = 20
    ) -> Response:
        """Search clips by a picture, which is the body of the request, and words beside it."""
        self._desk.need_vision()
        async with self._uploads.picture(request) as pixels:

            def found(library: Library) -> Searched:
                def search(most: int) -> SearchResult:
                    return library.search_pixels(pixels, most, where, words=asked.words)

                return Searched(_folded(library, search, k, asked.fold), where)

            return await self._found(found, needs=RequestNeeds(model=True))

    async def similar(
        self,
        clip_id: ClipId,
        t: Seconds | None = None,
        where: Where = None,
        k: Count = 20,
        asked: Annotated[PictureWays, Depends()] = PictureWays(),
    ) -> Response:
        """Search clips like the one at hand, by the stored frame nearest to `t` or all of them, and words beside it."""

        def found(library: Library) -> Searched:
            def search(most: int) -> SearchResult:
                return library.similar(clip_id, t, most, where, words=asked.words)

            return Searched(_folded(library, search, k, asked.fold), where, left_out=clip_id)

        return await self._found(
            found,
            key=("similar", clip_id, t, where, k, asked),
            needs=None if asked.words is None else RequestNeeds(model=True),
        )

    async def clip(self, clip_id: ClipId) -> Clip:
        """Return a clip with its files, its signs and its notes."""
        return answers.clip_answer(await self._desk.look_up(lambda library: library.clip(clip_id)))

    async def transcripts(self, clip_id: ClipId) -> list[Spoken]:
        """Return what is said in a clip, by each source that says something."""
        return answers.spoken_answer(await self._desk.look_up(lambda library: library.transcripts(clip_id)))

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
        return await self._playback.made(made, "video/mp4")

    async def stats(self) -> Response:
        """Return totals and facets."""
        vision = self._desk.model in {"loading", "ready"}

        def answer(library: Library) -> bytes:
            told = answers.stats_answer(library, vision=vision, opens_folders=self._desk.opens_folders)
            return told.model_dump_json().encode()

        return _json(await self._desk.query_once("stats", answer))

    async def examples(self) -> Response:
        """Return up to three searches, each of which was run and is answered by a clip."""
        self._desk.need_model()
        found = TypeAdapter(list[TriedExample])

        def answer(library: Library) -> bytes:
            return found.dump_json(library.tried_examples())

        return _json(await self._desk.query_once("examples", answer, RequestNeeds(model=True)))

    async def files(
        self,
        state: Literal["indexed", "set_aside", "missing"] | None = None,
        text: Annotated[str, Query(max_length=400, description="Part of a name or folder.")] = "",
        limit: Annotated[int, Query(ge=1, le=FILES_AT_ONCE)] = 50,
        offset: Annotated[int, Query(ge=0, le=FURTHEST_FILE)] = 0,
    ) -> Files:
        """List files by path; past the last there are none."""
        return answers.files_answer(
            await self._desk.query(lambda library: library.files(state, text, limit=limit, offset=offset))
        )

    async def browse(
        self,
        where: Where = None,
        order: BrowseOrder = "latest",
        limit: Annotated[int, Query(ge=1, le=MOST_RESULTS)] = 48,
        offset: Annotated[int, Query(ge=0, le=FURTHEST_FILE)] = 0,
    ) -> Response:
        """List clips without a query; past the last there are none."""

        def answer(library: Library) -> bytes:
            found = library.browse(where, order, limit, offset)
            return answers.browse_answer(found, library.roots()).model_dump_json().encode()

        return _json(await self._desk.query_once(("browse", where, order, limit, offset), answer))

    async def retry(self) -> Retry:
        """Index the folders again, with what was set aside; one run at a time."""
        return await self._desk.query(self._retrier.start)

    async def retry_state(self) -> Retry:
        """Return the state of the run that `retry` started."""
        return self._retrier.state()

    async def health(self) -> Health:
        """Return the state of the server and of its model, which is loading until each worker has it."""
        return Health(status="ok", model=self._desk.model if self._peers.all_ready else "loading")

    async def _found(
        self,
        search: Callable[[Library], Searched],
        key: Hashable = None,
        needs: RequestNeeds | None = None,
    ) -> Response:
        """The answer to a search; where it has a key, one that was given before is given again."""
        notices = self._desk.notices()

        def answer(library: Library) -> bytes:
            began = time.perf_counter()
            searched = search(library)
            took_ms = 1000 * (time.perf_counter() - began)
            return answers.search_answer(library, searched, notices, took_ms).model_dump_json().encode()

        if key is None:
            return _json(await self._desk.query(answer, needs))
        return _json(await self._desk.query_once(key, answer, needs))


def _folded(library: Library, search: Callable[[int], SearchResult], k: int, fold: bool) -> SearchResult:
    return library.folded(search, k) if fold else search(k)


def _about(summary: str, answer: Any, *problems: int) -> dict[str, Any]:
    """What the OpenAPI document says of an address: what it answers with, a record or a media type, and refusals."""
    refusals: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (*EVERYWHERE, *problems)}
    if answer is None:
        return {"summary": summary, "status_code": 204, "response_class": Response, "responses": refusals}
    if isinstance(answer, str):
        sent = {"description": summary, "content": {answer: {"schema": {"type": "string", "format": "binary"}}}}
        return {"summary": summary, "response_class": Response, "responses": {200: sent, **refusals}}
    return {"summary": summary, "response_model": answer, "responses": refusals}


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")
