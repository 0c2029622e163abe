"""Speech that is made, not heard: a sentence in a voice of espeak-ng, where that is installed."""

from __future__ import annotations

import io
import shutil
import subprocess
import wave

import numpy as np

from evenreel.errors import UsageError
from evenreel.extras import installed
from evenreel.media.workers import command, last_words
from evenreel.types import FloatArray

VOICES = ("en-us", "en-us+f3", "en-us+m3")  # three voices of espeak-ng: a plain one, a woman's, a man's
WORDS_PER_MINUTE = 150
NO_ESPEAK = "Speaking needs espeak-ng: pip install espeakng-loader, or install espeak-ng"
_WAVE_HEADER = 44  # bytes


def can_speak() -> bool:
    """Return whether espeak-ng is here, as the package espeakng-loader or as a command."""
    return installed("espeakng_loader") or shutil.which("espeak-ng") is not None


def speak_text(text: str, voice: str = VOICES[0], words_per_minute: int = WORDS_PER_MINUTE) -> FloatArray:
    """Speak a sentence: (N,) float32 samples at 16 kHz; with espeakng-loader they are the same in every run.

    Args:
        text: what is said.
        voice: voice of espeak-ng, one of `VOICES` or another that it knows.
        words_per_minute: how fast it is said.

    Raises:
        UsageError: espeak-ng is not here, or has no such voice.
    """
    if installed("espeakng_loader"):
        spoken, rate = _by_library(text, voice, words_per_minute)
    elif shutil.which("espeak-ng"):
        spoken, rate = _by_command(text, voice, words_per_minute)
    else:
        raise UsageError(f"{NO_ESPEAK}.")
    return _at_16_khz(spoken, rate)


def _by_library(text: str, voice: str, words_per_minute: int) -> tuple[FloatArray, int]:
    said = _output(
        command("evenreel.speech.espeak"), f"{voice}\n{words_per_minute}\n{text}", f"{text!r} with the voice {voice!r}"
    )
    rate, _, samples = said.partition(b"\n")
    return _from_16_bits(samples), int(rate)


def _by_command(text: str, voice: str, words_per_minute: int) -> tuple[FloatArray, int]:
    spoken = ["espeak-ng", "--stdout", "-v", voice, "-s", str(words_per_minute), "--stdin"]
    written = _output(spoken, text, f"{text!r} with the voice {voice!r}")
    with wave.open(io.BytesIO(written)) as file:  # written to a pipe: its header knows no length
        return _from_16_bits(written[_WAVE_HEADER:]), file.getframerate()


def _output(started: list[str], given: str, what: str) -> bytes:
    done = subprocess.run(started, input=given.encode(), capture_output=True, check=False)
    if done.returncode:
        why = f" ({words})" if (words := last_words(done.stderr)) else ""
        raise UsageError(f"espeak-ng cannot say {what}{why}; take one of {', '.join(VOICES)}.")
    return done.stdout


def _from_16_bits(samples: bytes) -> FloatArray:
    return np.frombuffer(samples, "<i2", len(samples) // 2).astype(np.float32) / np.float32(2**15)


def _at_16_khz(samples: FloatArray, rate: int) -> FloatArray:
    import av

    from evenreel.media.sound import SAMPLE_RATE  # FFmpeg is loaded for speech alone

    resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples[None]), "flt", "mono")
    frame.sample_rate = rate
    parts = [part.to_ndarray().reshape(-1) for each in (frame, None) for part in resampler.resample(each)]
    return np.concatenate(parts).astype(np.float32)
