"""Readers whose behaviour is in the name of the file, and readers without a model."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.media.workers import Message
from evenreel.onscreen.reader import FileReader, TextReader
from evenreel.onscreen.scene import Models, TextSettings
from evenreel.types import FloatArray, Pixels


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


class StubTables:
    """A reader of tables that does what the first line of the table says."""

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        kind = Path(task["path"]).read_text().splitlines()[0]
        Path(f"{task['path']}.read").touch()
        if kind == "hang":
            time.sleep(600)
        if kind == "crash":
            ctypes.string_at(0)
        if kind == "panic":  # what a panic of polars is in Python: no Exception
            raise BaseException("called `Option::unwrap()` on a `None` value")
        kept = []
        while kind == "grow":
            kept.append(b"x" * (64 << 20))
            time.sleep(0.01)
        yield {"rows": []}, None


class OneLine:
    """A recogniser without a model: every picture has one line, and it says the same."""

    def heat(self, picture: Pixels) -> FloatArray:
        heat = np.zeros(picture.shape[:2], np.float32)
        heat[24:40, 8:56] = 1
        return heat

    def lines(self, heat: FloatArray) -> NDArray[np.float32]:
        return np.float32([[(8, 24), (56, 24), (56, 40), (8, 40)]])

    def read(self, crops: Sequence[Pixels]) -> list[tuple[str, float]]:
        return [("HARBOUR", 0.95)] * len(crops)


class QuickReader(FileReader):
    """A reader that starts without loading a model, and looks for no cuts, as before format 3."""

    def __init__(self, rule: str, limits: dict[str, Any], threads: int, *, text: bool, shots: bool) -> None:
        super().__init__(rule, limits, threads, text=False)
        self._text = TextReader(TextSettings(), Models(OneLine(), OneLine())) if text else None
