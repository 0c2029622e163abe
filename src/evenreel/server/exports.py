"""Export through the API: made in a process that can be killed, sent as one file, and forgotten; and files of clips in
the file manager of this machine, for whoever sits at it and asked for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import zipfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, Field

from evenreel.errors import MediaError, NotFoundError, UsageError
from evenreel.features.shards import read_still
from evenreel.files import printable
from evenreel.handover import FOR_EDITORS, MEDIA_TYPES, READER, HandoverForm, HandoverSettings
from evenreel.handover.picks import HandoverReport, Pick, Take, file_stem
from evenreel.media.workers import Worker
from evenreel.server.api import LATEST_S, ClipId, about, add_reading
from evenreel.server.desk import BusyError, Desk
from evenreel.server.media import EXPORT, TYPES, Playback, SentAs
from evenreel.server.settings import MOST_RESULTS, ServeSettings, is_near

if TYPE_CHECKING:
    from evenreel.speech import Transcript

log = logging.getLogger("evenreel")

MOST_COPIED_S, MOST_ENCODED_S = 3_600.0, 600.0  # most seconds of all cuts of a request together, copied or encoded anew
MOST_BYTES = 8 * 2**30  # most bytes that the cuts of a request may come to, by the sizes of their files
WAITING = 4  # most requests that are made or waited for at a time
SENDING = 16  # most files that are on their way to visitors; each is kept until it has been sent
PATIENCE_S = 60.0  # seconds for which a visitor may take nothing of a file
LOOKED_AFTER_S = 0.5  # seconds between two looks whether a visitor who waits is still there
NOBODY_THERE = 499  # status of an answer that nobody waits for, as servers note it
ABANDONED_S = 86_400.0  # seconds after which a folder that is still there is nobody's
LONGEST_NOTES = 4_000  # most characters of the header with notes
NOTES = "evenreel-notes"
ZIP = "application/zip"
CUT_TYPES = {".mp4": "video/mp4", ".mov": "video/quicktime", ".mkv": TYPES["matroska"], ".ts": TYPES["mpegts"]}


class ExportStretch(BaseModel):
    """A stretch of a clip, in seconds of the timeline that a player shows; without an end, to that of the clip."""

    clip_id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    start_s: Annotated[float, Field(ge=0, le=LATEST_S, allow_inf_nan=False)] = 0.0
    end_s: Annotated[float | None, Field(ge=0, le=LATEST_S, allow_inf_nan=False)] = None
    words: Annotated[list[Annotated[str, Field(max_length=400)]], Field(max_length=20)] = []


class ExportRequest(BaseModel):
    """What is to be exported: the form, and the stretches in the order in which they are listed.

    `exact` makes frame-accurate cuts, which re-encodes them; `language` is that of subtitles; `title` that of lists,
    and their name.
    """

    form: HandoverForm
    stretches: Annotated[list[ExportStretch], Field(min_length=1, max_length=MOST_RESULTS)]
    exact: bool = False
    language: Annotated[str | None, Field(max_length=35)] = None
    title: Annotated[str, Field(max_length=200)] = "clips"


class ClipPlace(BaseModel):
    """Where a clip's file is on the machine of the server."""

    path: str


