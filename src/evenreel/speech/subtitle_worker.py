"""The untrusted half of reading subtitles, run in a killable worker."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenreel.errors import MediaError
from evenreel.media.workers import Message, Worker, unreadable
from evenreel.speech.subtitles import LARGEST_BYTES, Subtitles, parse_subtitles, too_large
from evenreel.speech.transcripts import utterance

if TYPE_CHECKING:
    from evenreel.speech.pictures import SheetRecogniser

TARGET = "evenreel.speech.subtitle_worker:SubtitleFiles"  # what a `Worker` runs to read subtitles of text
_TICK_S = 1.0


class SubtitleFiles:
    """Worker that answers `{"path", "language"}` of a subtitle file, or `{"path"}` of a video with streams of text.

    With `"pictures": true` the streams of pictures of a video are read, and no others. The answer is a message
    `subtitles` each, with `utterances`, `notes` and `pictures`; a `tick` says that reading goes on.
    """

    def __init__(self, reader: SheetRecogniser | None = None) -> None:
        self._reader = reader

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        if "language" in task:
            yield _message(read_sidecar(task["path"], task["language"])), None
            return
        if task.get("pictures") and self._reader is not None:  # whoever has the worker run does not need FFmpeg
            from evenreel.speech.pictures import read_pictures

            streams = read_pictures(task["path"], self._reader)
        else:
            from evenreel.speech.streams import read_streams

            streams = read_streams(task["path"])
        told = time.monotonic()
        for found in streams:
            if found is not None:
                yield _message(found), None
            elif time.monotonic() - told > _TICK_S:
                told = time.monotonic()
                yield {"kind": "tick"}, None


def read_sidecar(path: str, language: str | None = None) -> Subtitles:
    """Read a subtitle file."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise MediaError("unreadable", "it is no regular file; only regular files are read")
        if found.st_size > LARGEST_BYTES:
            raise too_large(found.st_size)
        data = Path(path).read_bytes()
    except OSError as error:
        raise unreadable(error) from error
    return parse_subtitles(data, os.path.splitext(path)[1], language)


def read_with(worker: Worker, path: str, wanted: Mapping[str, Any] | None = None) -> list[Subtitles]:
    """Have a worker of `SubtitleFiles` read a subtitle file, or the streams of a video."""
    messages = worker.run({"path": path, **(wanted or {})})
    return [
        Subtitles(tuple(map(utterance, message["utterances"])), tuple(message["notes"]), message["pictures"])
        for message, _ in messages
        if message["kind"] == "subtitles"
    ]


def _message(found: Subtitles) -> dict[str, Any]:
    return {
        "kind": "subtitles",
        "utterances": list(map(asdict, found.utterances)),
        "notes": list(found.notes),
        "pictures": found.pictures,
    }
