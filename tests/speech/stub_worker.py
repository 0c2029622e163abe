"""A worker that takes whatever is loud for speech, for tests without voices."""

from __future__ import annotations

from typing import Any

from evenreel.speech.speech_worker import SpeechFiles
from tests.speech.test_reader import LoudDetector

TARGET = "tests.speech.stub_worker:LoudSpeechFiles"


class LoudSpeechFiles(SpeechFiles):
    """The worker of `evenreel.speech`, with another detector."""

    def __init__(self, **setup: Any) -> None:
        super().__init__(**setup)
        self._reader._detector = LoudDetector()