class Exports:
    def __init__(self, desk: Desk, playback: Playback, settings: ServeSettings) -> None:
        self._desk, self._playback, self._settings = desk, playback, settings
        self._waiting = self._sending = 0

    def start(self) -> None:
        for left in self._settings.cache.glob(f"{EXPORT}*"):  # of killed servers; younger ones may be a worker's
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > ABANDONED_S:
                    shutil.rmtree(left, ignore_errors=True)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="export")
        self._worker = self._new_worker()

    def _new_worker(self) -> Worker:
        limits = self._settings.limits
        return Worker(READER, {"limits": asdict(limits)}, limits)

    def close(self) -> None:
        self._worker.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def router(self) -> APIRouter:
        router = APIRouter(prefix="/api/v1")
        described = about("Stretches as cuts, lists for editors, tables or subtitles.", ZIP, 404, 413)
        sent = described["responses"][200]["content"]
        for kind in (*MEDIA_TYPES.values(), *CUT_TYPES.values()):
            sent[kind.partition(";")[0]] = sent[ZIP]
        router.add_api_route("/export", self.export, methods=["POST"], **described)
        path = "/clips/{clip_id}/folder"
        add_reading(router, path, self.place, about("Where a clip's file is.", ClipPlace, 404))
        router.add_api_route(path, self.show, methods=["POST"], **about("Show it in the file manager.", ClipPlace, 404))
        return router

    async def export(self, wanted: ExportRequest, request: Request) -> Response:
        """Send a file with the stretches in one form; several files come as a zip file.

        What could not be exported is left out and told in the header `evenreel-notes`, a JSON list of sentences in
        percent encoding, and in a zip file in `notes.txt`.
        """
        for number, most, what in ((self._waiting, WAITING, "made"), (self._sending, SENDING, "sent")):
            if number >= self._settings.share(most):
                raise BusyError(f"Other exports are being {what}; try again in a moment.")
        self._waiting += 1
        try:
            return await self._made(wanted, request)
        finally:
            self._waiting -= 1

    async def _made(self, wanted: ExportRequest, request: Request) -> Response:
        report = HandoverReport()
        near, opens = is_near(request, self._settings), self._settings.open_folders
        takes = await self._takes(wanted, report, full_paths=near and opens)
        if near and not opens and wanted.form in FOR_EDITORS:
            report.note("The list", "names files without their folder; evenreel serve --open-folders writes full paths")
        spoken: dict[str, Sequence[Transcript]] = {}
        if wanted.form in {"srt", "vtt"}:
            ids = {take.pick.clip_id for take in takes}
            spoken = await self._desk.query(lambda library: {one: library.transcripts(one) for one in ids})
        self._settings.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch = tempfile.TemporaryDirectory(dir=self._settings.cache, prefix=EXPORT, ignore_cleanup_errors=True)
        try:
            making = self._pool.submit(self._make, wanted, takes, spoken, report, Path(scratch.name))
            made = await self._while_there(making, request)
            if made is None:
                scratch.cleanup()
                return Response(status_code=NOBODY_THERE)
            path, kind = made
            sent_as = SentAs(kind, path.name, secrets.token_hex(8), to_save=True, patience_s=PATIENCE_S)
            answer = await self._playback.sent(path, sent_as, partial(self._sent, scratch))
        except BaseException:
            scratch.cleanup()
            raise
        self._sending += 1
        if sentences := _sentences(report):
            answer.headers[NOTES] = _as_header(sentences)
        return answer

    def _sent(self, scratch: tempfile.TemporaryDirectory[str]) -> None:
        self._sending -= 1
        scratch.cleanup()

    async def _while_there(self, making: Future[tuple[Path, str]], request: Request) -> tuple[Path, str] | None:
        """Wait for what is being made; None where the visitor has gone, and nothing works for them any more."""
        made = asyncio.wrap_future(making)
        while not (await asyncio.wait([made], timeout=LOOKED_AFTER_S))[0]:
            if not await request.is_disconnected():
                continue
            if not making.cancel():  # it is this one that the only thread makes
                abandoned, self._worker = self._worker, self._new_worker()
                await asyncio.to_thread(abandoned.close)
            await asyncio.gather(made, return_exceptions=True)  # what comes of its end is nobody's fault
            return None
        return made.result()

    async def _takes(self, wanted: ExportRequest, report: HandoverReport, *, full_paths: bool) -> list[Take]:
        """The files of the stretches, compared with what was indexed; the sizes of cuts are checked on the way.

        Who sits here is given full paths, so that an editing program finds the files; others get them from the indexed
        folder on.
        """
        takes, size, length_s = [], 0.0, 0.0
        for stretch in wanted.stretches:
            pick = Pick(stretch.clip_id, stretch.start_s, stretch.end_s or 0.0, {"words": stretch.words})
            try:
                clip = await self._desk.locate(stretch.clip_id)
                if stretch.end_s is None:
                    pick = replace(pick, end_s=clip.duration_s or LATEST_S)
                file = await self._playback.unchanged(stretch.clip_id, clip)
            except NotFoundError as error:
                report.leave_out(Take(pick, "", "", stretch.clip_id), error)
                continue
            shown = file.path if full_paths else os.path.relpath(file.path, file.root)
            takes.append(Take(pick, file.path, shown, PurePath(shown).name, file.stamp))
            taken_s = max(0.0, min(pick.end_s, clip.duration_s or pick.end_s) - pick.start_s)
            length_s += taken_s
            size += file.stamp.size * taken_s / (clip.duration_s or 1.0)
        if wanted.form == "clip":
            most_s = MOST_ENCODED_S if wanted.exact else MOST_COPIED_S
            if length_s > most_s:
                how = "re-encoded" if wanted.exact else "exported"
                raise UsageError(f"The clips are {length_s:,.0f} s long; at most {most_s:,.0f} s are {how} at a time.")
            if size > MOST_BYTES and not wanted.exact:
                most = f"at most {MOST_BYTES >> 30} GiB are exported at a time"
                raise UsageError(f"The clips would take some {size / 2**30:,.1f} GiB; {most}.")
        return takes

    def _make(
        self,
        wanted: ExportRequest,
        takes: Sequence[Take],
        spoken: dict[str, Sequence[Transcript]],
        report: HandoverReport,
        scratch: Path,
    ) -> tuple[Path, str]:
        from evenreel.handover.taking import Handover

        def still(clip_id: str, time_s: float) -> bytes | None:
            return read_still(self._desk.followed.stills_of(clip_id), clip_id, time_s)

        settings = HandoverSettings((wanted.form,), wanted.exact, language=wanted.language)
        handover = Handover(self._worker, lambda clip_id: spoken.get(clip_id, ()), still, settings, report)
        handover.write(takes, scratch / "made", wanted.title)
        if not report.files:
            if whole := [one.sentence for one in report.set_aside if not one.clip_id]:
                raise UsageError(whole[0])
            one = report.set_aside[0]
            sentence = f"{one.sentence.rstrip('.')}."
            raise MediaError("failed", f"{one.path}: {sentence}" if one.path != one.clip_id else sentence)
        if len(report.files) == 1:
            (path,) = report.files
            return path, MEDIA_TYPES.get(wanted.form) or CUT_TYPES.get(path.suffix, "video/*")
        path = scratch / f"{file_stem(wanted.title, 'clips')}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
            for file in report.files:
                archive.write(file, file.name)
                with contextlib.suppress(OSError):
                    file.unlink()
            if sentences := _sentences(report):
                archive.writestr("notes.txt", "\n".join(sentences) + "\n")
        return path, ZIP

    async def place(self, clip_id: ClipId, request: Request) -> ClipPlace:
        return ClipPlace(path=printable(await self._place(clip_id, request)))

    async def show(self, clip_id: ClipId, request: Request) -> ClipPlace:
        path = await self._place(clip_id, request)
        await asyncio.to_thread(show_in_folder, path)
        return ClipPlace(path=printable(path))

    async def _place(self, clip_id: str, request: Request) -> str:
        if not self._settings.open_folders or not is_near(request, self._settings):
            raise HTTPException(
                403,
                "Paths are shown only on the machine that serves the library, with evenreel serve --open-folders.",
            )
        located = await self._desk.locate(clip_id)
        paths = [file.path for file in located.files]
        found = await asyncio.to_thread(lambda: next(filter(os.path.isfile, paths), None))
        if found is None:
            raise NotFoundError("The file is not there any more; is its disk connected?")
        return found


def _sentences(report: HandoverReport) -> list[str]:
    aside = [f"{one.path} was skipped: {one.sentence}" for one in report.set_aside]
    return aside + [f"{name} {sentence}" for name, sentence in report.notes]


def _as_header(sentences: Sequence[str]) -> str:
    """A JSON list in percent encoding; the last ones are left out where it would be too long."""
    kept = list(map(printable, sentences))
    while len(text := urllib.parse.quote(json.dumps(kept, ensure_ascii=False))) > LONGEST_NOTES:
        kept = [*kept[: max(0, len(kept) - 2)], "…"] if len(kept) > 1 else ["See notes.txt."]
    return text


def show_in_folder(path: str) -> None:
    command = {"darwin": ["open", "-R", path], "win32": ["explorer", f"/select,{path}"]}.get(
        sys.platform, ["xdg-open", os.path.dirname(path)]
    )
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(f"This machine has no {command[0]} to open a folder with; copy the path instead.")
    try:
        nowhere = subprocess.DEVNULL
        subprocess.Popen([program, *command[1:]], stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    except OSError as error:
        log.warning("%s cannot be started: %s", program, error)
        raise UsageError(f"{command[0]} cannot be started; copy the path instead.") from error
