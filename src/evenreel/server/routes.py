"""The REST API: what can be asked, within which limits."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Hashable
from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from fastapi.responses import FileResponse

from evenreel.config import MediaLimits
from evenreel.errors import NotFoundError
from evenreel.library import Library
from evenreel.library.image import read_image
from evenreel.server import answers
from evenreel.server.desk import BusyError, Desk
from evenreel.server.media_files import OpenedFile, media_type, open_beneath
from evenreel.server.pictures import PREVIEW_PART_S, Pictures
from evenreel.server.records import Clip, Files, Health, Problem, Retry, SearchAnswer, Stats
from evenreel.server.retry import Retrier
from evenreel.server.settings import MOST_RESULTS, ServeSettings
from evenreel.types import SearchResult

log = logging.getLogger("evenreel")

LATEST_S = 1e6
FILES_AT_ONCE = 200
FURTHEST_FILE = 10**9
UPLOADS = 2
"""Pictures that are received and decoded at a time; decoded, each may take some hundred megabytes."""
FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
"""A clip's id is a digest of its content, so what is made from it never changes."""

ClipId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="Digest of the clip's content.")]
Where = Annotated[str | None, Query(max_length=4_000, description="Filter, as `evenreel search --where` takes it.")]
Count = Annotated[int, Query(ge=1, le=MOST_RESULTS, description="How many clips at most.")]
Seconds = Annotated[float, Query(ge=0, le=LATEST_S, allow_inf_nan=False, description="From the clip's start.")]
PartNumber = Annotated[int, Query(ge=0, le=int(LATEST_S / PREVIEW_PART_S), description="Parts follow one another.")]
Width = Annotated[int, Query(ge=16, le=1280, description="In pixels; the next larger of a few is sent.")]


