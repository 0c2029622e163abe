"""Spoken sentences: the same in every run, in the voice, at the time and over the noise that were asked for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from evenreel.errors import UsageError
from evenreel.media.sound import SAMPLE_RATE
from evenreel.planted import voices
from evenreel.planted.voices import VOICES, SpokenSentence, can_speak, sound_of, speak

TEXT = "A red circle moves to the left."
RECORDING = (0.5 * np.sin(np.arange(SAMPLE_RATE) / 10)).astype(np.float32)
espeak = pytest.mark.skipif(not can_speak(), reason="espeak-ng is not here (pip install espeakng-loader)")


@espeak
def test_a_sentence_sounds_the_same_in_every_run_and_other_voices_otherwise() -> None:
    spoken = {voice: speak(SpokenSentence(TEXT, voice)) for voice in VOICES}
    for voice, samples in spoken.items():
        np.testing.assert_array_equal(samples, speak(SpokenSentence(TEXT, voice)))
        assert 1.0 < len(samples) / SAMPLE_RATE < 5.0
        assert 0.1 < np.abs(samples).max() <= 1
    assert len({samples.tobytes() for samples in spoken.values()}) == len(VOICES)
    slow = speak(SpokenSentence(TEXT, words_per_minute=90))
    assert len(slow) > 1.3 * len(spoken[VOICES[0]])


@espeak
def test_a_voice_that_there_is_not_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="cannot say .* with the voice 'nobody'"):
        speak(SpokenSentence(TEXT, "nobody"))


def test_a_recording_is_taken_before_espeak_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voices, "_output", lambda *_: pytest.fail("espeak-ng was asked"))
    assert speak(SpokenSentence(TEXT), {TEXT: RECORDING}) is RECORDING


def test_without_espeak_and_recording_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voices, "installed", lambda name: False)
    monkeypatch.setenv("PATH", "")
    assert not can_speak()
    with pytest.raises(UsageError, match="pip install espeakng-loader"):
        speak(SpokenSentence(TEXT))


def test_the_command_is_asked_where_the_package_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in that writes a file of sound as espeak-ng does to a pipe: with the longest length in its header."""
    command = tmp_path / "espeak-ng"
    command.write_text(
        f"#!{sys.executable}\n"
        "import struct, sys\n"
        "assert sys.argv[1:] == ['--stdout', '-v', 'en-us', '-s', '150', '--stdin']\n"
        f"assert sys.stdin.read() == {TEXT!r}\n"
        "head = struct.pack('<4sI4s4sIHHIIHH4sI', b'RIFF', 0x7FFFF000 + 36, b'WAVE', b'fmt ', 16, 1, 1, 16000, 32000,"
        " 2, 16, b'data', 0x7FFFF000)\n"
        "sys.stdout.buffer.write(head + struct.pack('<h', 16384) * 1000)\n"
    )
    command.chmod(0o755)
    monkeypatch.setattr(voices, "installed", lambda name: False)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    np.testing.assert_array_equal(speak(SpokenSentence(TEXT)), np.full(1000, 0.5, np.float32))


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0])
def test_noise_is_as_loud_as_was_stated(snr_db: float) -> None:
    bank = {TEXT: RECORDING}
    clean = sound_of(SpokenSentence(TEXT, start_s=2.0), 5.0, 0, bank)
    noisy = sound_of(SpokenSentence(TEXT, start_s=2.0, snr_db=snr_db), 5.0, 0, bank)
    assert len(clean) == len(noisy) == 5 * SAMPLE_RATE
    np.testing.assert_array_equal(clean[2 * SAMPLE_RATE : 3 * SAMPLE_RATE], RECORDING)
    assert not clean[: 2 * SAMPLE_RATE].any()
    noise = noisy[3 * SAMPLE_RATE :]
    found_db = 10 * np.log10(np.mean(np.square(RECORDING)) / np.mean(np.square(noise)))
    assert found_db == pytest.approx(snr_db, abs=0.5)
    np.testing.assert_array_equal(noisy, sound_of(SpokenSentence(TEXT, start_s=2.0, snr_db=snr_db), 5.0, 0, bank))
    assert (noisy != sound_of(SpokenSentence(TEXT, start_s=2.0, snr_db=snr_db), 5.0, 1, bank)).any()


def test_a_sentence_that_is_longer_than_its_clip_is_whole() -> None:
    assert len(sound_of(SpokenSentence(TEXT, start_s=0.5), 1.0, 0, {TEXT: RECORDING})) == 1.5 * SAMPLE_RATE
