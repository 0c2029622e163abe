"""Sentences that are spoken by espeak-ng: the same in every run, in the voice that was asked for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from evenreel.errors import UsageError
from evenreel.media.sound import SAMPLE_RATE
from evenreel.speech import VOICES, can_speak, speak_text, synthesis

TEXT = "A red circle moves to the left."
espeak = pytest.mark.skipif(not can_speak(), reason="espeak-ng is not here (pip install espeakng-loader)")


@espeak
def test_a_sentence_sounds_the_same_in_every_run_and_other_voices_otherwise() -> None:
    spoken = {voice: speak_text(TEXT, voice) for voice in VOICES}
    for voice, samples in spoken.items():
        np.testing.assert_array_equal(samples, speak_text(TEXT, voice))
        assert 1.0 < len(samples) / SAMPLE_RATE < 5.0
        assert 0.1 < np.abs(samples).max() <= 1
    assert len({samples.tobytes() for samples in spoken.values()}) == len(VOICES)
    slow = speak_text(TEXT, words_per_minute=90)
    assert len(slow) > 1.3 * len(spoken[VOICES[0]])


@espeak
def test_a_voice_that_there_is_not_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="cannot say .* with the voice 'nobody'"):
        speak_text(TEXT, "nobody")


def test_without_espeak_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesis, "installed", lambda name: False)
    monkeypatch.setenv("PATH", "")
    assert not can_speak()
    with pytest.raises(UsageError, match="pip install espeakng-loader"):
        speak_text(TEXT)


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
    monkeypatch.setattr(synthesis, "installed", lambda name: False)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    np.testing.assert_array_equal(speak_text(TEXT), np.full(1000, 0.5, np.float32))
