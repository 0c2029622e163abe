"""Spoken sentences in planted clips: at the time and over the noise that were asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenreel.errors import CorpusError, UsageError
from evenreel.media import open_sound, open_video, parse_rule
from evenreel.media.sound import SAMPLE_RATE
from evenreel.planted import (
    Entity,
    PlantedCorpus,
    PlantSettings,
    Scene,
    SceneRanges,
    page_of,
    plan_corpus,
    voices,
    write_corpus,
    write_scene,
)
from evenreel.planted.voices import PAUSE_S, SpokenSentence, check_voices, sound_of, speak
from evenreel.speech import synthesis
from evenreel.types import FloatArray

TEXT = "A red circle moves to the left."
RECORDING = (0.5 * np.sin(np.arange(SAMPLE_RATE) / 10)).astype(np.float32)


def test_a_recording_is_taken_before_espeak_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voices, "speak_text", lambda *_: pytest.fail("espeak-ng was asked"))
    assert speak(SpokenSentence(TEXT), {TEXT: RECORDING}) is RECORDING


def test_without_espeak_and_recording_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesis, "installed", lambda name: False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match=f"pip install espeakng-loader; or give a recording of '{TEXT}'"):
        speak(SpokenSentence(TEXT), {"another": RECORDING})
    check_voices([SpokenSentence(TEXT)], {TEXT: RECORDING})


def test_a_sentence_waits_for_the_one_before() -> None:
    """Of a second each: the next begins at its time, or in a pause after the one that is still spoken."""
    bank = {TEXT: RECORDING, "next": -RECORDING}
    for start_s, begins_s in ((0.5, 1.2 + PAUSE_S), (4.0, 4.0)):
        sound = sound_of([SpokenSentence(TEXT, start_s=0.2), SpokenSentence("next", start_s=start_s)], 3.0, 0, bank)
        places = {0.2: RECORDING, begins_s: -RECORDING}
        expected = np.zeros(max(3 * SAMPLE_RATE, round((begins_s + 1) * SAMPLE_RATE)), np.float32)
        for place_s, samples in places.items():
            expected[round(place_s * SAMPLE_RATE) :][:SAMPLE_RATE] = samples
        np.testing.assert_array_equal(sound, expected)


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0])
def test_noise_is_as_loud_as_was_stated(snr_db: float) -> None:
    bank = {TEXT: RECORDING}
    clean = sound_of([SpokenSentence(TEXT, start_s=2.0)], 5.0, 0, bank)
    noisy = sound_of([SpokenSentence(TEXT, start_s=2.0, snr_db=snr_db)], 5.0, 0, bank)
    assert len(clean) == len(noisy) == 5 * SAMPLE_RATE
    np.testing.assert_array_equal(clean[2 * SAMPLE_RATE : 3 * SAMPLE_RATE], RECORDING)
    assert not clean[: 2 * SAMPLE_RATE].any()
    noise = noisy[3 * SAMPLE_RATE :]
    found_db = 10 * np.log10(np.mean(np.square(RECORDING)) / np.mean(np.square(noise)))
    assert found_db == pytest.approx(snr_db, abs=0.5)
    np.testing.assert_array_equal(noisy, sound_of([SpokenSentence(TEXT, start_s=2.0, snr_db=snr_db)], 5.0, 0, bank))
    assert (noisy != sound_of([SpokenSentence(TEXT, start_s=2.0, snr_db=snr_db)], 5.0, 1, bank)).any()


def test_a_sentence_that_is_longer_than_its_clip_is_whole() -> None:
    assert len(sound_of([SpokenSentence(TEXT, start_s=0.5)], 1.0, 0, {TEXT: RECORDING})) == 1.5 * SAMPLE_RATE


# -- clips -----------------------------------------------------------------------------------------------

SCENE = Scene((Entity("ring", "yellow", "large"),), "sways", "beach", duration_s=3.0, width=64, height=48)
SAID = SpokenSentence(TEXT, start_s=1.25)


def heard(path: Path) -> FloatArray:
    with open_sound(path) as sound:
        return np.concatenate([block.samples for block in sound.blocks()])


def test_a_clip_says_its_sentence_when_it_should(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    write_scene(path, replace(SCENE, spoken=(SAID,)), {TEXT: RECORDING})
    found = heard(path)
    loud = np.flatnonzero(np.abs(found) > 0.1) / SAMPLE_RATE
    assert loud[0] == pytest.approx(1.25, abs=0.03)
    assert loud[-1] == pytest.approx(2.25, abs=0.03)
    assert len(found) / SAMPLE_RATE == pytest.approx(3.0, abs=0.1)
    silent = tmp_path / "b.mp4"
    write_scene(silent, SCENE)
    with open_video(path) as one, open_video(silent) as other:
        rule = parse_rule("every 0.1 s")
        pictures = [[frame.pixels for frame in video.frames(rule)] for video in (one, other)]
    np.testing.assert_array_equal(*pictures)
    again = tmp_path / "c.mp4"
    write_scene(again, replace(SCENE, spoken=(SAID,)), {TEXT: RECORDING})
    assert again.read_bytes() == path.read_bytes()


def speaking(plan: PlantedCorpus, text: str) -> PlantedCorpus:
    """The plan, with its first clip saying something."""
    first, *rest = plan.clips
    scene = replace(first.scene, spoken=(SpokenSentence(text),))
    return replace(plan, clips=(replace(first, shot=replace(first.shot, scene=scene)), *rest))


def test_a_corpus_of_clips_that_speak_is_not_mixed_with_a_silent_one(tmp_path: Path) -> None:
    scenes = SceneRanges(duration_s=(0.5, 0.8), sign_share=0.0, width=64, height=48)
    plan = plan_corpus("scene_text", 0.9, 10, settings=PlantSettings(scenes, val_share=0.2, group=2))
    bank = {"one": RECORDING[:4000], "two": RECORDING[:8000]}
    write_corpus(speaking(plan, "one"), tmp_path / "corpus", workers=1, recordings=bank)
    first = tmp_path / "corpus" / "clips" / f"{plan.clips[0].clip_id}.mp4"
    assert np.abs(heard(first)[:4000]).max() > 0.1
    for other in (plan, speaking(plan, "two")):
        with pytest.raises(CorpusError, match="holds a planted corpus of another"):
            write_corpus(other, tmp_path / "corpus", workers=1, recordings=bank)
    assert page_of(plan)["digest"] == page_of(replace(plan))["digest"]
