"""A reader of headers whose behaviour is in the name of the file."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenreel.media.video import HeaderReader
from evenreel.media.workers import Message


class StubHeaderReader(HeaderReader):
    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        kind = Path(task["path"]).stem
        if kind == "hang":
            time.sleep(600)
        if kind == "crash":
            ctypes.string_at(0)
        yield from super().__call__(task)
