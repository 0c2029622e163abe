"""Edited planted corpora: one thing changes, ids and everything else stay."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus
from evenreel.errors import CorpusError, UsageError
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

SETTINGS = PlantSettings(SceneRanges(duration_s=(0.5, 0.8), sign_share=0.0, width=64, height=48))
OF = {"background": ("background",), "entity": ("colour", "shape"), "motion": ("activity",), "control": ()}


def plan(bias: str = "visual", clips: int = 60) -> PlantedCorpus:
    return plan_corpus(bias, 0.9, clips, settings=SETTINGS)  # type: ignore[arg-type]


def pairs(bias: str, edit: str) -> list[tuple[PlantedClip, PlantedClip]]:
    """The clips of the test split as they are and after an edit."""
    clean = plan(bias)
    return list(zip(clean.split("test"), edited(clean, edit).clips, strict=True))


def test_any_split_can_be_edited_but_only_the_test_split_is_misled() -> None:
    clean = plan()
    after = edited(clean, "background-swapped", "train")
    assert [clip.clip_id for clip in after.clips] == [clip.clip_id for clip in clean.split("train")]
    places = zip(clean.split("train"), after.clips, strict=True)
    assert all(before.scene.background != clip.scene.background for before, clip in places)
    with pytest.raises(UsageError, match="of the test split"):
        edited(plan("scene_text"), "overlay", "train")


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
    with pytest.raises(UsageError, match="'sky-removed' is no edit of planted corpora; there are: background-swapped"):
        edited(plan(), "sky-removed")
    with pytest.raises(UsageError, match="captions of 'visual' have none; take 'textual'"):
        edited(plan(), "style-swapped")
