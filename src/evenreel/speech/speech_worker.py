"""The half of recognition that decodes files nobody trusts, run in a killable worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evenreel.config import MediaLimits
from evenreel.media.workers import Message, Worker
from evenreel.speech.loading import load_speech_reader
from evenreel.speech.reader import ClipSpeech, hear_file
from evenreel.speech.sources import locate_speech_model
from evenreel.speech.utterances import SpokenWord, Utterance

TARGET = "evenreel.speech.speech_worker:SpeechFiles"
"""What a `Worker` runs to recognise speech."""

_STALL_S = 600.0  # a stretch of half a minute by a large model on one core, or many hours of silence
_ROOM = 3  # times its size that a model may take in memory


class SpeechFiles:
    """Worker that answers `{"path"}` of a video with a message for each utterance, and one with its notes."""

    def __init__(self, model: str, device: str = "auto", language: str | None = None) -> None:
        self._reader, self._language = load_speech_reader(model, device=device), language
        self._reader.check_language(language)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Recognise what is said in the video."""
        notes: list[str] = []
        for found in hear_file(task["path"], self._reader, notes, language=self._language):
            yield {"kind": "utterance", "utterance": asdict(found)}, None
        yield {"kind": "notes", "notes": notes}, None


def speech_worker(
    model: str, *, device: str = "auto", language: str | None = None, limits: MediaLimits | None = None
) -> Worker:
    """Return a worker that recognises speech, and that is killed when it hangs or grows too large."""
    _, folder = locate_speech_model(model)
    size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    given = limits or MediaLimits()
    roomy = replace(
        given,
        stall_timeout_s=max(_STALL_S, given.stall_timeout_s),
        memory_bytes=given.memory_bytes + _ROOM * size,
    )
    return Worker(TARGET, {"model": str(folder), "device": device, "language": language}, roomy)


def recognise_with(worker: Worker, path: str | os.PathLike[str]) -> ClipSpeech:
    """Have a worker of `speech_worker` recognise what is said in a video file."""
    said: list[Utterance] = []
    notes: tuple[str, ...] = ()
    for message, _ in worker.run({"path": os.fspath(path)}):
        if message["kind"] == "utterance":
            fields = message["utterance"]
            said.append(Utterance(**{**fields, "words": tuple(SpokenWord(**word) for word in fields["words"])}))
        else:
            notes = tuple(message["notes"])
    return ClipSpeech(tuple(said), notes)
