"""Reads the on-screen text of videos, frame by frame."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from evenreel.config import MediaLimits
from evenreel.errors import UsageError
from evenreel.media import Video, open_video, parse_rule
from evenreel.media.picture import to_jpeg
from evenreel.media.sampling import EverySeconds, Part, SeveralRules, TimeRule
from evenreel.media.video import ShotFinder
from evenreel.media.workers import Message
from evenreel.onscreen.engine import RapidDetector, RapidRecognizer, engine_id
from evenreel.onscreen.scene import Models, SceneText, TextSettings
from evenreel.onscreen.tracks import follow
from evenreel.types import Frame, Pixels, TextTrack, Word

MIN_PICTURE_PX = 16  # pictures lower or narrower than this cannot hold a legible line and are not looked at


class TextReader:
    """Reader of on-screen text; one for each process, for any number of videos.

    Args:
        settings: cost of reading, and what counts as text.
        models: detector and recogniser; None for RapidOCR's.

    Raises:
        EncoderError: when RapidOCR's models are not in its wheel.
    """

    def __init__(self, settings: TextSettings | None = None, models: Models | None = None) -> None:
        self.settings = settings or TextSettings()
        self._models = models or Models(RapidDetector(self.settings.threads), RapidRecognizer(self.settings.threads))

    @property
    def reader_id(self) -> str:
        """Id of engine, models and settings; readings under another id are not comparable."""
        return f"{engine_id()}/{self.settings.digest}"

    def new_video(self) -> VideoText:
        return VideoText(self._models, self.settings)


class VideoText:
    """On-screen text of one video, read frame by frame.

    Attributes:
        words: every reading of every frame, by time, then in reading order.
    """

    def __init__(self, models: Models, settings: TextSettings) -> None:
        self.words: list[Word] = []
        self._models = models
        self._settings = settings
        self._scene: SceneText | None = None
        self._times: list[float] = []

    def add(self, frame: Frame) -> None:
        """Read the next frame, of any size.

        Raises:
            UsageError: when it is not an (H, W, 3) picture of bytes, or is earlier than the frame before it.
        """
        picture = _checked(frame.pixels)
        if self._times and frame.time_s < self._times[-1]:
            raise UsageError(
                f"A frame at {frame.time_s:.3f} s was added after one at {self._times[-1]:.3f} s; "
                "add the frames of a video in the order of their times."
            )
        self._times.append(frame.time_s)
        if min(picture.shape[:2]) < MIN_PICTURE_PX:
            self._scene = None
            return
        self.words += self._words(picture, frame.time_s)

    def tracks(self) -> list[TextTrack]:
        """Return each sign once, by the time at which it appears."""
        return follow(self.words, self._times)

    def _words(self, picture: Pixels, time_s: float) -> list[Word]:
        height, width = picture.shape[:2]
        if self._scene is None or self._scene.shape != (height, width):
            self._scene = SceneText((height, width), self._models, self._settings)
        self._scene.look(picture)
        limit = self._settings.min_confidence
        return [sign.word(time_s) for sign in self._scene.signs if sign.text and sign.confidence >= limit]


def _checked(picture: Pixels) -> Pixels:
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or picture.size == 0:
        raise UsageError(
            f"On-screen text is read from (height, width, 3) pictures of uint8, not from "
            f"{picture.shape} of {picture.dtype}; convert the frame to RGB first."
        )
    return picture


class FileReader:
    """Worker that answers `{"path", "part", "frames", "text"}` with `info`, then a `frame` or `tick` each, then `end`.

    With `"still": {"side_px", "quality"}` in it, a message `still` with a JPEG comes before each of them. With
    `"periods"`, seconds between the frames of windows, frames of these come too: `for` of a `frame` lists whom it is
    for, 0 the rule and from 1 on the periods, and `shot` counts the cuts before it.
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
        most = self._limits.max_frames * (1 + len(task.get("periods", [])))
        with open_video(task["path"], replace(self._limits, max_frames=most)) as video:
            yield {"kind": "info", "info": asdict(video.info)}, None
            for frame, rules, shot in self._frames(video, task, shots):
                sampled = 0 in rules
                if still and sampled:
                    jpeg = to_jpeg(frame.pixels, still["side_px"], still["side_px"], still["quality"])
                    yield {"kind": "still", "time_s": frame.time_s}, np.frombuffer(jpeg, np.uint8)
                if task["frames"] or rules != [0]:
                    yield {"kind": "frame", "time_s": frame.time_s, "for": rules, "shot": shot}, frame.pixels
                if words is not None and sampled:
                    words.add(frame)
                if sampled and (words is not None or not task["frames"]):
                    yield {"kind": "tick", "time_s": frame.time_s}, None
            notes = list(video.notes)
        cuts_s = part.within(shots.cuts_s) if shots else None
        end: dict[str, Any] = {"kind": "end", "notes": notes, "cuts_s": cuts_s}
        if text and words is not None:
            end |= {"tracks": [asdict(track) for track in words.tracks()], "reader_id": text.reader_id}
        yield end, None

    def _frames(
        self, video: Video, task: dict[str, Any], shots: ShotFinder | None
    ) -> Iterator[tuple[Frame, list[int], int]]:
        """The frames of a part, timed from its start; what is on screen already when it starts has time 0.

        With each, the rules that it is for, and its shot, which is known when the next frame is there.
        """
        part, periods = Part(*task["part"]), task.get("periods", [])
        start_s, rule, asked = part.start_s or 0.0, self._rule, list[int]()
        if periods and isinstance(rule, TimeRule):
            rule = SeveralRules((rule, *map(EverySeconds, periods)), asked)
        before: Frame | None = None
        answered = 0
        for frame in itertools.chain(video.frames(part.rule(rule), shots), [None]):
            if before is not None:
                rules = sorted(set(asked[answered : video.answered])) if asked else list(range(1 + len(periods)))
                shot = bisect.bisect_right(shots.cuts_s, before.time_s) if shots else 0
                yield Frame(max(0.0, before.time_s - start_s), before.pixels), rules, shot
                answered = video.answered
            before = frame
