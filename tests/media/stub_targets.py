"""What a decoder can do to its process, for tests of the workers: answer, fail, crash, hang, grow."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from evenreel.errors import MediaError
from evenreel.media.workers import Message


class Stub:
    def __init__(self, **setup: Any) -> None:
        self.setup = setup
        if setup.get("refuse"):
            raise RuntimeError("no such model")

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        yield {"got": task, "setup": self.setup, "pid": os.getpid()}, None
        yield from getattr(self, task["do"])(task)

    def arrays(self, task: dict[str, Any]) -> Iterator[Message]:
        for number in range(task["count"]):
            yield {"number": number}, np.full((2, 3, number), number, np.uint8)

    def chatter(self, task: dict[str, Any]) -> Iterator[Message]:
        print("native libraries print too")
        os.write(1, b"\x00\x01\x02 straight to the descriptor")
        yield {"still": "in step"}, None

    def refuse(self, task: dict[str, Any]) -> Iterator[Message]:
        raise MediaError("encrypted", "it is encrypted")
        yield

    def fail(self, task: dict[str, Any]) -> Iterator[Message]:
        raise ZeroDivisionError("by surprise")
        yield

    def segfault(self, task: dict[str, Any]) -> Iterator[Message]:
        ctypes.string_at(0)
        yield

    def abort(self, task: dict[str, Any]) -> Iterator[Message]:
        os.abort()
        yield

    def leave(self, task: dict[str, Any]) -> Iterator[Message]:
        os._exit(7)
        yield

    def hang(self, task: dict[str, Any]) -> Iterator[Message]:
        while True:
            time.sleep(60)
        yield

    def hang_holding_the_interpreter(self, task: dict[str, Any]) -> Iterator[Message]:
        ctypes.PyDLL(None).sleep(60)  # PyDLL keeps the interpreter lock
        yield

    def grow(self, task: dict[str, Any]) -> Iterator[Message]:
        kept = []
        while True:
            kept.append(b"x" * (64 << 20))
            time.sleep(0.01)
        yield

    def slow(self, task: dict[str, Any]) -> Iterator[Message]:
        for number in range(task["count"]):
            time.sleep(task["pause_s"])
            yield {"number": number}, None


class HangingImages:
    """Decodes pictures, and hangs on those that are `hang` and the path of a file, which it makes."""

    def __init__(self, limits: dict[str, Any]) -> None:
        from evenreel.media.picture import ImageReader

        self._reader = ImageReader(limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        content = task["array"].tobytes()
        while content.startswith(b"hang"):
            open(content[4:], "wb").close()
            time.sleep(60)
        yield from self._reader(task)
