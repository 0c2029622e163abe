"""One indexer at a time: the second says who holds the library and goes away."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from evenreel.errors import LibraryError

LOCK = "index.lock"
HOLDER = "index.holder"


@contextlib.contextmanager
def writer_lock(library: Path) -> Iterator[None]:
    """Hold the library for writing.

    The operating system drops the lock with the process, so a crash, a reboot or a reused process id never
    leaves a stale one behind; the file beside it only names the holder.

    Raises:
        LibraryError: another process holds it, or the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(library / LOCK, timeout=0)
    try:
        library.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise LibraryError(
            f"The library {library} is being written by {_holder(library)}; wait for it to end, or use another "
            "--library."
        ) from error
    except OSError as error:
        raise LibraryError(f"The library {library} cannot be written: {error.strerror or error}.") from error
    try:
        _name_holder(library)
        yield
    finally:
        (library / HOLDER).unlink(missing_ok=True)
        lock.release()


def _name_holder(library: Path) -> None:
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
    with contextlib.suppress(OSError):  # a courtesy: the lock itself is held already
        (library / HOLDER).write_text(json.dumps(holder), encoding="utf-8")


def _holder(library: Path) -> str:
    try:
        holder = json.loads((library / HOLDER).read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} (since {holder['started']})"
    except (OSError, ValueError, KeyError):
        return "another process"
