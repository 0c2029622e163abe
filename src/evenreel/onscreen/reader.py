"""Reads the on-screen text of videos, frame by frame."""

from __future__ import annotations

import numpy as np

from evenreel.errors import UsageError
from evenreel.onscreen.engine import RapidDetector, RapidRecognizer, engine_id
from evenreel.onscreen.scene import Models, SceneText
from evenreel.onscreen.settings import TextSettings
from evenreel.onscreen.tracks import follow
from evenreel.types import Frame, Pixels, TextTrack, Word

MIN_PICTURE_PX = 16
"""Pictures lower or narrower than this cannot hold a legible line and are not looked at."""


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
        """Start an empty reading, to which the frames of one video are added."""
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
