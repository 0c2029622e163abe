"""A reader whose behaviour is in the name of the file."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenreel.media.workers import Message
from evenreel.onscreen.file_reader import FileReader


class StubReader(FileReader):
    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        kind = Path(task["path"]).stem
        if kind == "hang":
            time.sleep(600)
        if kind == "crash":
            ctypes.string_at(0)
        if kind == "surprise":
            raise RuntimeError("nobody thought of this")
        kept = []
        while kind == "grow":
            kept.append(b"x" * (64 << 20))
            time.sleep(0.01)
        yield from super().__call__(task)
