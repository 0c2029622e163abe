"""The files of clips: opened in an indexed folder, compared with what was indexed, and sent to players, in ranges.

Only what is regular and reached through no link is opened. Files are read in threads of their own, so that players and
searches leave each other room.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from evenreel.errors import MediaError, NotFoundError
from evenreel.library.contents import ClipMedia, Located, SameContent
from evenreel.media.workers import FileStamp
from evenreel.server.desk import BusyError, Desk
from evenreel.server.settings import ServeSettings
from evenreel.wording import printable

log = logging.getLogger("evenreel")

TYPES = {
    "mp4": "video/mp4",
    "matroska": "video/x-matroska",
    "avi": "video/x-msvideo",
    "ogg": "video/ogg",
    "mpegts": "video/mp2t",
    "gif": "image/gif",
    "apng": "image/apng",
}
CODECS = {
    "h264": "avc1.640028",
    "hevc": "hvc1.1.6.L120.90",
    "vp8": "vp8",
    "vp9": "vp09.00.40.08",
    "av1": "av01.0.08M.08",
    "libdav1d": "av01.0.08M.08",
    "theora": "theora",
}
"""Codec as a browser is asked about it, by its name in FFmpeg: an ordinary profile of each."""
IN_WEBM = frozenset({"vp8", "vp9", "av1", "libdav1d"})
CHUNK_BYTES = 2**18
"""Bytes of a file that are read at a time to be sent."""
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

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def media_type(container: str, codec: str) -> str:
    """Return the media type of a file for browsers (`canPlayType` and Content-Type).

    >>> media_type("mp4", "h264"), media_type("avi", "mpeg4"), media_type("matroska", "vp8")
    ('video/mp4; codecs="avc1.640028"', 'video/x-msvideo', 'video/webm; codecs="vp8"')
    """
    kind = TYPES.get(container, "application/octet-stream")
    if container == "matroska" and codec in IN_WEBM:
        kind = "video/webm"
    return f'{kind}; codecs="{CODECS[codec]}"' if codec in CODECS else kind


def open_beneath(root: str, path: str) -> int:
    """Open a regular file below a folder without following links; returns its descriptor."""
    parts = Path(os.path.relpath(path, root)).parts
    if not parts or ".." in parts or os.path.isabs(os.path.join(*parts)):
        raise FileNotFoundError(path)
    if os.open not in os.supports_dir_fd:  # Windows
        return _checked(os.open(path, _FLAGS))
    folder = os.open(root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = inner
        return _checked(os.open(parts[-1], _FLAGS | _NO_LINK, dir_fd=folder))
    finally:
        os.close(folder)


def _checked(descriptor: int) -> int:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise FileNotFoundError("not a regular file")


@dataclass(frozen=True)
class SentAs:
    """Headers that a file is sent with."""

    kind: str  # media type
    name: str
    tag: str  # entity tag, which changes with the content
    to_save: bool = False  # instead of showing it
    patience_s: float | None = None  # for which its receiver may take nothing of it; players may pause for ever


class OpenedFile(FileResponse):
    """Response with a file that is open already, whole or one range of it (RFC 9110, section 14); of several, whole.

    It stops when the file changes. A refusal is one sentence.
    """

    chunk_size = CHUNK_BYTES

    def __init__(
        self, descriptor: int, sent_as: SentAs, readers: Executor, ended: Callable[[], None] = lambda: None
    ) -> None:
        found = os.fstat(descriptor)
        self._descriptor, self._stamp = descriptor, FileStamp.of(found)
        self._readers, self._ended, self._patience_s = readers, ended, sent_as.patience_s
        self._latest: Future[bytes] | None = None
        super().__init__(
            sent_as.name,
            stat_result=found,
            media_type=sent_as.kind,
            filename=sent_as.name,
            content_disposition_type="attachment" if sent_as.to_save else "inline",
            headers={"cache-control": "private, no-cache", "etag": f'"{sent_as.tag}"'},
        )

    def set_stat_headers(self, stat_result: os.stat_result) -> None:
        """Set the size and date headers; a date before year 1 or after 9999 has no form in HTTP and is left out."""
        try:
            super().set_stat_headers(stat_result)
        except (ValueError, OverflowError):
            self.headers.setdefault("content-length", str(stat_result.st_size))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file; where it changes meanwhile, or is not taken, hang up before it is sent whole."""
        try:
            await self._send(scope, send)
        except _HungUpError as error:
            log.info("%s %s; its receiver was hung up on", self.filename, error)
        finally:
            if self._latest is None:
                self._close()
            else:  # a receiver who goes leaves a thread reading, and the number of the descriptor is soon another's
                self._latest.add_done_callback(self._close)

    async def _send(self, scope: Scope, send: Send) -> None:
        start, stop = 0, self._stamp.size
        found = self._range(Headers(scope=scope))
        if found is not None:
            start, stop = found
            self.status_code = 206
            self.headers["content-range"] = f"bytes {start}-{stop - 1}/{self._stamp.size}"
            self.headers["content-length"] = str(stop - start)
        head: Message = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(head)
        if scope["method"] == "HEAD":
            start = stop
        while start < stop:
            self._latest = self._readers.submit(self._read, start, min(self.chunk_size, stop - start))
            chunk = await asyncio.wrap_future(self._latest)
            start += len(chunk)
            body: Message = {"type": "http.response.body", "body": chunk, "more_body": True}
            try:
                await asyncio.wait_for(send(body), self._patience_s)
            except asyncio.TimeoutError:
                raise _HungUpError(f"was not taken for {self._patience_s:g} s") from None
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _range(self, asked: Headers) -> tuple[int, int] | None:
        """The bytes that are asked for; None for all, as where they are to be of what the file was before."""
        unit, _, ranges = asked.get("range", "").partition("=")
        unchanged = asked.get("if-range") in (None, self.headers["etag"], self.headers.get("last-modified"))
        if unit.strip().lower() != "bytes" or not unchanged:
            return None
        found = [re.fullmatch(r"\s*([0-9]{0,18})-([0-9]{0,18})\s*", one) for one in ranges.split(",")]
        size, places = self._stamp.size, [one.groups() for one in found if one is not None]
        reversed_ones = [one for one in places if all(one) and int(one[1]) < int(one[0])]
        if len(places) < len(found) or ("", "") in places or reversed_ones:
            raise HTTPException(400, "The Range header makes no sense; write it as 'bytes=0-99'.")
        if len(places) > 1:
            return None
        first, last = places[0]
        start = max(0, size - int(last)) if not first else int(first)
        stop = min(size, int(last) + 1) if first and last else size
        if start >= stop:
            raise HTTPException(
                416, "The range begins behind the end of the file.", {"content-range": f"bytes */{size}"}
            )
        return start, stop

    def _read(self, position: int, size: int) -> bytes:
        os.lseek(self._descriptor, position, os.SEEK_SET)  # one thread at a time reads of a descriptor
        chunk = os.read(self._descriptor, size)
        if len(chunk) != size or FileStamp.of(os.fstat(self._descriptor)) != self._stamp:
            raise _HungUpError("changed while it was sent")
        return chunk

    def _close(self, _: object = None) -> None:
        os.close(self._descriptor)
        self._ended()


