"""Addresses of the API for adding folders, open to whoever sits at the machine of the server and to nobody else."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request

from evenreel.errors import UsageError
from evenreel.library import Library
from evenreel.library.store.filesystem import is_published
from evenreel.server.adding.adder import Adder
from evenreel.server.adding.places import HomeFolders, count_videos, is_below
from evenreel.server.adding.records import FolderListing, Indexing, IndexingOrder, ModelChoice
from evenreel.server.adding.run import WORDS_ONLY, RunOrder
from evenreel.server.desk import Desk
from evenreel.server.nearby import is_near
from evenreel.server.records import Problem
from evenreel.server.retry import known_places, reads_text
from evenreel.server.settings import ServeSettings, is_loopback
from evenreel.wording import printable

ELSEWHERE = (
    "Folders are added only at the machine that the library is served from, and where evenreel serve has none of the "
    "options --host, --allow-host, --trusted-proxy and --workers."
)
LOOKED_FOR = 100_000
"""Most entries that are looked at to tell whether a folder holds any video."""
DEFAULT = "default"
MODELS = [
    ModelChoice(
        name=DEFAULT,
        label="Pictures and words, best",
        about="Knows what is seen, in many languages. 375 million parameters, fetched from the network once.",
    ),
    ModelChoice(
        name="fast",
        label="Pictures and words, faster",
        about="Takes 3.3 ms a picture where the other takes 5.8 (Immich, on a CPU), and finds a little less.",
    ),
    ModelChoice(
        name=WORDS_ONLY,
        label="Words only",
        about="Finds words on screen, words in subtitles, and names of files. Needs no network.",
    ),
    ModelChoice(
        name="builtin", label="Small model, to try things out", about="Knows coloured shapes only. Needs no network."
    ),
]


class AddingApi:
    """Routes that browse the home folder, and start, pause and stop adding of folders.

    Args:
        desk: runs queries on the library.
        library: folder of the library.
        settings: settings of the server.

    Attributes:
        adder: starts, pauses and stops runs.
    """

    def __init__(self, desk: Desk, library: Path, settings: ServeSettings) -> None:
        self._desk, self._library, self._settings = desk, library, settings
        self.adder = Adder(library, home_folders)

    def router(self) -> APIRouter:
        """Make the router with its routes below `/api/v1`."""
        router = APIRouter(prefix="/api/v1", dependencies=[Depends(self.check_local)])
        about = _about("Folders that can be added.", FolderListing)
        router.add_api_route("/folders", self.folders, methods=["GET"], **about)
        router.add_api_route(
            "/indexing", self.indexing, methods=["GET"], **_about("How adding folders goes.", Indexing)
        )
        about = _about("Start, pause, go on with or stop adding folders.", Indexing)
        router.add_api_route("/indexing", self.order_indexing, methods=["POST"], **about)
        for path, endpoint in (("/folders", self.folders), ("/indexing", self.indexing)):
            router.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)
        return router

    def start(self) -> None:
        """Go on with what was under way when the server ended."""
        if self._settings.workers == 1 and is_loopback(self._settings.host) and not is_published(self._library):
            self.adder.go_on()

    def close(self) -> None:
        """End a run with the server."""
        self.adder.close()

    async def check_local(self, request: Request) -> None:
        """Refuse whoever may not sit at this machine."""
        if self._settings.workers > 1 or not is_near(request, self._settings):
            raise HTTPException(403, ELSEWHERE)

    async def folders(
        self, inside: Annotated[str, Query(max_length=4_096, description="A folder that this address named.")] = ""
    ) -> FolderListing:
        """List the folders in a folder below the home folder, each with the number of its videos."""
        added = await self._desk.query(Library.roots)
        return await asyncio.to_thread(lambda: home_folders().listing(inside, added))

    async def indexing(self) -> Indexing:
        """Return how adding goes, and what a new library can be made with."""
        return await self._with_choices(self.adder.state())

    async def order_indexing(self, order: IndexingOrder) -> Indexing:
        """Do what is asked; the answer says what came of it."""
        if order.action in {"start", "watch"}:
            self.adder.check_free()
            run = await self._run(order)
            return await self._with_choices(await asyncio.to_thread(self.adder.start, run))
        act = {"pause": self.adder.pause, "resume": self.adder.resume, "stop": self.adder.stop}[order.action]
        return await self._with_choices(await asyncio.to_thread(act))

    async def _with_choices(self, told: Indexing) -> Indexing:
        changes: dict[str, Any] = {"can_add": not is_published(self._library)}
        if changes["can_add"] and told.state != "running" and await self._desk.query(_is_new):
            changes["models"] = MODELS
        return told.model_copy(update=changes)

    async def _run(self, order: IndexingOrder) -> RunOrder:
        """The run that is asked for.

        Raises:
            UsageError, NotFoundError: it would not do what is wanted, or cannot be done.
        """
        if is_published(self._library):
            raise UsageError("A published snapshot is only read; add folders to the library that it was made of.")
        if order.model is not None and order.model not in {choice.name for choice in MODELS}:
            raise UsageError(f"There is no choice {printable(order.model)}; GET /api/v1/indexing lists them as models.")
        folder = None if order.folder is None else await asyncio.to_thread(found_folder, order.folder)
        planned = await self._desk.query(lambda library: _planned(library, folder, order.model))
        if order.action != "watch":
            return planned
        if all(map(os.path.isfile, planned.places)):
            raise UsageError("The library holds single files only; add a folder to have it watched.")
        return replace(planned, watch=True)


def home_folders() -> HomeFolders:
    """Return the folders of whoever runs the server.

    Raises:
        UsageError: the system knows no home folder.
    """
    try:
        return HomeFolders(Path.home())
    except RuntimeError as error:
        raise UsageError("The system knows no home folder to choose from; set HOME, or run evenreel index.") from error


def found_folder(path: str) -> Path:
    """Return the folder that a path below the home folder names, which holds a video.

    Raises:
        UsageError: there is none in it, or it may not be chosen.
        NotFoundError: there is no such folder.
    """
    folder = home_folders().find(path)
    counted = count_videos(folder, LOOKED_FOR)
    if not counted.videos and not counted.more:
        raise UsageError(
            f"There is no video in {printable(path) or 'your home folder'}; choose a folder that holds some."
        )
    return folder


def _planned(library: Library, folder: Path | None, model: str | None) -> RunOrder:
    """A run over one more folder, or over all that the library has."""
    if folder is not None and is_below(folder, library.roots()):
        raise UsageError(
            f"{printable(folder.name)} is in the library already; look for new videos in it instead of adding it."
        )
    places = [str(folder)] if folder is not None else known_places(library)[0]
    if not places:
        raise UsageError("No folder of the library is there to be looked at again; add one, or connect its disk.")
    is_new = _is_new(library)
    if model is not None and not is_new:
        raise UsageError("The library has its model already; evenreel reindex --model MODEL exchanges it.")
    return RunOrder(
        library=str(library.path),
        places=tuple(places),
        model=None if model == DEFAULT else model,
        reads_text=is_new or reads_text(library),
    )


def _is_new(library: Library) -> bool:
    """Whether the library can still be made with any model."""
    stats = library.stats()
    return not stats.clips and stats.model is None


def _about(summary: str, answer: Any) -> dict[str, Any]:
    refusals: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (400, 401, 403, 404, 422, 503)}
    return {"summary": summary, "response_model": answer, "responses": refusals}
