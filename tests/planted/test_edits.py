"""Edited planted corpora: one thing changes, or misleading words are added; ids and everything else stay."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.planted import showing
from evenreel.cli.app import app
from evenreel.corpus import load_corpus
from evenreel.corpus.counterparts import OVERLAYS, VOICEOVERS
from evenreel.errors import CorpusError, UsageError
from evenreel.media import open_video, parse_rule
from evenreel.planted import (
    CAPTION_EDITS,
    CLIP_EDITS,
    PlantedClip,
    PlantedCorpus,
    PlantSettings,
    SceneRanges,
    corpus_of,
    described,
    draw_clip,
    draw_frame,
    edited,
    page_of,
    plan_corpus,
    vocabulary,
    write_corpus,
)
from evenreel.planted.biases import Sentence
from evenreel.planted.draw import GREY
from evenreel.planted.plan import Split
from evenreel.speech import VOICES, can_speak
from tests.cli.test_planted import here

# Edited planted corpora: one thing changes, ids and everything else stay.


SETTINGS = PlantSettings(SceneRanges(duration_s=(0.5, 0.8), sign_share=0.0, width=64, height=48))
OF = {"background": ("background",), "entity": ("colour", "shape"), "motion": ("activity",), "control": ()}


def plan(bias: str = "visual", clips: int = 60) -> PlantedCorpus:
    return plan_corpus(bias, 0.9, clips, settings=SETTINGS)  # type: ignore[arg-type]


def pairs(bias: str, edit: str) -> list[tuple[PlantedClip, PlantedClip]]:
    """The clips of the test split as they are and after an edit."""
    clean = plan(bias)
    return list(zip(clean.split("test"), edited(clean, edit).clips, strict=True))


def test_any_split_can_be_edited() -> None:
    clean = plan()
    after = edited(clean, "background-swapped", "train")
    assert [clip.clip_id for clip in after.clips] == [clip.clip_id for clip in clean.split("train")]
    places = zip(clean.split("train"), after.clips, strict=True)
    assert all(before.scene.background != clip.scene.background for before, clip in places)


@pytest.mark.parametrize("edit", CLIP_EDITS)
def test_an_edit_of_clips_changes_one_thing(edit: str) -> None:
    what, _, how = edit.partition("-")
    both = pairs("visual", edit)
    for clean, after in both:
        assert replace(after, shot=clean.shot) == clean
        assert replace(after.shot, scene=clean.scene) == clean.shot
        changed = {name for name, value in clean.scene.attributes.items() if after.scene.attributes[name] != value}
        assert changed == (set(OF[what]) if how == "swapped" else set())
        assert after.scene.without == ({what} if how == "removed" else frozenset())
        assert (after.scene.seed != clean.scene.seed) == (edit == "control")
    first = both[0]
    assert not np.array_equal(*(draw_frame(one.scene, 0.1) for one in first))
    assert edited(plan(), edit) == edited(plan(), edit)


def test_what_is_drawn_in_another_s_place_is_any_of_the_others() -> None:
    found = {after.scene.background for _, after in pairs("visual", "background-swapped")}
    assert len(found) > len(vocabulary.backgrounds()) / 2


def test_without_its_background_a_clip_shows_its_subject_on_grey() -> None:
    scene = replace(plan().clips[0].scene, shake=0.0, distractors=0, activity="rests", duration_s=1.0)
    whole, bare = (draw_frame(replace(scene, without=some), 0.0) for some in (frozenset(), frozenset({"background"})))
    grey = (bare == GREY).all(axis=-1)
    assert 0.5 < grey.mean() < 1
    nothing = draw_frame(replace(scene, without=frozenset({"background", "entity"})), 0.0)
    assert (nothing == GREY).all()
    inside = (nothing != bare).all(axis=-1)
    colour = vocabulary.colours()[scene.subject.colour]
    own = inside & (np.abs(bare.astype(int) - colour) <= 1).all(axis=-1)
    assert own.any()
    np.testing.assert_array_equal(whole[own], bare[own])


def test_without_motion_every_picture_is_that_of_the_middle() -> None:
    scene = replace(plan().clips[0].scene, activity="moves_left", duration_s=1.0, fps=4)
    pictures = list(draw_clip(replace(scene, without=frozenset({"motion"}))))
    assert all(np.array_equal(picture, draw_frame(scene, 0.5)) for picture in pictures)
    assert not np.array_equal(*list(draw_clip(scene))[:2])


def test_digests_of_corpora_that_are_not_edited_stay() -> None:
    clean = plan()
    assert "without" not in repr(clean)
    pages = [page_of(described(clean, edit), edit) for edit in CLIP_EDITS]
    assert len({page["digest"] for page in [page_of(clean), *pages]}) == 1 + len(CLIP_EDITS)


def test_edits_of_captions_keep_content_or_style() -> None:
    own = vocabulary.annotators()
    for edit in CAPTION_EDITS:
        for before, after in captions(edit):
            (content, habit), (new, worn) = halves(before.text), halves(after.text)
            if edit.startswith("content-"):
                assert (worn, after.annotator) == (habit, before.annotator)
            else:
                assert new == content
            if edit == "caption-control":
                assert after.annotator == before.annotator and worn in own[after.annotator or ""]
                assert worn != habit  # the edits that it is held against change every caption too
            if edit == "style-swapped":
                assert after.annotator != before.annotator and worn in own[after.annotator or ""]
            if edit == "style-removed":
                assert worn == ""
    assert {halves(after.text)[0] for _, after in captions("content-removed")} == {"something"}
    swapped = [halves(one.text)[0] == halves(two.text)[0] for one, two in captions("content-swapped")]
    assert np.mean(swapped) < 0.3  # a clip of the same content may lend


def captions(edit: str) -> list[tuple[Sentence, Sentence]]:
    """The captions of the test split as they are and after an edit."""
    return [
        both
        for clean, after in pairs("textual", edit)
        for both in zip(clean.shot.captions, after.shot.captions, strict=True)
    ]


def halves(text: str) -> tuple[str, str]:
    """Content and habit of a caption, of whomever."""
    for habits in vocabulary.annotators().values():
        for habit in habits:
            before, after = habit.split("{caption}")
            if text.startswith(before) and text.endswith(after):
                return text[len(before) : len(text) - len(after)], habit
    return text, ""


def test_the_command_writes_the_test_split_under_its_ids(tmp_path: Path) -> None:
    words = ["planted", "visual", "--clips", "10", "--workers", "1", "--edit", "background-removed", "--json", "--out"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "edited")])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["edit"], found["rendered"], found["clips"]) == ("background-removed", 3, 3)
    assert [row["split"] for row in found["statistics"]] == ["test"]
    clean = corpus_of(plan_corpus("visual", 0.9, 10))
    after = load_corpus(tmp_path / "edited")
    test = clean.clips.filter(pl.col("split") == "test")
    assert after.clips.equals(test)
    assert after.captions.equals(clean.captions.filter(pl.col("clip_id").is_in(test["clip_id"].implode())))
    assert sorted(path.stem for path in (tmp_path / "edited" / "clips").iterdir()) == test["clip_id"].to_list()
    with pytest.raises(CorpusError, match="another bias, strength, seed, size, edit or version"):
        write_corpus(plan_corpus("visual", 0.9, 10), tmp_path / "edited", 1)


def test_what_is_wrong_is_said_in_a_sentence() -> None:
    few = plan_corpus("scene_text", 1.0, 12, settings=PlantSettings(train_share=0.34, val_share=0.33))
    assert len({clip.clip_id.rsplit("_", 1)[0] for clip in few.split("test")}) == 1
    alike = "No clip has words that could be put onto the clip 'test_00000_0'"
    wrong: list[tuple[PlantedCorpus, str, Split, type[Exception], str]] = [
        (plan(), "sky-removed", "test", UsageError, "is no edit of planted corpora; there are: background-swapped"),
        (plan(), "style-swapped", "test", UsageError, "captions of 'visual' have none; take 'textual'"),
        (plan("scene_text"), "overlay", "train", UsageError, "of the test split misleading words, not of 'train'"),
        (plan(), "voiceover", "train", UsageError, "of the test split misleading words, not of 'train'"),
        *((few, edit, "test", CorpusError, alike) for edit in (*OVERLAYS, *VOICEOVERS)),
        *(
            (whole, edit, "test", UsageError, "at strength (0.9|0) name none; take 'scene_text' at a strength")
            for edit in OVERLAYS
            for whole in (plan(), plan_of(0.0))
        ),
    ]
    for whole, edit, split, error, sentence in wrong:
        with pytest.raises(error, match=sentence):
            edited(whole, edit, split)


# Misleading signs: another clip's word beside a clip's own, and a control that says nothing.


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


def test_an_overlay_that_cannot_be_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name none"):
        write_corpus(plan(), tmp_path / "none", edit="overlay")
    assert not (tmp_path / "none").exists()


# Misleading voices: another clip's caption is said over a clip, and a control that says nothing.


espeak = pytest.mark.skipif(not can_speak(), reason="espeak-ng is not here (pip install espeakng-loader)")
VOWELS = set("aeiou")


def lent_plan(bias: Any, seed: int = 0, **settings: Any) -> PlantedCorpus:
    return plan_corpus(bias, 0.6, 240, seed, PlantSettings(**settings))


@given(bias=st.sampled_from(["visual", "textual", "source", "domain", "scene_text"]), seed=st.integers(0, 20))
@limits(max_examples=15)
def test_a_voice_says_what_another_clip_is_described_by(bias: str, seed: int) -> None:
    spoken = 0.5 if bias == "scene_text" else 0.0
    plan = lent_plan(bias, seed, spoken=spoken)
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
    plan = lent_plan("visual")
    words = {word for clip in plan.clips for caption in clip.shot.captions for word in caption.text.split()}
    for after, control in zip(edited(plan, "voiceover").clips, edited(plan, "voiceover-control").clips, strict=True):
        (said,), (babble,) = after.scene.spoken, control.scene.spoken
        assert replace(babble, text=said.text) == said
        for letter, other in zip(said.text, babble.text, strict=True):
            assert (letter == other) == (not letter.isalpha())
            assert (letter in VOWELS) == (other in VOWELS)
        assert {word for word in babble.text.split() if len(word) > 3}.isdisjoint(words)
    assert {clip.voiceover_of for clip in described(plan, "voiceover-control").clips} == {None}


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
