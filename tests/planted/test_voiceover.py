"""Misleading voices: another clip's caption is said over a clip, and a control that says nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from evenreel.corpus import load_corpus
from evenreel.corpus.counterparts import VOICEOVERS
from evenreel.errors import CorpusError, UsageError
from evenreel.media import open_video, parse_rule
from evenreel.planted import PlantedCorpus, PlantSettings, SceneRanges, described, edited, plan_corpus, write_corpus
from evenreel.speech import VOICES, can_speak
from tests.cli.test_planted import here

espeak = pytest.mark.skipif(not can_speak(), reason="espeak-ng is not here (pip install espeakng-loader)")
VOWELS = set("aeiou")


def plan_of(bias: Any, seed: int = 0, **settings: Any) -> PlantedCorpus:
    return plan_corpus(bias, 0.6, 240, seed, PlantSettings(**settings))


@given(bias=st.sampled_from(["visual", "textual", "source", "domain", "scene_text"]), seed=st.integers(0, 20))
@limits(max_examples=15)
def test_a_voice_says_what_another_clip_is_described_by(bias: str, seed: int) -> None:
    spoken = 0.5 if bias == "scene_text" else 0.0
    plan = plan_of(bias, seed, spoken=spoken)
    clean = {clip.clip_id: clip for clip in plan.split("test")}
    voiced, told = edited(plan, "voiceover").clips, described(plan, "voiceover").clips
    assert [clip.clip_id for clip in voiced] == [clip.clip_id for clip in told] == [*clean]
    for after, row in zip(voiced, told, strict=True):
        before, lender = clean[after.clip_id], clean[row.voiceover_of or ""]
        *own, said = after.scene.spoken
        assert tuple(own) == before.scene.spoken and replace(after.scene, spoken=tuple(own)) == before.scene
        assert row.scene == before.scene and row.overlay_of is None, "tables tell what clips were"
        caption = lender.shot.captions[0]
        assert said.text == caption.text and said.voice in VOICES
        seen = [name for name in caption.names if name != "word"]
        assert any(before.scene.attributes[name] != lender.scene.attributes[name] for name in seen)
    often = Counter(row.voiceover_of for row in told)
    assert max(often.values()) <= 4


def test_the_control_is_said_in_the_same_voice_and_says_nothing() -> None:
    plan = plan_of("visual")
    words = {word for clip in plan.clips for caption in clip.shot.captions for word in caption.text.split()}
    for after, control in zip(edited(plan, "voiceover").clips, edited(plan, "voiceover-control").clips, strict=True):
        (said,), (babble,) = after.scene.spoken, control.scene.spoken
        assert replace(babble, text=said.text) == said
        for letter, other in zip(said.text, babble.text, strict=True):
            assert (letter == other) == (not letter.isalpha())
            assert (letter in VOWELS) == (other in VOWELS)
        assert {word for word in babble.text.split() if len(word) > 3}.isdisjoint(words)
    assert {clip.voiceover_of for clip in described(plan, "voiceover-control").clips} == {None}


def test_only_clips_of_the_test_split_that_differ_can_mislead() -> None:
    with pytest.raises(UsageError, match="misleading words, not of 'train'"):
        edited(plan_of("visual"), "voiceover", "train")
    few = plan_corpus("scene_text", 1.0, 12, settings=PlantSettings(train_share=0.34, val_share=0.33))
    for edit in VOICEOVERS:
        with pytest.raises(CorpusError, match="No clip has words that could be put onto the clip 'test_00000_0'"):
            edited(few, edit)


@espeak
def test_the_pictures_of_a_clip_with_a_voice_are_those_without(tmp_path: Path) -> None:
    small = PlantSettings(SceneRanges(duration_s=(0.5, 0.8), sign_share=0.0, width=64, height=48))
    plan = plan_corpus("visual", 0.9, 20, settings=small)
    for edit in VOICEOVERS:
        write_corpus(plan, tmp_path / edit, workers=2, edit=edit)
    write_corpus(plan, tmp_path / "clean", workers=1)
    corpus = load_corpus(tmp_path / "voiceover")
    assert corpus.clips["voiceover_of"].is_in(corpus.clips["clip_id"].implode()).all()
    assert "voiceover_of" not in load_corpus(tmp_path / "voiceover-control").clips.columns
    for path in corpus.clips["path"]:
        shown = []
        for folder in ("clean", *VOICEOVERS):
            with open_video(tmp_path / folder / path) as video:
                shown.append((video.info.duration_s, [one.pixels for one in video.frames(parse_rule("every 0.1 s"))]))
        assert all(length_s == shown[0][0] for length_s, _ in shown)
        assert all(np.array_equal(pixels, shown[0][1]) for _, pixels in shown)
    again = here("visual", "--clips", 20, "--edit", "voiceover", "--out", tmp_path / "voiceover").exception
    assert isinstance(again, CorpusError) and "holds a planted corpus of another" in str(again)