class Api:
    """The routes, over one library.

    Args:
        desk: asks the library.
        pictures: makes stills and previews.
        retrier: tries again what was set aside.
        settings: limits of uploads.
    """

    def __init__(self, desk: Desk, pictures: Pictures, retrier: Retrier, settings: ServeSettings) -> None:
        self._desk, self._pictures, self._retrier, self._settings = desk, pictures, retrier, settings
        self._uploads = 0

    def router(self) -> APIRouter:
        """All routes below `/api`."""
        router = APIRouter(prefix="/api")
        for path, endpoint, about in (
            ("/search", self.search, _about("Clips that answer a sentence, best first.", 400, 503)),
            (
                "/clips/{clip_id}/similar",
                self.similar,
                _about("Clips that look like a moment of a clip.", 400, 404, 503),
            ),
            ("/clips/{clip_id}", self.clip, _about("All that is known of a clip.", 404, 503)),
            ("/clips/{clip_id}/media", self.media, _about("The clip's file, or ranges of it.", 404, 503)),
            ("/clips/{clip_id}/still", self.still, _about("A JPEG of what is on screen at a time.", 404, 503)),
            ("/clips/{clip_id}/preview", self.preview, _about("A small silent mp4 of a part of it.", 404, 503)),
            ("/stats", self.stats, _about("What the library holds and can be filtered by.", 503)),
            ("/files", self.files, _about("Files of the library, also those that were set aside.", 503)),
            ("/retry", self.retry_state, _about("How trying again goes.")),
            ("/health", self.health, _about("Whether the server answers and its model is loaded.")),
        ):
            router.add_api_route(path, endpoint, methods=["GET"], **about)
            router.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)
        router.add_api_route(
            "/search/image",
            self.search_image,
            methods=["POST"],
            openapi_extra={"requestBody": PICTURE},
            **_about("Clips with a frame that looks like a picture.", 400, 408, 413, 415, 503),
        )
        router.add_api_route(
            "/retry", self.retry, methods=["POST"], status_code=202, **_about("Try again what was set aside.", 503)
        )
        return router

    async def search(
        self,
        q: Annotated[str, Query(description="What is to be seen, or read on screen.")],
        where: Where = None,
        k: Count = 20,
    ) -> SearchAnswer:
        """Clips by what is seen and by what is written, see `Library.search`."""
        self._desk.need_model()
        return await self._found(("text", q, where, k), where, lambda library: library.search(q, k, where))

    async def search_image(self, request: Request, where: Where = None, k: Count = 20) -> SearchAnswer:
        """Clips by a picture, which is the body of the request."""
        self._desk.need_vision()
        if self._uploads >= UPLOADS:
            raise BusyError("Other pictures are being searched for; try again in a moment.")
        self._uploads += 1
        try:
            picture = await self._received(request)
            pixels = await asyncio.to_thread(read_image, picture, MediaLimits())
            return await self._found(None, where, lambda library: library.search_pixels(pixels, k, where))
        finally:
            self._uploads -= 1

    async def similar(
        self, clip_id: ClipId, t: Seconds | None = None, where: Where = None, k: Count = 20
    ) -> SearchAnswer:
        """Clips like the one at hand, by the stored frame nearest to `t`, or by all of its frames."""
        key = ("similar", clip_id, t, where, k)
        return await self._found(key, where, lambda library: library.similar(clip_id, t, k, where))

    async def clip(self, clip_id: ClipId) -> Clip:
        """A clip with its files, its signs and what was noted about it."""
        return answers.clip_answer(await self._desk.ask(lambda library: library.clip(clip_id)))

    async def media(self, clip_id: ClipId) -> Response:
        """The file as it is, for a player."""
        detail = await self._desk.ask(lambda library: library.clip(clip_id))
        path, descriptor = await self._opened(clip_id)
        return OpenedFile(descriptor, media_type(detail.container, detail.codec), answers.clean(PurePath(path).name))

    async def still(self, clip_id: ClipId, t: Seconds = 0.0, width: Width = 320) -> Response:
        """What is on screen at a time."""
        picture = await self._pictures.still(clip_id, await self._readable(clip_id), t, width)
        return Response(picture, media_type="image/jpeg", headers=FOR_EVER)

    async def preview(self, clip_id: ClipId, part: PartNumber = 0) -> Response:
        """For browsers that cannot show the file: made once, then kept."""
        made = await self._pictures.preview(clip_id, await self._readable(clip_id), part)
        return FileResponse(made, media_type="video/mp4", headers=FOR_EVER)

    async def stats(self) -> Stats:
        """Totals and facets."""
        return await self._desk.ask_once("stats", answers.stats_answer)

    async def files(
        self,
        state: Literal["indexed", "set_aside", "missing"] | None = None,
        text: Annotated[str, Query(max_length=400, description="Part of a name or folder.")] = "",
        limit: Annotated[int, Query(ge=1, le=FILES_AT_ONCE)] = 50,
        offset: Annotated[int, Query(ge=0, le=FURTHEST_FILE)] = 0,
    ) -> Files:
        """Files by path; past the last there are none."""
        return answers.files_answer(
            await self._desk.ask(lambda library: library.files(state, text, limit=limit, offset=offset))
        )

    async def retry(self) -> Retry:
        """Look through the folders again, also at what was set aside; once at a time."""
        return await self._desk.ask(self._retrier.start)

    async def retry_state(self) -> Retry:
        """How that goes."""
        return self._retrier.state()

    async def health(self) -> Health:
        """For a machine that watches over this one."""
        return Health(status="ok", model=self._desk.model, sentence=answers.clean(self._desk.trouble))

    async def _found(self, key: Hashable, where: str | None, search: Callable[[Library], SearchResult]) -> SearchAnswer:
        """The answer to a search; where it has a key, one that was given before is given again."""
        began, notices = time.perf_counter(), self._desk.notices()

        def question(library: Library) -> SearchAnswer:
            return answers.search_answer(library, search(library), where, notices)

        answer = await (self._desk.ask(question) if key is None else self._desk.ask_once(key, question))
        return answer.model_copy(update={"took_ms": 1000 * (time.perf_counter() - began)})

    async def _readable(self, clip_id: str) -> str:
        """The path of a file of a clip that is there and may be read."""
        path, descriptor = await self._opened(clip_id)
        os.close(descriptor)
        return path

    async def _opened(self, clip_id: str) -> tuple[str, int]:
        """The path of a file of a clip, and its descriptor, which the caller closes.

        Raises:
            NotFoundError: no file of it is there any more.
        """
        for place in await self._desk.ask(lambda library: library.locate(clip_id)):
            try:
                return place.path, await asyncio.to_thread(open_beneath, place.root, place.path)
            except OSError as error:
                log.info("%s cannot be opened: %s", answers.clean(place.path), error.strerror or error)
        raise NotFoundError("The file is not there any more; is its disk connected? `evenreel index` looks again.")

    async def _received(self, request: Request) -> bytes:
        """The body of a request, within the limits of size and time."""
        kind = request.headers.get("content-type", "")
        if not kind.startswith(("image/", "application/octet-stream")):
            raise HTTPException(415, "Send the picture itself as the body, with its type, for example image/jpeg.")
        declared = request.headers.get("content-length", "0")
        most = self._settings.max_upload_bytes
        if not declared.isdecimal() or int(declared) > most:
            raise HTTPException(413, f"The picture is too large; at most {most >> 20} MiB are read.")
        try:
            return await asyncio.wait_for(_body(request, most), self._settings.upload_timeout_s)
        except asyncio.TimeoutError as error:
            raise HTTPException(408, "The picture came too slowly; send it again.") from error


PICTURE = {
    "required": True,
    "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
}


def _about(summary: str, *problems: int) -> dict[str, Any]:
    return {"summary": summary, "responses": {code: {"model": Problem} for code in (*problems, 422)}}


async def _body(request: Request, most: int) -> bytes:
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > most:
            raise HTTPException(413, f"The picture is too large; at most {most >> 20} MiB are read.")
    return bytes(received)
