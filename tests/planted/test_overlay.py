"""Misleading signs: another clip's word beside a clip's own, and a control that says nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.planted import showing
from evenreel.cli.app import app
from evenreel.corpus import load_corpus
from evenreel.corpus.counterparts import OVERLAYS
from evenreel.errors import CorpusError, UsageError
from evenreel.planted import (
    PlantedClip,
    PlantedCorpus,
    PlantSettings,
    corpus_of,
    described,
    draw_frame,
    edited,
    plan_corpus,
    vocabulary,
    write_corpus,
)

CONSONANTS = set("BCDFGHJKLMNPQRSTVWXZ")


def plan_of(strength: float = 0.9, signs: int = 1, seed: int = 0) -> PlantedCorpus:
    return plan_corpus("scene_text", strength, 240, seed, PlantSettings(signs=signs))


def named(clip: PlantedClip) -> str:
    return clip.scene.signs[clip.shot.named_sign].text


@given(strength=st.sampled_from((0.5, 1.0)), signs=st.integers(1, 3), seed=st.integers(0, 20))
@limits(max_examples=15)
def test_a_second_sign_says_what_another_clip_s_caption_names(strength: float, signs: int, seed: int) -> None:
    plan = plan_of(strength, signs, seed)
    clean = {clip.clip_id: clip for clip in plan.split("test")}
    overlaid, told = edited(plan, "overlay").clips, described(plan, "overlay").clips
    assert [clip.clip_id for clip in overlaid] == [clip.clip_id for clip in told] == [*clean]
    for after, row in zip(overlaid, told, strict=True):
        before, distractor = clean[after.clip_id], clean[row.overlay_of or ""]
        *own, sign = after.scene.signs
        assert tuple(own) == before.scene.signs
        assert replace(after.scene, signs=before.scene.signs) == before.scene
        assert row.scene == before.scene, "tables tell what clips showed"
        assert sign.text == named(distractor) and sign.text not in {one.text for one in own}
        assert all(sign.text.lower() in caption.text for caption in distractor.shot.captions)
        assert sign.y == pytest.approx(1 - own[0].y) and sign.height == own[0].height
        assert sign.is_up(0.0) and sign.is_up(before.scene.duration_s)
    often = Counter(row.overlay_of for row in told)
    distractors = [one for one in clean.values() if one.shot.follows]
    assert max(often.values()) <= 3 + len(clean) / len(distractors)


@pytest.mark.parametrize("signs", [1, 3])
def test_no_clip_becomes_an_answer_to_its_lender_s_captions_or_its_group_s(signs: int) -> None:
    """Relevance by what clips show in truth, the overlay's word included."""
    plan = plan_of(0.9, signs)
    told, shown = described(plan, "overlay"), edited(plan, "overlay")
    captions = [name for clip in told.clips for name in clip.caption_ids]
    videos = [clip.clip_id for clip in told.clips]
    before = showing(corpus_of(told), captions, videos)
    after = showing(corpus_of(replace(told, clips=shown.clips)), captions, videos)
    lent = {clip.clip_id: {clip.overlay_of, clip.clip_id} for clip in told.clips}
    for row, caption in enumerate(captions):
        own = caption.partition("#")[0]
        for column, clip in enumerate(videos):
            if own in lent[clip] or own.rpartition("_")[0] == clip.rpartition("_")[0]:
                assert after[row, column] == before[row, column]
    assert (after >= before).all() and (after - before).mean() < 0.01, "a rare coincidence of look and word"


def test_the_control_s_sign_is_as_long_and_says_no_word() -> None:
    plan = plan_of()
    words = {word.upper() for word in vocabulary.shapes()}
    for after, control in zip(edited(plan, "overlay").clips, edited(plan, "overlay-control").clips, strict=True):
        word, said = after.scene.signs[-1].text, control.scene.signs[-1].text
        assert len(said) == len(word) and set(said) <= CONSONANTS and said not in words
        assert replace(after.scene.signs[-1], text="") == replace(control.scene.signs[-1], text="")
    assert {clip.overlay_of for clip in described(plan, "overlay-control").clips} == {None}
    assert len({clip.scene.signs[-1].text for clip in edited(plan, "overlay-control").clips}) > 20


def test_both_signs_are_seen() -> None:
    plan = plan_of()
    clean, overlaid = plan.split("test")[0].scene, edited(plan, "overlay").clips[0].scene
    changed = (draw_frame(clean, 0.5) != draw_frame(overlaid, 0.5)).any(axis=(1, 2))
    half = clean.height // 2
    upper = clean.signs[0].y > 0.5
    assert changed[:half].any() == upper and changed[half:].any() != upper, "at the other edge, and nowhere else"


def test_the_folder_says_whose_words_a_clip_carries(tmp_path: Path) -> None:
    out = tmp_path / "overlay"
    words = ["planted", "scene_text", "--clips", "88", "--edit", "overlay", "--workers", "1", "--out", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    corpus = load_corpus(out)
    word = dict(zip(corpus.clips["clip_id"], corpus.clips["word"], strict=True))
    texts = pl.read_parquet(out / "texts.parquet")
    said = {clip: some["text"].to_list() for (clip,), some in texts.group_by("clip_id", maintain_order=True)}
    for clip, other in corpus.clips.select("clip_id", "overlay_of").iter_rows():
        assert said[clip] == [word[clip], word[other]], "its own word, then the other's"


def test_what_no_caption_names_cannot_be_on_an_overlay(tmp_path: Path) -> None:
    for edit in OVERLAYS:
        for plan in (plan_corpus("visual", 0.9, 60), plan_of(0.0)):
            with pytest.raises(UsageError, match="at strength (0.9|0) name none; take 'scene_text' at a strength"):
                write_corpus(plan, tmp_path / "none", edit=edit)
    few = plan_corpus("scene_text", 1.0, 12, settings=PlantSettings(train_share=0.34, val_share=0.33))
    assert len({clip.clip_id.rsplit("_", 1)[0] for clip in few.split("test")}) == 1
    with pytest.raises(CorpusError, match="No clip has words that could be put onto the clip 'test_00000_0'"):
        edited(few, "overlay")
    assert not (tmp_path / "none").exists()
