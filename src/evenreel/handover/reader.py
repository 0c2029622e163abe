"""The part of taking stretches away that reads untrusted files, run in a worker that can be killed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.handover.copying import UncopyableError, as_stretch, copy_stretch
from evenreel.handover.encoding import encode_stretch
from evenreel.handover.facts import FileFacts, read_facts
from evenreel.media import open_video
from evenreel.media.jpeg import to_jpeg
from evenreel.media.moments import GivenTimes
from evenreel.media.workers import Message


class CutReader:
    """Worker that answers a task by what it has, with messages of the function that it names.

    - `{"facts": path}`: `read_facts`, a message.
    - `{"copy": path, "out", "stretch", "formats", "facts"}`: `copy_stretch`, or `encode_stretch` where packets cannot
      be copied; its last message then says `why`.
    - `{"encode": path, "out", "stretch", "facts"}`: `encode_stretch`.
    - `{"still": path, "time_s", "width"}`: the bytes of a JPEG.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Answer a task."""
        if "copy" in task:
            yield from self._copy(task)
        elif "encode" in task:
            yield from self._encode(task["encode"], task)
        elif "facts" in task:
            yield read_facts(task["facts"], self._limits).to_json(), None
        else:
            yield {}, np.frombuffer(self._still(task["still"], task["time_s"], task["width"]), np.uint8)

    def _copy(self, task: dict[str, Any]) -> Iterator[Message]:
        timecode_at = FileFacts.from_json(task["facts"]).timecode_at
        try:
            yield from copy_stretch(
                task["copy"], task["out"], as_stretch(task), task["formats"], self._limits, timecode_at
            )
        except UncopyableError as error:
            for header, _ in self._encode(task["copy"], task):
                yield {**header, "why": str(error)}, None

    def _encode(self, path: str, task: dict[str, Any]) -> Iterator[Message]:
        facts = FileFacts.from_json(task["facts"])
        return encode_stretch(path, task["out"], as_stretch(task), facts, self._limits)

    def _still(self, path: str, time_s: float, width: int) -> bytes:
        with open_video(path, self._limits) as video:
            frame = next(video.frames(GivenTimes((time_s,))), None)
        if frame is None:
            raise MediaError("no_frames", "there is no picture at this time")
        return to_jpeg(frame.pixels, width, 4 * width)
