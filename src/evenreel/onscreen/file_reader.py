"""The untrusted half of reading a video, run in a killable worker: open, decode, read the words on screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from evenreel.config import MediaLimits
from evenreel.media import Video, open_video, parse_rule
from evenreel.media.jpeg import to_jpeg
from evenreel.media.parts import Part
from evenreel.media.shots import ShotFinder
from evenreel.media.workers import Message
from evenreel.onscreen.reader import TextReader
from evenreel.onscreen.settings import TextSettings
from evenreel.types import Frame


class FileReader:
    """Worker that answers `{"path", "part", "frames", "text"}` with `info`, then a `frame` or `tick` each, then `end`.

    With `"still": {"side_px", "quality"}` in it, a message `still` with a JPEG comes before each of them.

    Args:
        rule: sampling rule of the frames.
        limits: fields of `MediaLimits`.
        threads: threads of the text recogniser.
        text: whether text will be read; its models are loaded here, so that no file is blamed for them.
        shots: whether cuts are looked for; `end` has their times, None where they are not.
    """

    def __init__(self, rule: str, limits: dict[str, Any], threads: int, *, text: bool, shots: bool = False) -> None:
        self._rule = parse_rule(rule)
        self._limits = MediaLimits(**limits)
        self._text = TextReader(TextSettings(threads=threads)) if text else None
        self._find_shots = shots

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Read one clip; `part` is its start and end in the file, `frames` and `text` say whether they are wanted."""
        text = self._text if task["text"] else None
        words = text.new_video() if text else None
        still, part = task.get("still"), Part(*task["part"])
        shots = ShotFinder() if self._find_shots else None
        with open_video(task["path"], self._limits) as video:
            yield {"kind": "info", "info": asdict(video.info)}, None
            for frame in self._frames(video, part, shots):
                if still:
                    jpeg = to_jpeg(frame.pixels, still["side_px"], still["side_px"], still["quality"])
                    yield {"kind": "still", "time_s": frame.time_s}, np.frombuffer(jpeg, np.uint8)
                if task["frames"]:
                    yield {"kind": "frame", "time_s": frame.time_s}, frame.pixels
                if words is not None:
                    words.add(frame)
                if words is not None or not task["frames"]:
                    yield {"kind": "tick", "time_s": frame.time_s}, None
            notes = list(video.notes)
        cuts_s = part.within(shots.cuts_s) if shots else None
        end: dict[str, Any] = {"kind": "end", "notes": notes, "cuts_s": cuts_s}
        if text and words is not None:
            end |= {"tracks": [asdict(track) for track in words.tracks()], "reader_id": text.reader_id}
        yield end, None

    def _frames(self, video: Video, part: Part, shots: ShotFinder | None) -> Iterator[Frame]:
        """The frames of a part, timed from its start; what is on screen already when it starts has time 0."""
        start_s = part.start_s or 0.0
        for frame in video.frames(part.rule(self._rule), shots):
            yield Frame(max(0.0, frame.time_s - start_s), frame.pixels)
