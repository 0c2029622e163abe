"""Opening the files of clips: compared with what was indexed, and sent to players or picture makers."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePath

from evenreel.errors import MediaError, NotFoundError
from evenreel.library.contents import ClipMedia, Located
from evenreel.library.store.identity import SameContent
from evenreel.media.content import FileStamp
from evenreel.server.desk import BusyError, Desk
from evenreel.server.media_files import OpenedFile, SentAs, media_type, open_beneath
from evenreel.server.settings import ServeSettings
from evenreel.wording import printable

log = logging.getLogger("evenreel")

READERS = 8
"""Threads that open and read files; on a disk that does not answer they are all that is held."""
COMPARED_S = 5.0
"""Seconds that a visitor waits while a file is read through; then the answer is 'come back later'."""
COMPARING = 100
"""Most files that may wait to be read through."""
MOST_OF_ALL = 3 / 5
"""Share of the connections that may play at a time, so that the others can still search."""

NOT_HERE = (
    "A published snapshot has no videos, and this one's file is not where it was indexed; it cannot be played here."
)

Compared = asyncio.Future[Located]


class Playback:
    """Opens the files of clips and sends them, in threads of its own."""

    def __init__(self, desk: Desk, settings: ServeSettings) -> None:
        self._desk = desk
        self._playing, self._most = 0, max(1, int(settings.connections * MOST_OF_ALL))
        self._closed = False
        self._same = SameContent(settings.limits.stall_timeout_s, lambda: self._closed)
        self._comparing: dict[tuple[str, FileStamp], Compared] = {}

    def start(self) -> None:
        """Prepare the threads that compare and send files."""
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="play")
        self._comparer = ThreadPoolExecutor(1, thread_name_prefix="compare")

    def close(self) -> None:
        """Stop the threads; files that are being compared are read no further."""
        self._closed = True
        for pool in (self._comparer, self._readers):
            pool.shutdown(wait=False, cancel_futures=True)

    async def media(self, clip_id: str) -> OpenedFile:
        """Send the file of a clip to a player."""
        clip = await self._desk.locate(clip_id)
        file, descriptor = await self._open_unchanged(clip_id, clip)
        name = printable(PurePath(file.path).name)
        return self._send(descriptor, SentAs(media_type(clip.container, clip.codec), name, clip_id))

    async def made(self, path: Path, kind: str) -> OpenedFile:
        """Send a cached file that was made from a clip."""
        return await self.sent(path, SentAs(kind, path.name, path.stem))

    async def sent(self, path: Path, sent_as: SentAs, ended: Callable[[], None] = lambda: None) -> OpenedFile:
        """Send a file of the server's own."""
        flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
        descriptor = await asyncio.get_running_loop().run_in_executor(self._readers, os.open, path, flags)
        return self._send(descriptor, sent_as, ended)

    async def unchanged(self, clip_id: str, clip: ClipMedia) -> Located:
        """Find a readable file of a clip that is unchanged since it was indexed; return it with its present stamp."""
        file, descriptor = await self._open_unchanged(clip_id, clip)
        os.close(descriptor)
        return file

    def _send(self, descriptor: int, sent_as: SentAs, ended: Callable[[], None] = lambda: None) -> OpenedFile:
        if self._playing >= self._most:
            os.close(descriptor)
            raise BusyError("Too many visitors play at the moment; try again in a moment.")
        self._playing += 1
        return OpenedFile(descriptor, sent_as, self._readers, partial(self._ended, ended))

    def _ended(self, ended: Callable[[], None]) -> None:
        self._playing -= 1
        ended()

    async def _open_unchanged(self, clip_id: str, clip: ClipMedia) -> tuple[Located, int]:
        """A file of a clip, and its descriptor, which the caller closes."""
        why, busy = "is not there any more; is its disk connected?", None
        for file in clip.files:
            opening = asyncio.get_running_loop().run_in_executor(self._readers, open_beneath, file.root, file.path)
            try:
                descriptor = await opening
            except (OSError, ValueError) as error:
                log.info("%s cannot be opened: %s", printable(file.path), error)
                continue
            try:
                return await self._compare(clip_id, file, os.fstat(descriptor)), descriptor
            except BusyError as error:
                os.close(descriptor)
                busy = error
            except (MediaError, OSError):
                os.close(descriptor)
                why = "has changed since it was indexed."
            except BaseException:
                os.close(descriptor)
                raise
        if self._desk.followed.is_published:
            raise busy or NotFoundError(NOT_HERE)
        raise busy or NotFoundError(f"The file {why} `evenreel index` looks again.")

    async def _compare(self, clip_id: str, file: Located, found: os.stat_result) -> Located:
        """The file as it is now; it is read through in the background where only its times have changed."""
        if file.is_unchanged(found) or found.st_size != file.stamp.size:
            return self._same.check(clip_id, file, found)
        key = path, stamp = file.path, FileStamp.of(found)
        if key not in self._comparing:
            if len(self._comparing) >= COMPARING:
                raise BusyError("Many files were touched and are being compared; try again in a moment.")
            check = partial(self._same.check, clip_id, file, found)
            self._comparing[key] = asyncio.get_running_loop().run_in_executor(self._comparer, check)
            self._comparing[key].add_done_callback(partial(self._forget, path, stamp))
        try:
            return await asyncio.wait_for(asyncio.shield(self._comparing[key]), COMPARED_S)
        except asyncio.TimeoutError as error:
            raise BusyError(
                "The file was touched since it was indexed and is being compared with what it was; try again soon."
            ) from error

    def _forget(self, path: str, stamp: FileStamp, done: Compared) -> None:
        del self._comparing[path, stamp]
        if not done.cancelled():
            done.exception()  # whoever asked may have gone
