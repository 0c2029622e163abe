"""Sounds of a video file: its windows, decoded in a worker that can be killed, and their vectors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media.sound import SoundBlock
from evenreel.media.workers import Message, Worker
from evenreel.sound.encoder import WINDOWS_AT_ONCE, SoundEncoder
from evenreel.sound.windows import SoundWindow, SoundWindows, cut_windows
from evenreel.types import FloatArray

TARGET = "evenreel.sound.reader:SoundFiles"
"""What a `Worker` runs to decode sound."""


@dataclass(frozen=True, eq=False)
class ClipSounds:
    """What a clip sounds like.

    Attributes:
        times_s: (W,) when each window that is not silent begins, in seconds of the clip's own clock.
        spans_s: (W, 2) start and end of each.
        vectors: (W, D) their vectors, unit length.
        notes: sentences about what is unusual in the sound.
    """

    times_s: NDArray[np.float64]
    spans_s: NDArray[np.float64]
    vectors: FloatArray
    notes: tuple[str, ...] = ()


class SoundFiles:
    """Worker that answers `{"path"}` of a video with a message for each block of its sound, and one with its notes."""

    def __init__(self, sample_rate: int, limits: dict[str, Any]) -> None:
        self._sample_rate, self._limits = sample_rate, MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Decode the sound of the video."""
        from evenreel.media.sound import open_sound  # whoever has the worker run does not need FFmpeg

        with open_sound(task["path"], self._limits, sample_rate=self._sample_rate) as sound:
            for block in sound.readable_blocks():
                yield {"kind": "block", "start_s": block.start_s}, block.samples
            yield {"kind": "notes", "notes": sound.notes}, None


def sound_worker(windows: SoundWindows, limits: MediaLimits | None = None) -> Worker:
    """Return a worker that decodes sound, and that is killed when it hangs or grows too large."""
    from dataclasses import asdict

    given = limits or MediaLimits()
    return Worker(TARGET, {"sample_rate": windows.sample_rate, "limits": asdict(given)}, given)


def read_sounds(worker: Worker, path: str | os.PathLike[str], encoder: SoundEncoder) -> ClipSounds:
    """Have a worker of `sound_worker` decode the sound of a video file, and encode it window by window.

    Memory does not grow with the length of the sound, but for its vectors. Silent windows are left out.

    Args:
        worker: the worker.
        path: a local video file.
        encoder: model of sounds.

    Raises:
        MediaError: the file or its sound cannot be used, it is silent throughout, or the worker crashed, hung or grew
            too large over it.
        EncoderError: the model gives no vector.
        EvenreelError: no worker can be started.
    """
    notes: list[str] = []
    cut = cut_windows(_blocks(worker, path, encoder.windows.sample_rate, notes), encoder.windows)
    spans, vectors = list[tuple[float, float]](), list[FloatArray]()
    for batch in _batches(window for window in cut if not window.is_silent):
        spans += [(window.start_s, window.end_s) for window in batch]
        vectors.append(encoder.encode_sound([window.samples for window in batch]))
    if not spans:
        raise MediaError("no_sound", "its sound is silent throughout")
    spans_s = np.array(spans, np.float64)
    return ClipSounds(spans_s[:, 0].copy(), spans_s, np.concatenate(vectors), tuple(notes))


def _blocks(worker: Worker, path: str | os.PathLike[str], rate: int, notes: list[str]) -> Iterator[SoundBlock]:
    for message, samples in worker.run({"path": os.fspath(path)}):
        if message["kind"] == "notes":
            notes += message["notes"]
        elif samples is not None:
            yield SoundBlock(message["start_s"], samples, rate)


def _batches(windows: Iterable[SoundWindow]) -> Iterator[list[SoundWindow]]:
    left = iter(windows)
    for first in left:
        yield list(chain([first], islice(left, WINDOWS_AT_ONCE - 1)))
