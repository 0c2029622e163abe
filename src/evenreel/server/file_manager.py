"""Files of clips in the file manager of this machine, for whoever sits at it and asked for that."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import sys
from typing import Any

from fastapi import APIRouter, HTTPException, Request

from evenreel.errors import NotFoundError, UsageError
from evenreel.server.desk import Desk
from evenreel.server.nearby import is_near
from evenreel.server.records import ClipPlace, Problem
from evenreel.server.routes import EVERYWHERE, ClipId
from evenreel.server.settings import ServeSettings
from evenreel.wording import printable

log = logging.getLogger("evenreel")

ELSEWHERE = (
    "Places of files are told only at the machine that the library is served from, by evenreel serve --open-folders."
)


class FileManagerApi:
    """Routes that tell where a clip's file is, and show it in the file manager."""

    def __init__(self, desk: Desk, settings: ServeSettings) -> None:
        self._desk, self._settings = desk, settings

    def router(self) -> APIRouter:
        """Make the router with its routes below `/api/v1`."""
        router = APIRouter(prefix="/api/v1")
        path = "/clips/{clip_id}/folder"
        router.add_api_route(path, self.place, methods=["GET"], **_about("Where a clip's file is."))
        router.add_api_route(path, self.place, methods=["HEAD"], include_in_schema=False)
        router.add_api_route(path, self.show, methods=["POST"], **_about("Show it in the file manager."))
        return router

    async def place(self, clip_id: ClipId, request: Request) -> ClipPlace:
        """Return the path of a clip's first file that is there."""
        self._check_local(request)
        return ClipPlace(path=printable(await self._found(clip_id)))

    async def show(self, clip_id: ClipId, request: Request) -> ClipPlace:
        """Show the file in its folder, in the file manager."""
        self._check_local(request)
        path = await self._found(clip_id)
        await asyncio.to_thread(show_in_folder, path)
        return ClipPlace(path=printable(path))

    async def _found(self, clip_id: str) -> str:
        located = await self._desk.locate(clip_id)
        paths = [file.path for file in located.files]
        found = await asyncio.to_thread(lambda: next(filter(os.path.isfile, paths), None))
        if found is None:
            raise NotFoundError("The file is not there any more; is its disk connected?")
        return found

    def _check_local(self, request: Request) -> None:
        if not self._settings.open_folders or not is_near(request, self._settings):
            raise HTTPException(403, ELSEWHERE)


def show_in_folder(path: str) -> None:
    """Open the folder of a file in the system's file manager, with the file marked where the system can."""
    command = _command(path)
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(f"This machine has no {command[0]} to open a folder with; copy the path instead.")
    try:
        subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        log.warning("%s cannot be started: %s", program, error)
        raise UsageError(f"{command[0]} cannot be started; copy the path instead.") from error


def _command(path: str) -> list[str]:
    if sys.platform == "darwin":
        return ["open", "-R", path]
    if sys.platform == "win32":
        return ["explorer", f"/select,{path}"]
    return ["xdg-open", os.path.dirname(path)]


def _about(summary: str) -> dict[str, Any]:
    refusals: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (*EVERYWHERE, 404)}
    return {"summary": summary, "response_model": ClipPlace, "responses": refusals}
