"""Spoken sentences for planted clips: by espeak-ng where it is installed, else from recordings that are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenreel.errors import UsageError
from evenreel.speech.synthesis import NO_ESPEAK, VOICES, WORDS_PER_MINUTE, can_speak, speak_text
from evenreel.types import FloatArray

Recordings = Mapping[str, FloatArray]
"""Samples at 16 kHz by the sentence that is spoken, which are taken before espeak-ng is asked."""

PAUSE_S = 0.4
"""Silence between two sentences that would else overlap."""

_QUIETEST = 1e-3  # of samples that count as spoken


@dataclass(frozen=True)
class SpokenSentence:
    """A sentence that is spoken in a planted clip.

    Attributes:
        text: what is said.
        voice: voice of espeak-ng, one of `evenreel.speech.synthesis.VOICES` or another that it knows.
        start_s: when it begins in the clip, unless the sentence before is still spoken.
        snr_db: how much louder the speech is than white noise over the whole clip, in decibels; None for no noise.
        words_per_minute: how fast it is said.
    """

    text: str
    voice: str = VOICES[0]
    start_s: float = 0.0
    snr_db: float | None = None
    words_per_minute: int = WORDS_PER_MINUTE


def check_voices(sentences: Iterable[SpokenSentence], recordings: Recordings | None = None) -> None:
    """Check, before any clip is rendered, that sentences can be spoken here."""
    lacking = next((one.text for one in sentences if one.text not in (recordings or {})), None)
    if lacking is not None and not can_speak():
        raise UsageError(f"{NO_ESPEAK}; or give a recording of {lacking!r}.")


def speak(sentence: SpokenSentence, recordings: Recordings | None = None) -> FloatArray:
    """Return a sentence as (N,) float32 samples at 16 kHz, the same in every run.

    Args:
        sentence: what is said, and how.
        recordings: samples at 16 kHz by text, which are taken before espeak-ng is asked.

    Raises:
        UsageError: there is neither a recording nor espeak-ng, or it has no such voice.
    """
    check_voices([sentence], recordings)
    if recordings is not None and sentence.text in recordings:
        return recordings[sentence.text]
    return speak_text(sentence.text, sentence.voice, sentence.words_per_minute)


def sound_of(
    sentences: Sequence[SpokenSentence], length_s: float, seed: int, recordings: Recordings | None = None
) -> FloatArray:
    """Return the sound of a clip in which sentences are spoken: (N,) float32 at 16 kHz, no shorter than they are.

    A sentence begins at its time, or in a pause after the one before where that takes longer.

    Args:
        sentences: what is said, when, and in which noise.
        length_s: length of the clip in seconds.
        seed: seed of the noise.
        recordings: samples at 16 kHz by text, which are taken before espeak-ng is asked.
    """
    from evenreel.media.sound import SAMPLE_RATE  # FFmpeg is loaded for speech alone

    sound, free = np.zeros(round(length_s * SAMPLE_RATE), np.float32), 0
    for sentence in sentences:
        spoken = speak(sentence, recordings)
        first = max(round(sentence.start_s * SAMPLE_RATE), free)
        sound = np.pad(sound, (0, max(0, first + len(spoken) - len(sound))))
        sound[first : first + len(spoken)] += spoken
        free = first + len(spoken) + round(PAUSE_S * SAMPLE_RATE)
    noisy = [one.snr_db for one in sentences if one.snr_db is not None]
    return _with_noise(sound, min(noisy), seed) if noisy else sound


def _with_noise(sound: FloatArray, snr_db: float, seed: int) -> FloatArray:
    """Add white noise that much below what is spoken."""
    loud = sound[np.abs(sound) > _QUIETEST]
    power = float(np.mean(np.square(loud))) if len(loud) else 0.0
    noise = np.random.default_rng(seed).normal(0, (power / 10 ** (snr_db / 10)) ** 0.5, len(sound))
    return np.clip(sound + noise, -1, 1).astype(np.float32)
