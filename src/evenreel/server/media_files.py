"""Opening a file of the library for a visitor: below its indexed folder, regular, reached through no link."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

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
"""An ordinary profile of each, which is all that a browser is asked about."""
IN_WEBM = frozenset({"vp8", "vp9", "av1", "libdav1d"})

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def media_type(container: str, codec: str) -> str:
    """What a browser is told of a file, for `canPlayType` and as Content-Type.

    >>> media_type("mp4", "h264"), media_type("avi", "mpeg4"), media_type("matroska", "vp8")
    ('video/mp4; codecs="avc1.640028"', 'video/x-msvideo', 'video/webm; codecs="vp8"')
    """
    kind = TYPES.get(container, "application/octet-stream")
    if container == "matroska" and codec in IN_WEBM:
        kind = "video/webm"
    return f'{kind}; codecs="{CODECS[codec]}"' if codec in CODECS else kind


def open_beneath(root: str, path: str) -> int:
    """A descriptor of a regular file below a folder; no link on the way from the folder to the file is followed.

    Raises:
        OSError: there is no such file there, it is none, or it may not be read.
    """
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
    """A file, whole or in the ranges that are asked for (RFC 9110, section 14); what it refuses is one sentence."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it.

        Raises:
            HTTPException: the ranges make no sense, or begin behind the end of the file.
        """

        async def send_or_refuse(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 416:
                beyond = {"content-range": Headers(raw=message["headers"])["content-range"]}
                raise HTTPException(416, "The range begins behind the end of the file.", beyond)
            if message["type"] == "http.response.start" and message["status"] == 400:
                raise HTTPException(400, "The Range header makes no sense; write it as 'bytes=0-99'.")
            await send(message)

        await super().__call__(_in_bytes(scope), receive, send_or_refuse)


class OpenedFile(RangedFile):
    """A file that is open already.

    Args:
        descriptor: of the file; closed when the answer has been sent or its receiver has gone.
        kind: its media type.
        name: what it is called where it is saved.
    """

    def __init__(self, descriptor: int, kind: str, name: str) -> None:
        self._descriptor = descriptor
        super().__init__(
            name,
            stat_result=os.fstat(descriptor),
            media_type=kind,
            filename=name,
            content_disposition_type="inline",
            headers={"cache-control": "private, no-cache"},
        )
        self.path = cast("os.PathLike[str]", _Again(descriptor))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        by_descriptor = {**scope, "extensions": {}}  # one of them sends a file by its path
        try:
            await super().__call__(by_descriptor, receive, send)
        finally:
            os.close(self._descriptor)


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
