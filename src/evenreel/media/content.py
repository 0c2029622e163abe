"""What is in a file, and whether it may have changed since somebody looked."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass

from evenreel.errors import MediaError

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileStamp:
    """What changes when a file changes: any difference means that its content is looked at again."""

    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, result: os.stat_result) -> FileStamp:
        """The stamp in a stat result."""
        return cls(result.st_size, result.st_mtime_ns, result.st_ctime_ns)


def stamp(path: str) -> FileStamp:
    """The stamp of a file as it is now.

    Raises:
        MediaError: there is no such file, or it may not be looked at.
    """
    try:
        return FileStamp.of(os.stat(path))
    except OSError as error:
        raise unreadable(error) from error


def content_digest(path: str) -> str:
    """32 hex digits over all bytes of a file. Constant memory.

    Raises:
        MediaError: it cannot be read, is empty, or is not a regular file (a pipe would block for ever).
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise MediaError("unreadable", "it is not a regular file")
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
            if not file.tell():
                raise MediaError("empty", "the file has no content")
    except OSError as error:
        raise unreadable(error) from error
    return digest.hexdigest()


def unreadable(error: OSError) -> MediaError:
    """The reason for a file that the system does not let us read."""
    return MediaError("unreadable", f"the system does not let it be read: {error.strerror or error}")