class _HungUpError(Exception):
    """The rest of a file is not sent."""


class Playback:
    """Opens the files of clips and sends them, in threads of its own."""

    def __init__(self, desk: Desk, settings: ServeSettings) -> None:
        self._desk = desk
        self._playing, self._most = 0, max(1, int(settings.connections * MOST_OF_ALL))
        self._closed = False
        self._same = SameContent(settings.limits.stall_timeout_s, lambda: self._closed)
        self._comparing: dict[tuple[str, FileStamp], asyncio.Future[Located]] = {}

    def start(self) -> None:
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="play")
        self._comparer = ThreadPoolExecutor(1, thread_name_prefix="compare")

    def close(self) -> None:
        """Stop the threads; files that are being compared are read no further."""
        self._closed = True
        for pool in (self._comparer, self._readers):
            pool.shutdown(wait=False, cancel_futures=True)

    async def media(self, clip_id: str) -> OpenedFile:
        clip = await self._desk.locate(clip_id)
        file, descriptor = await self._open_unchanged(clip_id, clip)
        name = printable(PurePath(file.path).name)
        return self._send(descriptor, SentAs(media_type(clip.container, clip.codec), name, clip_id))

    async def sent(self, path: Path, sent_as: SentAs, ended: Callable[[], None] = lambda: None) -> OpenedFile:
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

    def _forget(self, path: str, stamp: FileStamp, done: asyncio.Future[Located]) -> None:
        del self._comparing[path, stamp]
        if not done.cancelled():
            done.exception()  # whoever asked may have gone
