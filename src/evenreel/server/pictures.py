"""Pictures: stills and previews, made once and kept by the content they show; and those that visitors search by.

All are decoded by processes that can be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from fastapi import HTTPException, Request

from evenreel.errors import MediaError
from evenreel.features.pool import TRANSIENT
from evenreel.features.shards import SIDE_PX, read_still
from evenreel.files import replacing
from evenreel.library.contents import Located
from evenreel.library.search.query import decode_image, image_worker
from evenreel.library.store.catalog import STILLS
from evenreel.media.workers import Worker
from evenreel.server.access import received
from evenreel.server.desk import BusyError
from evenreel.server.settings import ServeSettings
from evenreel.types import Pixels

log = logging.getLogger("evenreel")
T = TypeVar("T")

READER = "evenreel.server.picture_reader:PictureReader"
STILL_WIDTHS = (160, 320, 640, 1280)
PREVIEW_PART_S = 60.0
WAITING = 200
"""Most pictures that may be waited for; beyond it those requested first, by pages that were left, are given up."""
PAGE_GAP_S = 0.3
"""Longest pause, in seconds, between the requests of one page; after a longer one, a visitor has turned the page."""
REMEMBERED_S = 600.0
"""Seconds for which a picture that cannot be made is not tried again."""
REMEMBERED = 1_000
EXPORT = "export-"
"""Beginning of the names of folders in the cache in which `evenreel.server.exports` makes files."""
TRIM_SHARE = 1 / 16
"""Share of the cache's limit that may be written between two looks at its size."""
DECODING, QUEUED = 2, 16
"""Most pictures to search by that are decoded at a time in all workers, and that are received or waiting; a decoded one
may take some hundred megabytes."""


class Workers:
    """A few processes that can be killed, each with a thread that waits for it."""

    def __init__(self, name: str, workers: list[Worker]) -> None:
        self._workers, self._idle = workers, SimpleQueue[Worker]()
        for worker in workers:
            self._idle.put(worker)
        self._pool = ThreadPoolExecutor(len(workers), thread_name_prefix=name)

    def run(self, function: Callable[[Worker], T]) -> asyncio.Future[T]:
        """Call a function with one of them, once one is free."""

        def called() -> T:
            worker = self._idle.get()
            try:
                return function(worker)
            finally:
                self._idle.put(worker)

        return asyncio.get_running_loop().run_in_executor(self._pool, called)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._pool.shutdown(wait=True, cancel_futures=True)


@dataclass(eq=False)
class _PictureJob:
    kept: Path
    paint: Callable[[Worker], bytes]
    done: asyncio.Future[bytes]
    page: int
    is_preview: bool = False


