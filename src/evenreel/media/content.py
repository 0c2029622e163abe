"""Identity of a file: the digest of its content, and a stamp of size and times that tells when it may have changed."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # before Python 3.11 it is not the builtin one
from dataclasses import dataclass

from evenreel.errors import EvenreelError, MediaError

_BLOCK_BYTES = 1 << 20
_POLL_S = 0.1
_KINDS = {
    stat.S_IFDIR: "folder", stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}  # fmt: skip
_ZEROS = bytes(_BLOCK_BYTES)


@dataclass(frozen=True)
class FileStamp:
    """Size in bytes and times in nanoseconds of a file; any difference means that its content is read again.

    `mtime_ns` and `ctime_ns` wrap around to signed 64 bits, as databases keep them: times before 1678 and after 2262
    wrap, and no two within 584 years are the same.
    """

    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, result: os.stat_result) -> FileStamp:
        return cls(result.st_size, _signed_64(result.st_mtime_ns), _signed_64(result.st_ctime_ns))


def _signed_64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def stamp(path: str) -> FileStamp:
    try:
        return FileStamp.of(os.stat(path))
    except OSError as error:
        raise unreadable(error) from error


class _DigestProgress:
    def __init__(self) -> None:
        self.moved_at = time.monotonic()  # when something other than zeros was last read, on the monotonic clock
        self.in_zeros = False  # whether zeros are what is read now
        self.given_up = False  # set by whoever does not wait any more

    def take(self, block: bytes) -> None:
        if self.given_up:
            raise EvenreelError("The reader was closed.")
        self.in_zeros = block == (_ZEROS if len(block) == _BLOCK_BYTES else bytes(len(block)))
        if not self.in_zeros:
            self.moved_at = time.monotonic()


def content_digest(path: str, reading: _DigestProgress | None = None) -> str:
    """Compute the digest of a file's content, 32 hex digits, in constant memory."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb", buffering=0) as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise not_regular(found.st_mode)
            while file.tell() < found.st_size and (block := file.read(_BLOCK_BYTES)):
                digest.update(block)
                if reading is not None:
                    reading.take(block)
            if not file.tell():
                raise MediaError("empty", "the file has no content")
            if file.tell() != found.st_size or os.fstat(descriptor).st_size != found.st_size:
                raise changed_while_reading()
    except OSError as error:
        raise unreadable(error) from error
    return digest.hexdigest()


def watched_digest(path: str, timeout_s: float, stopped: Callable[[], bool] = lambda: False) -> str:
    """Compute the digest of a file's content, 32 hex digits, and give up where the file or its disk hangs."""
    reading, outcome = _DigestProgress(), Future[str]()
    # A read from a share that is gone returns to nobody; the thread is left behind, and ends with the process.
    threading.Thread(target=_fulfil, args=(outcome, path, reading), name="digest", daemon=True).start()
    while not stopped():
        try:
            return outcome.result(_POLL_S)
        except FutureTimeoutError:
            if time.monotonic() - reading.moved_at > timeout_s:
                reading.given_up = True
                raise _overdue(reading, timeout_s) from None
    reading.given_up = True
    raise EvenreelError("The reader was closed.")


def _fulfil(outcome: Future[str], path: str, reading: _DigestProgress) -> None:
    try:
        outcome.set_result(content_digest(path, reading))
    except BaseException as error:
        outcome.set_exception(error)


def _overdue(reading: _DigestProgress, timeout_s: float) -> MediaError:
    limit = f"{timeout_s:g} s, the limit (stall_timeout_s; of a corpus --timeout)"
    if reading.in_zeros:
        return MediaError("timeout", f"nothing but zeros came of it for {limit}; is it a download that has not ended?")
    return MediaError("unreadable", f"nothing came of it for {limit}; is its disk or share connected?")


def changed_while_reading() -> MediaError:
    return MediaError("changed_while_reading", "it changed while it was read; it is tried again next time")


def not_regular(mode: int) -> MediaError:
    name = _KINDS.get(stat.S_IFMT(mode), "special file")
    return MediaError("unreadable", f"it is a {name}, not a regular file; only regular files are read")


def unreadable(error: OSError) -> MediaError:
    return MediaError("unreadable", f"the system does not let it be read: {error.strerror or error}")
