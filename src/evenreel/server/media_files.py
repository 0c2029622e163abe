"""Opening a file of the library for a visitor: below its indexed folder, regular, reached through no link."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from evenreel.media.content import FileStamp

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


class RangedFile(FileResponse):
    """Response with a file, whole or in ranges (RFC 9110, section 14); a refusal is one sentence."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file or the requested ranges."""

        async def send_or_refuse(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 416:
                beyond = {"content-range": Headers(raw=message["headers"])["content-range"]}
                raise HTTPException(416, "The range begins behind the end of the file.", beyond)
            if message["type"] == "http.response.start" and message["status"] == 400:
                raise HTTPException(400, "The Range header makes no sense; write it as 'bytes=0-99'.")
            await send(message)

        await super().__call__(_in_bytes(scope), receive, send_or_refuse)


@dataclass(frozen=True)
class SentAs:
    """Headers that a file is sent with.

    Attributes:
        kind: media type.
        name: file name for saving.
        tag: entity tag, which changes with the content.
        to_save: whether browsers save it instead of showing it.
        patience_s: seconds for which its receiver may take nothing of it; None for any time, as players pause.
    """

    kind: str
    name: str
    tag: str
    to_save: bool = False
    patience_s: float | None = None


class OpenedFile(RangedFile):
    """Response with a file that is open already; it stops when the file changes."""

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
        self.path = cast("os.PathLike[str]", _Again(descriptor))

    def set_stat_headers(self, stat_result: os.stat_result) -> None:
        """Set the size and date headers; a date before year 1 or after 9999 has no form in HTTP and is left out."""
        try:
            super().set_stat_headers(stat_result)
        except (ValueError, OverflowError):
            self.headers.setdefault("content-length", str(stat_result.st_size))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file; where it changes meanwhile, or is not taken, hang up before it is sent whole."""
        by_descriptor = {**scope, "extensions": {}}  # one of them sends a file by its path

        async def send_in_time(message: Message) -> None:
            try:
                await asyncio.wait_for(send(message), self._patience_s)
            except asyncio.TimeoutError:
                raise _NotTakenError from None

        try:
            await super().__call__(by_descriptor, receive, send_in_time)
        except _NotTakenError:
            log.info("%s was not taken for %g s; its receiver was hung up on", self.filename, self._patience_s)
        except _ChangedError:
            log.warning("%s changed while it was sent; its receiver was hung up on", self.filename)
        finally:
            if self._latest is None:
                self._close()
            else:  # a receiver who goes leaves a thread reading, and the number of the descriptor is soon another's
                self._latest.add_done_callback(self._close)

    def _close(self, _: object = None) -> None:
        os.close(self._descriptor)
        self._ended()

    @contextlib.asynccontextmanager
    async def _open_file(self) -> AsyncIterator[Any]:
        """Starlette reads through this; where it does not, through `path`."""
        yield _FilePosition(self._read)

    async def _read(self, position: int, size: int) -> bytes:
        self._latest = self._readers.submit(self._read_here, position, size)
        return await asyncio.wrap_future(self._latest)

    def _read_here(self, position: int, size: int) -> bytes:
        os.lseek(self._descriptor, position, os.SEEK_SET)  # one thread at a time reads of a descriptor
        chunk = os.read(self._descriptor, size)
        whole = len(chunk) == min(size, self._stamp.size - position)
        if not whole or FileStamp.of(os.fstat(self._descriptor)) != self._stamp:
            raise _ChangedError
        return chunk


class _NotTakenError(Exception):
    """The receiver of a file takes nothing of it."""


class _ChangedError(Exception):
    """The file is not what it was when its answer began."""


class _FilePosition:
    """A place in a file, as far as `FileResponse` uses one."""

    def __init__(self, read: Callable[[int, int], Awaitable[bytes]]) -> None:
        self._read, self._position = read, 0

    async def seek(self, position: int) -> None:
        """Go on from there."""
        self._position = position

    async def read(self, size: int) -> bytes:
        """The next bytes."""
        chunk = await self._read(self._position, size)
        self._position += len(chunk)
        return chunk


class _Again:
    """What `open` takes for a descriptor: another one of the same file, at its start, made at that very moment.

    A name (/dev/fd/7) is not there on every system, and a name of the file may be another file's by now.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __index__(self) -> int:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return os.dup(self._descriptor)


def _in_bytes(scope: Scope) -> Scope:
    """The request; without its Range header where that counts in a unit other than bytes (section 14.2)."""
    unit, _, _ = Headers(scope=scope).get("range", "bytes=").partition("=")
    if unit.strip().lower() == "bytes":
        return scope
    headers = MutableHeaders(raw=list(scope["headers"]))
    del headers["range"]
    return {**scope, "headers": headers.raw}
