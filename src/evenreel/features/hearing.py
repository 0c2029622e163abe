"""Recognition of what is said, clip by clip, beside the reading of pictures: one model for all readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from evenreel.config import MediaLimits
from evenreel.errors import EvenreelError, MediaError
from evenreel.features.progress import TRANSIENT
from evenreel.speech.models import locate_speech_model
from evenreel.speech.transcripts import Transcript
from evenreel.wording import printable


class Hearing(Protocol):
    """Whoever writes down what is said in clips."""

    def begin(self, path: str) -> Future[Transcript | None]:
        """Have a video file heard; None where that is to be tried again another time."""


class SpeechHearing:
    """Hears one clip after another in a worker that can be killed, whoever asks; its model is loaded for the first.

    Attributes:
        speech_id: name that the model can be loaded by again.
    """

    def __init__(self, model: str, language: str | None, limits: MediaLimits, tell: Callable[[str, str], None]) -> None:
        from evenreel.speech.recogniser import speech_worker  # which imports the models

        self.speech_id, _ = locate_speech_model(model)
        self._worker = speech_worker(model, language=language, limits=limits)
        self._line = ThreadPoolExecutor(1, thread_name_prefix="hearing")
        self._tell = tell
        self._fault: EvenreelError | None = None

    def begin(self, path: str) -> Future[Transcript | None]:
        """Have a video file heard after those that wait.

        The result is what the model hears, or says why it hears nothing; None where that is to be tried again another
        time, or no worker can be started.
        """
        return self._line.submit(self._hear, path)

    def hear(self, path: str) -> Transcript | None:
        """Hear a video file now; see `begin`."""
        found = self.begin(path).result()
        if self._fault is not None:
            raise self._fault
        return found

    def close(self) -> None:
        """End the worker; what waits to be heard is cancelled, and what is being heard fails."""
        self._line.shutdown(wait=False, cancel_futures=True)
        self._worker.close()

    def _hear(self, path: str) -> Transcript | None:
        from evenreel.speech.recogniser import recognise_with

        if self._fault is not None:  # the next one would not start either
            return None
        try:
            found = recognise_with(self._worker, path)
        except MediaError as error:
            return self._nothing(path, error)
        except EvenreelError as error:
            self._fault = error
            return None
        for note in found.notes:
            self._tell(printable(path), printable(note))
        languages = Counter(one.language for one in found.utterances)
        language = languages.most_common(1)[0][0] if languages else None
        return Transcript("recognised", self.speech_id, found.utterances, language)

    def _nothing(self, path: str, error: MediaError) -> Transcript | None:
        if error.reason != "no_sound":  # the pictures of which were read, and most films without sound are meant so
            self._tell(printable(path), printable(f"what is said cannot be heard: {error}"))
        if error.reason in TRANSIENT:
            return None
        return Transcript("recognised", self.speech_id, problem=printable(str(error)))
