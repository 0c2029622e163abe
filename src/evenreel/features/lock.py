"""A lock for one writer of a folder at a time: a second one is refused, with the name of the holder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenreel.documents import parse_json
from evenreel.errors import EvenreelError

LOCK = "index.lock"
HOLDER = "index.holder"
GRACE_S = 10.0
"""Seconds for which the lock of a process that is gone is waited for."""

_POLL_S = 0.05


@contextlib.contextmanager
def writer_lock(folder: Path, error: type[EvenreelError], remedy: str) -> Iterator[None]:
    """Hold a folder for writing; it is made where it does not exist.

    The operating system drops the lock with the process, so a crash, a reboot or a reused process id never
    leaves a stale one behind; the file beside it only names the holder. A child that was being started when its
    parent was killed has a copy of the lock until its own program begins, so a dead holder's lock is waited for.
    """
    from filelock import FileLock, Timeout

    lock, deadline = FileLock(folder / LOCK), time.monotonic() + GRACE_S
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                if _may_live(_named(folder)) or time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_S)
    except Timeout as caught:
        holder = _named(folder)
        by = "process {pid} on {host} (since {started})".format(**holder) if holder else "another process"
        raise error(f"{folder} is being written by {by}; wait for it to end, or {remedy}.") from caught
    except OSError as caught:
        raise error(f"{folder} cannot be written: {caught.strerror or caught}.") from caught
    try:
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "started": time.strftime("%Y-%m-%d %H:%M:%S")}
        with contextlib.suppress(OSError):  # a courtesy: the lock itself is held already
            (folder / HOLDER).write_text(json.dumps(holder), encoding="utf-8")
        yield
    finally:
        (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def is_held(error: EvenreelError) -> bool:
    """Return whether an error of `writer_lock` says that another process holds the folder."""
    from filelock import Timeout

    return isinstance(error.__cause__, Timeout)


def _may_live(holder: dict[str, Any] | None) -> bool:
    """Check that a holder runs, or is on another host; one without a name is beginning or ending."""
    import psutil

    if holder is None:
        return False
    if holder["host"] != socket.gethostname():
        return True
    try:
        return bool(psutil.Process(holder["pid"]).status() != psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, ValueError):  # no process has a negative number
        return False
    except psutil.AccessDenied:
        return True


def _named(folder: Path) -> dict[str, Any] | None:
    try:
        holder = parse_json((folder / HOLDER).read_text(encoding="utf-8"))
        return {"pid": int(holder["pid"]), "host": str(holder["host"]), "started": str(holder["started"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None
