"""Cores shared by the searches of one process: however many search at a time, no more threads help than cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from evenreel.config import allowed_threads

_Part = TypeVar("_Part")


class _Helpers:
    """Threads that help the one which searches, made when they are first needed; a forked process makes its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def pool(self, threads: int) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(threads, "evenreel-scan")
            return self._pool

    def forget(self) -> None:
        self._lock, self._pool = threading.Lock(), None


_helpers = _Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.forget)


def share_out(work: Callable[[_Part], None], parts: Sequence[_Part]) -> None:
    """Do some work on every part, on as many cores as `allowed_threads` says; the work must let go of Python's lock."""
    threads = allowed_threads()
    if threads == 1 or len(parts) == 1:
        for part in parts:
            work(part)
        return
    for _ in _helpers.pool(threads).map(work, parts):
        pass
