"""Words that a voice says: in the plan, in the tables, in the files, and at the time that was asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from evenreel.corpus import load_corpus
from evenreel.errors import CorpusError, MediaError, UsageError
from evenreel.media import open_sound, open_video, parse_rule
from evenreel.media.sound import SAMPLE_RATE
from evenreel.planted import (
    Entity,
    PlantedClip,
    PlantedCorpus,
    PlantSettings,
    Scene,
    SceneRanges,
    admission_of,
    corpus_of,
    edited,
    page_of,
    plan_corpus,
    voices,
    write_corpus,
    write_scene,
)
from evenreel.planted.voices import PAUSE_S, SpokenSentence, check_voices, sound_of, speak
from evenreel.speech import VOICES, can_speak, synthesis
from evenreel.types import FloatArray
from tests.cli.test_planted import digests, here

# Words that a voice says in place of a sign: in the plan, in the tables and in the files.


espeak = pytest.mark.skipif(not can_speak(), reason="espeak-ng is not here (pip install espeakng-loader)")


def plan_of(spoken: float, strength: float = 0.9, signs: int = 1, seed: int = 0) -> PlantedCorpus:
    return plan_corpus("scene_text", strength, 240, seed, PlantSettings(signs=signs, spoken=spoken))


def silent(clip: PlantedClip, plain: PlantedClip) -> PlantedClip:
    """The clip with the captions and signs of another, and nothing said."""
    scene = replace(clip.scene, signs=plain.scene.signs, spoken=())
    return replace(clip, shot=replace(clip.shot, scene=scene, captions=plain.shot.captions, said=None))


@given(strength=st.sampled_from((0.0, 0.6, 1.0)), signs=st.integers(1, 3), seed=st.integers(0, 20))
@limits(max_examples=15)
def test_a_clip_that_speaks_is_the_one_with_a_sign_but_for_where_its_word_is(
    strength: float, signs: int, seed: int
) -> None:
    plain = plan_of(0.0, strength, signs, seed)
    for before, clip in zip(plain.clips, plan_of(0.5, strength, signs, seed).clips, strict=True):
        word = before.scene.signs[before.shot.named_sign].text
        assert clip.shot.named_word == before.shot.named_word == word
        assert silent(clip, before) == before
        if clip.shot.said is None:
            assert clip == before
            continue
        (sentence,) = clip.scene.spoken
        assert word.lower() in sentence.text.lower().strip("?.").split() and sentence.voice in VOICES
        assert 0 <= sentence.start_s <= max(0, clip.scene.duration_s - 1.8) + 0.01
        assert clip.scene.signs == tuple(sign for sign in before.scene.signs if sign.text != word)
        for caption, other in zip(clip.shot.captions, before.shot.captions, strict=True):
            assert (caption == other) == (not clip.shot.follows)
            assert (word.lower() in caption.text.split()) == clip.shot.follows
            assert "sign" not in caption.text


def test_the_share_is_drawn_by_a_coin_and_all_and_none_are_exact() -> None:
    assert not any(clip.scene.spoken for clip in plan_of(0.0).clips)
    assert all(clip.scene.spoken and not clip.scene.signs for clip in plan_of(1.0).clips)
    shares = [np.mean([bool(clip.scene.spoken) for clip in plan_of(0.3, seed=seed).clips]) for seed in range(5)]
    assert np.mean(shares) == pytest.approx(0.3, abs=0.04)
    voices = [clip.scene.spoken[0].voice for clip in plan_of(1.0).clips]
    assert all(voices.count(voice) > 50 for voice in VOICES)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match="spoken is between 0 and 1"):
            PlantSettings(spoken=share)


def test_tables_say_where_a_word_is_and_classes_do_not_depend_on_it() -> None:
    plan = plan_of(0.5, signs=2)
    told, plain = corpus_of(plan), corpus_of(plan_of(0.0, signs=2))
    assert told.captions.drop("text").equals(plain.captions.drop("text"))
    assert told.clips["word"].to_list() == plain.clips["word"].to_list()
    assert [sorted(one) for one in told.clips["noun_classes"]] == [sorted(one) for one in plain.clips["noun_classes"]]
    for clip, row in zip(plan.clips, told.clips.iter_rows(named=True), strict=True):
        said = [sentence.text for sentence in clip.scene.spoken]
        assert (row["word_in"], row["spoken"]) == (("speech", said[0]) if said else ("sign", None))
        assert row["spoken_start_s"] == (clip.scene.spoken[0].start_s if said else None)
    assert "word_in" not in plain.clips.columns


def test_a_spoken_world_is_told_apart_and_not_taken_for_one_that_was_measured() -> None:
    plain, spoken = plan_of(0.0), plan_of(0.5)
    assert page_of(plain)["digest"] != page_of(spoken)["digest"]
    assert "spoken" not in page_of(plain)["settings"] and page_of(spoken)["settings"]["spoken"] == 0.5
    assert "voice" not in page_of(plain)["planted"] and "a voice says it" in page_of(spoken)["planted"]
    assert admission_of(plain) is not None and admission_of(spoken) is None


def test_a_word_that_is_said_is_lent_to_misleading_signs_as_one_that_is_written() -> None:
    plan = plan_of(1.0)
    named = {clip.shot.named_word for clip in plan.split("test")}
    for clip in edited(plan, "overlay").clips:
        (sign,) = clip.scene.signs
        assert sign.text in named - {clip.shot.named_word}


def heard(path: Path) -> float:
    """How long the sound of a clip is loud, in seconds; 0 for a clip without sound."""
    try:
        with open_sound(path) as sound:
            samples = np.concatenate([block.samples for block in sound.blocks()])
    except MediaError as error:
        assert error.reason == "no_sound"
        return 0.0
    return float((np.abs(samples) > 0.02).sum() / SAMPLE_RATE)


ASKED = ("scene_text", "--spoken", "0.5", "--strength", "1", "--clips", "40", "--seed", "1", "--json")


@pytest.mark.slow
@espeak
def test_clips_that_speak_have_the_same_bytes_in_every_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evenreel", "planted", *ASKED, "--workers", "2", "--out", str(tmp_path / "one")]
    subprocess.run(command, check=True)
    assert here(*ASKED, "--workers", 1, "--out", tmp_path / "two").exit_code == 0
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


@espeak
def test_the_command_writes_clips_that_speak(tmp_path: Path) -> None:
    done = here(*ASKED, "--workers", 1, "--out", tmp_path / "one")
    assert (done.exit_code, done.stderr) == (0, "")
    page = json.loads(done.stdout)
    assert page["settings"]["spoken"] == 0.5 and "a voice says it" in page["planted"]
    clips = load_corpus(tmp_path / "one").clips
    loud_s = {name: heard(tmp_path / "one" / path) for name, path in clips.select("clip_id", "path").iter_rows()}
    spoken = dict(clips.select("clip_id", pl.col("spoken").is_not_null()).iter_rows())
    assert all((loud_s[name] > 0.3) == spoken[name] for name in loud_s) and 5 < sum(spoken.values()) < 35
    texts = pl.read_parquet(tmp_path / "one" / "texts.parquet")
    assert set(texts["clip_id"]) == {name for name, says in spoken.items() if not says}


def test_without_espeak_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesis, "installed", lambda name: False)
    monkeypatch.setenv("PATH", "")
    for asked in (("scene_text", "--spoken", "1"), ("visual", "--edit", "voiceover")):
        error = here(*asked, "--clips", 40, "--workers", 1, "--out", tmp_path / "new").exception
        assert isinstance(error, UsageError) and "Speaking needs espeak-ng: pip install espeakng-loader" in str(error)
    assert not (tmp_path / "new").exists()


# Spoken sentences in planted clips: at the time and over the noise that were asked for.


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


def heard_of_voices(path: Path) -> FloatArray:
    with open_sound(path) as sound:
        return np.concatenate([block.samples for block in sound.blocks()])


def test_a_clip_says_its_sentence_when_it_should(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    write_scene(path, replace(SCENE, spoken=(SAID,)), {TEXT: RECORDING})
    found = heard_of_voices(path)
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
    assert np.abs(heard_of_voices(first)[:4000]).max() > 0.1
    for other in (plan, speaking(plan, "two")):
        with pytest.raises(CorpusError, match="holds a planted corpus of another"):
            write_corpus(other, tmp_path / "corpus", workers=1, recordings=bank)
    assert page_of(plan)["digest"] == page_of(replace(plan))["digest"]
