"""A detector that takes whatever is loud for speech, for tests without voices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from evenreel.media.sound import SAMPLE_RATE, SoundBlock
from evenreel.speech.recogniser import SpeechFiles
from evenreel.types import FloatArray

WINDOW = 512
TARGET = "tests.speech.loud:LoudSpeechFiles"


def loudness(samples: FloatArray) -> FloatArray:
    """The chance of speech in each window: the loudest sample in it."""
    return np.abs(samples.reshape(-1, WINDOW)).max(axis=1)


def hear_what_is_loud(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("faster_whisper.vad.get_vad_model", lambda: loudness)


class LoudSpeechFiles(SpeechFiles):
    """The worker of `evenreel.speech`, with another detector."""

    def __init__(self, **setup: Any) -> None:
        from faster_whisper import vad

        super().__init__(**setup)
        vad.get_vad_model = lambda: loudness


def blocks_of(samples: FloatArray, cuts: Sequence[int] = (), start_s: float = 0.0) -> Iterator[SoundBlock]:
    places = [0, *sorted({cut for cut in cuts if 0 < cut < len(samples)}), len(samples)]
    for first, last in pairwise(places):
        yield SoundBlock(start_s + first / SAMPLE_RATE, samples[first:last])
