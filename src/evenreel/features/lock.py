"""One writer of a folder at a time: the second says who holds it and goes away."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from evenreel.errors import EvenreelError

LOCK = "index.lock"
HOLDER = "index.holder"


@contextlib.contextmanager
def writer_lock(folder: Path, error: type[EvenreelError], remedy: str) -> Iterator[None]:
    """Hold a folder for writing; it is made where it does not exist.

    The operating system drops the lock with the process, so a crash, a reboot or a reused process id never
    leaves a stale one behind; the file beside it only names the holder.

    Args:
        folder: what is to be written.
        error: raised where another process holds it, or it cannot be written.
        remedy: what else can be done than to wait, such as `use another --library`.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as caught:
        raise error(f"{folder} is being written by {_holder(folder)}; wait for it to end, or {remedy}.") from caught
    except OSError as caught:
        raise error(f"{folder} cannot be written: {caught.strerror or caught}.") from caught
    try:
        _name_holder(folder)
        yield
    finally:
        (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def _name_holder(folder: Path) -> None:
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
    with contextlib.suppress(OSError):  # a courtesy: the lock itself is held already
        (folder / HOLDER).write_text(json.dumps(holder), encoding="utf-8")


def _holder(folder: Path) -> str:
    try:
        holder = json.loads((folder / HOLDER).read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} (since {holder['started']})"
    except (OSError, ValueError, KeyError):
        return "another process"
