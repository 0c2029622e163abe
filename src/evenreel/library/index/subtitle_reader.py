"""The worker that reads subtitles in an index run: text by itself, pictures with the recogniser of text on screen."""

from __future__ import annotations

from evenreel.onscreen.sheet import SheetReader
from evenreel.speech.subtitle_worker import SubtitleFiles

READER = "evenreel.library.index.subtitle_reader:subtitle_reader"
"""What a `Worker` runs to read subtitles of any kind."""


def subtitle_reader(threads: int) -> SubtitleFiles:
    """Make the worker's object; the models of the recogniser are loaded where there are pictures to read."""
    return SubtitleFiles(SheetReader(threads))
