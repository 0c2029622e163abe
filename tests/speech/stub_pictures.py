"""A worker that reads subtitles as `evenreel.library.index.stages.subtitle_reader`, with a recogniser that is quick."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from evenreel.errors import MediaError
from evenreel.speech.streams import SubtitleFiles
from evenreel.types import Pixels

TARGET = "tests.speech.stub_pictures:stub_reader"


class StubRecogniser:
    """Calls every picture by its number. What it does else, the variable `STUB_PICTURES` says: `refuse`, `die`."""

    def __init__(self) -> None:
        self._read = 0

    def can_read(self, language: str | None) -> bool:
        return True

    def read(self, sheet: Pixels) -> tuple[str, float]:
        told = Path(os.environ.get("STUB_PICTURES", os.devnull)).read_text(encoding="utf-8")
        if told == "refuse":
            raise MediaError("failed", "these pictures are none")
        if told == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        self._read += 1
        return f"picture {self._read}", 0.9


def stub_reader(threads: int) -> SubtitleFiles:
    return SubtitleFiles(StubRecogniser())
