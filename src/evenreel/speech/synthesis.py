"""Speech that is made, not heard: a sentence in a voice of espeak-ng, where that is installed.

As a program it says one sentence with espeak-ng's library, which remembers what it said before: it reads the voice, the
words a minute and the sentence, a line each, and writes the rate as text in the first line and then 16-bit samples.
"""

from __future__ import annotations

import ctypes
import io
import shutil
import subprocess
import sys
import wave
from typing import TYPE_CHECKING, Any

from evenreel.errors import UsageError
from evenreel.extras import installed
from evenreel.media.workers import command, last_words

if TYPE_CHECKING:
    from evenreel.types import FloatArray

VOICES = ("en-us", "en-us+f3", "en-us+m3")  # three voices of espeak-ng: a plain one, a woman's, a man's
WORDS_PER_MINUTE = 150
NO_ESPEAK = "Speaking needs espeak-ng: pip install espeakng-loader, or install espeak-ng"
_WAVE_HEADER = 44  # bytes
_RETRIEVAL, _RATE, _UTF8 = 1, 1, 1  # constants of espeak-ng's speak_lib.h


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
    if not can_speak():
        raise UsageError(f"{NO_ESPEAK}.")
    import av
    import numpy as np

    from evenreel.media.sound import SAMPLE_RATE

    by_library, given, started = installed("espeakng_loader"), text, ["espeak-ng", "--stdout", "-v", voice]
    if by_library:
        given, started = f"{voice}\n{words_per_minute}\n{text}", command("evenreel.speech.synthesis")
    else:
        started += ["-s", str(words_per_minute), "--stdin"]
    done = subprocess.run(started, input=given.encode(), capture_output=True, check=False)
    if done.returncode:
        why = f" ({words})" if (words := last_words(done.stderr)) else ""
        raise UsageError(
            f"espeak-ng cannot say {text!r} with the voice {voice!r}{why}; take one of {', '.join(VOICES)}."
        )
    if by_library:
        line, _, samples = done.stdout.partition(b"\n")
        rate = int(line)
    else:
        with wave.open(io.BytesIO(done.stdout)) as file:  # written to a pipe: its header knows no length
            rate, samples = file.getframerate(), done.stdout[_WAVE_HEADER:]
    spoken = np.frombuffer(samples, "<i2", len(samples) // 2).astype(np.float32) / np.float32(2**15)
    resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(spoken[None]), "flt", "mono")
    frame.sample_rate = rate
    parts = [part.to_ndarray().reshape(-1) for each in (frame, None) for part in resampler.resample(each)]
    return np.concatenate(parts).astype(np.float32)


def _say(voice: str, words_per_minute: int, text: str) -> bytes:
    import espeakng_loader

    engine: Any = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = engine.espeak_Initialize(_RETRIEVAL, 0, espeakng_loader.get_data_path().encode(), 0)
    engine.espeak_ng_SetRandSeed(ctypes.c_long(1))  # else it is the time of day
    parts: list[bytes] = []

    def take(samples: int | None, count: int, _: int) -> int:
        if samples and count > 0:
            parts.append(ctypes.string_at(samples, 2 * count))
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(take)
    engine.espeak_SetSynthCallback(callback)
    if engine.espeak_SetVoiceByName(voice.encode()):
        sys.exit("there is none")
    engine.espeak_SetParameter(_RATE, words_per_minute, 0)
    spoken = text.encode() + b"\0"
    engine.espeak_Synth(spoken, len(spoken), 0, 1, 0, _UTF8, None, None)
    engine.espeak_Synchronize()
    return f"{rate}\n".encode() + b"".join(parts)


if __name__ == "__main__":
    given_voice, given_speed, given_text = sys.stdin.buffer.read().decode().split("\n", 2)
    sys.stdout.buffer.write(_say(given_voice, int(given_speed), given_text))
