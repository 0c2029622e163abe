from __future__ import annotations

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
    assert not can_speak()
    with pytest.raises(UsageError, match="pip install espeakng-loader"):
        speak_text(TEXT)
