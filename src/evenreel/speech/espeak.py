"""Says one sentence with espeak-ng's library, in a process of its own: it remembers what it said before.

It reads `VOICE`, `WORDS A MINUTE` and the sentence, a line each, and writes the rate as text in the first line and then
16-bit samples. Exit status 1 stands for a voice that espeak-ng does not have.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

RETRIEVAL, RATE, UTF8 = 1, 1, 1  # constants of espeak-ng's speak_lib.h


def say(voice: str, words_per_minute: int, text: str) -> tuple[int, bytes]:
    import espeakng_loader

    engine: Any = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = engine.espeak_Initialize(RETRIEVAL, 0, espeakng_loader.get_data_path().encode(), 0)
    engine.espeak_ng_SetRandSeed(ctypes.c_long(1))  # else it is the time of day
    parts: list[bytes] = []

    def take(samples: int | None, count: int, _: int) -> int:
        if samples and count > 0:
            parts.append(ctypes.string_at(samples, 2 * count))
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(take)
    engine.espeak_SetSynthCallback(callback)
    if engine.espeak_SetVoiceByName(voice.encode()):
        raise LookupError(voice)
    engine.espeak_SetParameter(RATE, words_per_minute, 0)
    spoken = text.encode() + b"\0"
    engine.espeak_Synth(spoken, len(spoken), 0, 1, 0, UTF8, None, None)
    engine.espeak_Synchronize()
    return rate, b"".join(parts)


if __name__ == "__main__":
    given_voice, given_speed, given_text = sys.stdin.buffer.read().decode().split("\n", 2)
    try:
        found_rate, found = say(given_voice, int(given_speed), given_text)
    except LookupError:
        sys.exit(1)
    sys.stdout.buffer.write(f"{found_rate}\n".encode() + found)
