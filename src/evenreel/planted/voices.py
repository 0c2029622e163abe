"""Spoken sentences for planted clips: by espeak-ng where it is installed, else from recordings that are given."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import wave
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evenreel.errors import UsageError
from evenreel.extras import installed
from evenreel.media.sound import SAMPLE_RATE
from evenreel.types import FloatArray

VOICES = ("en-us", "en-us+f3", "en-us+m3")
"""Three voices of espeak-ng: a plain one, a woman's, a man's."""

_WAVE_HEADER = 44  # bytes
_QUIETEST = 1e-3  # of samples that count as spoken


@dataclass(frozen=True)
class SpokenSentence:
    """A sentence that is spoken in a planted clip.

    Attributes:
        text: what is said.
        voice: voice of espeak-ng, one of `VOICES` or another that it knows.
        start_s: when it begins in the clip.
        snr_db: how much louder the speech is than white noise over the whole clip, in decibels; None for no noise.
        words_per_minute: how fast it is said.
    """

    text: str
    voice: str = VOICES[0]
    start_s: float = 0.0
    snr_db: float | None = None
    words_per_minute: int = 150


def can_speak() -> bool:
    """Return whether espeak-ng is here, as the package espeakng-loader or as a command."""
    return installed("espeakng_loader") or shutil.which("espeak-ng") is not None


def speak(sentence: SpokenSentence, recordings: Mapping[str, FloatArray] | None = None) -> FloatArray:
    """Return a sentence as (N,) float32 samples at 16 kHz; with espeakng-loader they are the same in every run.

    Args:
        sentence: what is said, and how.
        recordings: samples at 16 kHz by text, which are taken before espeak-ng is asked.

    Raises:
        UsageError: there is neither a recording nor espeak-ng, or it has no such voice.
    """
    if recordings is not None and sentence.text in recordings:
        return recordings[sentence.text]
    if installed("espeakng_loader"):
        spoken, rate = _by_library(sentence)
    elif shutil.which("espeak-ng"):
        spoken, rate = _by_command(sentence)
    else:
        raise UsageError(
            "Planted speech needs espeak-ng: pip install espeakng-loader, or install espeak-ng; or give a recording "
            f"of {sentence.text!r}."
        )
    return _at_16_khz(spoken, rate)


def sound_of(
    sentence: SpokenSentence, length_s: float, seed: int, recordings: Mapping[str, FloatArray] | None = None
) -> FloatArray:
    """Return the sound of a clip in which a sentence is spoken: (N,) float32 at 16 kHz, no shorter than the sentence.

    Args:
        sentence: what is said, when, and in which noise.
        length_s: length of the clip in seconds.
        seed: seed of the noise.
        recordings: samples at 16 kHz by text, which are taken before espeak-ng is asked.

    Raises:
        UsageError: the sentence cannot be spoken here.
    """
    spoken = speak(sentence, recordings)
    first = round(sentence.start_s * SAMPLE_RATE)
    sound = np.zeros(max(round(length_s * SAMPLE_RATE), first + len(spoken)), np.float32)
    sound[first : first + len(spoken)] = spoken
    if sentence.snr_db is None:
        return sound
    loud = spoken[np.abs(spoken) > _QUIETEST]
    power = float(np.mean(np.square(loud))) if len(loud) else 0.0
    noise = np.random.default_rng(seed).normal(0, (power / 10 ** (sentence.snr_db / 10)) ** 0.5, len(sound))
    return np.clip(sound + noise, -1, 1).astype(np.float32)


def _by_library(sentence: SpokenSentence) -> tuple[FloatArray, int]:
    given = f"{sentence.voice}\n{sentence.words_per_minute}\n{sentence.text}"
    rate, _, samples = _output([sys.executable, "-m", "evenreel.planted.espeak"], given, sentence).partition(b"\n")
    return _from_16_bits(samples), int(rate)


def _by_command(sentence: SpokenSentence) -> tuple[FloatArray, int]:
    command = ["espeak-ng", "--stdout", "-v", sentence.voice, "-s", str(sentence.words_per_minute), "--stdin"]
    written = _output(command, sentence.text, sentence)
    with wave.open(io.BytesIO(written)) as file:  # written to a pipe: its header knows no length
        return _from_16_bits(written[_WAVE_HEADER:]), file.getframerate()


def _output(command: list[str], given: str, sentence: SpokenSentence) -> bytes:
    done = subprocess.run(command, input=given.encode(), capture_output=True, check=False)
    if done.returncode:
        raise UsageError(
            f"espeak-ng cannot say {sentence.text!r} with the voice {sentence.voice!r}; take one of "
            f"{', '.join(VOICES)}."
        )
    return done.stdout


def _from_16_bits(samples: bytes) -> FloatArray:
    return np.frombuffer(samples, "<i2", len(samples) // 2).astype(np.float32) / np.float32(2**15)


def _at_16_khz(samples: FloatArray, rate: int) -> FloatArray:
    import av

    resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples[None]), "flt", "mono")
    frame.sample_rate = rate
    parts = [part.to_ndarray().reshape(-1) for each in (frame, None) for part in resampler.resample(each)]
    return np.concatenate(parts).astype(np.float32)
