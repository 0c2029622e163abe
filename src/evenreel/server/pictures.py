"""Stills and previews: made once by processes that can be killed, kept on disk by the content they show."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from evenreel.errors import EvenreelError
from evenreel.files import TEMPORARY_SUFFIX
from evenreel.media.workers import Worker
from evenreel.server.desk import BusyError
from evenreel.server.settings import ServeSettings

log = logging.getLogger("evenreel")

READER = "evenreel.server.picture_reader:PictureReader"
STILL_WIDTHS = (160, 320, 640, 1280)
PREVIEW_PART_S = 60.0
WAITING = 400
"""Pictures that may be waited for: some pages of stills."""
TRIM_EVERY = 200
"""Pictures made between two looks at how much is kept."""


class Pictures:
    """Makes stills and previews of files and keeps them.

    What is kept is named by the clip's id, which is a digest of its content, so that it never goes stale.

    Args:
        settings: processes, limits, the folder and how much of it may be filled.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._pool = ThreadPoolExecutor(settings.painters, thread_name_prefix="paint")
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        limits = settings.limits
        self._workers = [Worker(READER, {"limits": asdict(limits)}, limits) for _ in range(settings.painters)]
        for worker in self._workers:
            self._idle.put(worker)
        self._lock = threading.Lock()
        self._made = 0
        self._under_way: dict[Path, asyncio.Future[Path | bytes]] = {}

    def close(self) -> None:
        """End the processes at once."""
        for worker in self._workers:
            worker.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def still(self, clip_id: str, path: str, time_s: float, width: int) -> bytes:
        """A JPEG of what is on screen at a time, at most about `width` pixels wide.

        Raises:
            MediaError: the file cannot be read.
            BusyError: too many pictures are waited for.
        """
        width = next((known for known in STILL_WIDTHS if known >= width), STILL_WIDTHS[-1])
        kept = self._place(clip_id, f"{round(time_s * 1000)}-{width}.jpg")
        with contextlib.suppress(OSError):
            return await asyncio.to_thread(kept.read_bytes)
        made = await self._once(kept, lambda: self._paint_still(kept, path, time_s, width))
        return made if isinstance(made, bytes) else await asyncio.to_thread(made.read_bytes)

    async def preview(self, clip_id: str, path: str, part: int) -> Path:
        """An mp4 file of a part of a clip; parts are `PREVIEW_PART_S` long.

        Raises:
            MediaError: the file cannot be read, or ends before this part.
            BusyError: too many pictures are waited for.
            OSError: the cache cannot be written.
        """
        kept = self._place(clip_id, f"{part}-preview.mp4")
        if not await asyncio.to_thread(kept.is_file):
            await self._once(kept, lambda: self._paint_preview(kept, path, part))
        return kept

    async def _once(self, kept: Path, paint: Callable[[], Path | bytes]) -> Path | bytes:
        """Who asks for what another has asked for already waits for the same picture."""
        if kept not in self._under_way:
            if len(self._under_way) >= WAITING:
                raise BusyError("Too many pictures are waited for; try again in a moment.")
            future = asyncio.get_running_loop().run_in_executor(self._pool, paint)
            self._under_way[kept] = future
            future.add_done_callback(lambda _: self._under_way.pop(kept, None))
        return await asyncio.shield(self._under_way[kept])

    def _place(self, clip_id: str, name: str) -> Path:
        return self._settings.cache / clip_id[:2] / f"{clip_id}-{name}"

    def _paint_still(self, kept: Path, path: str, time_s: float, width: int) -> bytes:
        worker = self._idle.get()
        try:
            answers = list(worker.run({"still": path, "time_s": time_s, "width": width}))
        finally:
            self._idle.put(worker)
        picture = answers[0][1]
        if picture is None:
            raise EvenreelError("The picture process sent no picture.")
        made = picture.tobytes()
        self._keep(kept, made)
        return made

    def _paint_preview(self, kept: Path, path: str, part: int) -> Path:
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_name(f".{kept.name}{TEMPORARY_SUFFIX}")
        start_s = part * PREVIEW_PART_S
        task = {"preview": path, "start_s": start_s, "end_s": start_s + PREVIEW_PART_S, "out": str(unfinished)}
        worker = self._idle.get()
        try:
            for _ in worker.run(task):
                pass
            unfinished.replace(kept)
        finally:
            self._idle.put(worker)
            unfinished.unlink(missing_ok=True)
        self._note_made()
        return kept

    def _keep(self, kept: Path, made: bytes) -> None:
        """Keep a picture; a disk that does not take it costs speed, nothing else."""
        unfinished = kept.with_name(f".{kept.name}{TEMPORARY_SUFFIX}")
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(made)
            unfinished.replace(kept)
        except OSError as error:
            log.warning("pictures cannot be kept in %s: %s", self._settings.cache, error.strerror or error)
        self._note_made()

    def _note_made(self) -> None:
        with self._lock:
            self._made += 1
            due = self._made % TRIM_EVERY == 1
        if due:
            trim(self._settings.cache, self._settings.cache_bytes)


def trim(folder: Path, most_bytes: int) -> None:
    """Delete the files of a cache that were written first, until at most `most_bytes` are left."""
    found: list[tuple[float, int, str]] = []
    for place, _, names in os.walk(folder):
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


def part_count(duration_s: float | None) -> int | None:
    """How many preview parts a clip has; None where its length is not known."""
    return None if duration_s is None else max(1, -int(-duration_s // PREVIEW_PART_S))