class Pictures:
    """Makes stills and previews of files and caches them; those of the latest page come first.

    The small stills that were kept when a clip was indexed are not made again.

    What is kept is named by the clip's id, which is a digest of its content, and only kept if the file was the one that
    was indexed before and after, so that it never goes stale.
    """

    def __init__(self, library: Path, settings: ServeSettings, stills_of: Callable[[str], Path] | None = None) -> None:
        self._settings = settings
        self._stills_of = stills_of or (lambda _: library / STILLS)
        self._under_way: dict[Path, _PictureJob] = {}
        self._waiting: list[_PictureJob] = []
        self._painting = self._painting_previews = 0
        self._page, self._asked_at = 0, 0.0
        self._failed: OrderedDict[Path, tuple[float, MediaError]] = OrderedDict()
        self._written = float("inf")  # since the cache was trimmed: look at the start
        self._lock = threading.Lock()

    def start(self) -> None:
        limits = self._settings.limits
        workers = [Worker(READER, {"limits": asdict(limits)}, limits) for _ in range(self._settings.painters)]
        self._workers = Workers("paint", workers)

    def close(self) -> None:
        self._workers.close()

    async def kept_still(self, clip_id: str, time_s: float, width: int) -> bytes | None:
        """Return a still made before, None without; one made when the clip was indexed is of the nearest moment."""
        return await asyncio.to_thread(self._kept_still, clip_id, time_s, width)

    def _kept_still(self, clip_id: str, time_s: float, width: int) -> bytes | None:
        if _round_up(width) == SIDE_PX and (still := read_still(self._stills_of(clip_id), clip_id, time_s)) is not None:
            return still
        with contextlib.suppress(OSError):
            return self._still_path(clip_id, time_s, width).read_bytes()
        return None

    async def still(self, clip_id: str, file: Located, time_s: float, width: int) -> bytes:
        """Make a JPEG of what is on screen at a time, at most about `width` pixels wide."""
        kept = self._still_path(clip_id, time_s, width)
        task = {"still": file.path, "time_s": time_s, "width": _round_up(width)}
        return await self._made_once(kept, lambda worker: self._paint_still(worker, kept, file, task))

    async def preview(self, clip_id: str, file: Located, part: int) -> Path:
        """Make an mp4 file of a part of a clip; parts are `PREVIEW_PART_S` seconds long."""
        kept = self.preview_path(clip_id, part)
        start_s = part * PREVIEW_PART_S
        task = {"preview": file.path, "start_s": start_s, "end_s": start_s + PREVIEW_PART_S}
        await self._made_once(kept, lambda worker: self._paint_preview(worker, kept, file, task), is_preview=True)
        return kept

    def preview_path(self, clip_id: str, part: int) -> Path:
        return self._place(clip_id, f"{part}-preview.mp4")

    def _still_path(self, clip_id: str, time_s: float, width: int) -> Path:
        return self._place(clip_id, f"{round(time_s * 1000)}-{_round_up(width)}.jpg")

    def _place(self, clip_id: str, name: str) -> Path:
        return self._settings.cache / clip_id[:2] / f"{clip_id}-{name}"

    async def _made_once(self, kept: Path, paint: Callable[[Worker], bytes], *, is_preview: bool = False) -> bytes:
        """Who asks for what another has asked for already waits for the same picture."""
        now = time.monotonic()
        until, error = self._failed.get(kept, (0.0, None))
        if error is not None and now < until:
            raise error
        job = self._under_way.get(kept)
        if job is None:
            self._page += now - self._asked_at > PAGE_GAP_S
            self._asked_at = now
            job = _PictureJob(kept, paint, asyncio.get_running_loop().create_future(), self._page, is_preview)
            self._under_way[kept] = job
            self._waiting.append(job)
            if len(self._waiting) > WAITING:
                oldest = self._waiting.pop(0)
                self._finish(oldest, BusyError("Too many pictures are waited for; try again in a moment."))
            self._go_on()
        return await asyncio.shield(job.done)

    def _go_on(self) -> None:
        """Start what can be started: the latest page first, and stills whatever previews there are."""
        while self._painting < self._settings.painters:
            previews = self._painting_previews < max(1, self._settings.painters - 1)
            ready = [job for job in self._waiting if previews or not job.is_preview]
            if not ready:
                return
            job = max(ready, key=lambda one: one.page)
            self._waiting.remove(job)
            self._painting += 1
            self._painting_previews += job.is_preview
            self._workers.run(job.paint).add_done_callback(partial(self._painted_one, job))

    def _painted_one(self, job: _PictureJob, painted: asyncio.Future[bytes]) -> None:
        self._painting -= 1
        self._painting_previews -= job.is_preview
        if painted.cancelled():
            self._finish(job, BusyError("The server is being ended."))
            return
        error = painted.exception()
        if isinstance(error, MediaError) and error.reason not in TRANSIENT:
            self._failed[job.kept] = (time.monotonic() + REMEMBERED_S, error)
            if len(self._failed) > REMEMBERED:
                self._failed.popitem(last=False)
        self._finish(job, error, b"" if error else painted.result())
        self._go_on()

    def _finish(self, job: _PictureJob, error: BaseException | None, made: bytes = b"") -> None:
        self._under_way.pop(job.kept, None)
        if error is None:
            job.done.set_result(made)
        else:
            job.done.set_exception(error)
            job.done.exception()  # whoever asked may have gone

    def _paint_still(self, worker: Worker, kept: Path, file: Located, task: dict[str, object]) -> bytes:
        made = b"".join(array.tobytes() for _, array in worker.run(task) if array is not None)
        _check_unchanged(file)
        try:
            self._make_cache()
            with replacing(kept) as part:
                part.write_bytes(made)
        except OSError as error:  # it costs speed, nothing else
            log.warning("pictures cannot be kept in %s: %s", self._settings.cache, error.strerror or error)
        self._note_written(len(made))
        return made

    def _paint_preview(self, worker: Worker, kept: Path, file: Located, task: dict[str, object]) -> bytes:
        """Nothing is handed on; the file is what was asked for."""
        self._make_cache()
        with replacing(kept) as part:
            for _ in worker.run({**task, "out": str(part)}):
                pass
            _check_unchanged(file)
            size_bytes = part.stat().st_size
        self._note_written(size_bytes)
        return b""

    def _make_cache(self) -> None:
        """Make the cache folder, readable by this user alone: its pictures may be of private videos."""
        self._settings.cache.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _note_written(self, size_bytes: int) -> None:
        with self._lock:
            self._written += size_bytes
            due = self._written > self._settings.cache_bytes * TRIM_SHARE / self._settings.workers
            self._written = 0 if due else self._written
        if due:
            trim(self._settings.cache, round(self._settings.cache_bytes * (1 - TRIM_SHARE)))


def trim(folder: Path, most_bytes: int) -> None:
    """Delete the oldest files of a cache until at most `most_bytes` are left."""
    found: list[tuple[float, int, str]] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(EXPORT)]  # what is just being made or sent
        for name in names:
            with contextlib.suppress(OSError):
                stat = os.stat(os.path.join(place, name))
                found.append((stat.st_mtime, stat.st_size, os.path.join(place, name)))
    excess = sum(size for _, size, _ in found) - most_bytes
    for _, size, path in sorted(found):
        if excess <= 0:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
            excess -= size


def _round_up(width: int) -> int:
    return next((known for known in STILL_WIDTHS if known >= width), STILL_WIDTHS[-1])


def _check_unchanged(file: Located) -> None:
    """What was painted belongs to the clip only if the file was its file until now."""
    try:
        unchanged = file.is_unchanged(os.stat(file.path, follow_symlinks=False))
    except OSError:
        unchanged = False
    if not unchanged:
        raise MediaError("changed_while_reading", "the file has changed since it was indexed")


class Uploads:
    """Receives and decodes pictures; a few at a time, and a few more that wait for their turn."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._decoding, self._free = settings.share(DECODING), settings.share(QUEUED)
        self._turns = asyncio.Semaphore(self._decoding)

    def start(self) -> None:
        self._workers = Workers("decode", [image_worker(self._settings.image_limits) for _ in range(self._decoding)])

    def close(self) -> None:
        self._workers.close()

    @contextlib.asynccontextmanager
    async def picture(self, request: Request) -> AsyncIterator[Pixels]:
        """Receive and decode the picture of a request, (H, W, 3); the next one is decoded when the block has ended."""
        if not self._free:
            raise BusyError("Other pictures are being searched for; try again in a moment.")
        self._free -= 1
        try:
            content = await self._receive(request)
            async with self._turns:
                yield await self._workers.run(partial(decode_image, content))
        finally:
            self._free += 1

    async def _receive(self, request: Request) -> bytes:
        """The body of a request, within the limits of size and time."""
        kind = request.headers.get("content-type", "")
        if not kind.startswith(("image/", "application/octet-stream")):
            raise HTTPException(415, "Send the picture itself as the body, with its type, for example image/jpeg.")
        most = self._settings.max_upload_bytes
        refusal = HTTPException(413, f"The picture is too large; at most {most >> 20} MiB are read.")
        declared = request.headers.get("content-length", "0")
        if not declared.isdecimal() or len(declared) > len(str(most)) or int(declared) > most:
            raise refusal
        try:
            body = await received(request.receive, most, self._settings.upload_timeout_s)
        except asyncio.TimeoutError as error:
            raise HTTPException(408, "The picture came too slowly; send it again.") from error
        if len(body) > most:
            raise refusal
        return body
