"""Clips with several signs: those with one and noise around it, and only who reads the right sign finds them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from evenreel.corpus import class_relevance, select
from evenreel.planted import PlantSettings, corpus_of, page_of, plan_corpus
from evenreel.planted.features import frame_times, words_read
from evenreel.planted.folder import _texts


def test_one_sign_is_the_default_and_its_plan_is_that_of_before_there_were_more() -> None:
    """The digest goes into `planted.json`: with another one no corpus that is written already could be gone on with."""
    plan = plan_corpus("scene_text", 0.5, 120, seed=3)
    assert page_of(plan)["digest"] == "4a2a1af2ae6f1de572d5a9bbd234d32adc31286c3efce29f718ad0ca067bf459"
    assert plan == plan_corpus("scene_text", 0.5, 120, seed=3, settings=PlantSettings(signs=1))


@given(group=st.integers(2, 6), signs=st.integers(2, 3), strength=st.sampled_from((0.0, 0.5, 1.0)))
@limits(max_examples=20)
def test_a_clip_with_several_signs_is_that_of_one_sign_with_noise_before_and_after(
    group: int, signs: int, strength: float
) -> None:
    asked = PlantSettings(group=group, signs=signs)
    several = plan_corpus("scene_text", strength, 80, settings=asked).clips
    one = plan_corpus("scene_text", strength, 80, settings=replace(asked, signs=1)).clips
    for clip, plain in zip(several, one, strict=True):
        shown = clip.scene.signs
        assert replace(clip.scene, signs=()) == replace(plain.scene, signs=())
        assert clip.shot.captions == plain.shot.captions
        assert len({sign.text for sign in shown}) == len(shown) == signs
        assert shown[clip.shot.named_sign].text == plain.scene.signs[0].text
        assert len({replace(sign, text="", start_s=0.0, end_s=0.0) for sign in shown}) == 1
        moments = (np.arange(30 * signs) + 0.5) * clip.scene.duration_s / (30 * signs)
        up = [[n for n, sign in enumerate(shown) if sign.is_up(t)] for t in moments]
        assert up == [[n] for n in range(signs) for _ in range(30)]


@given(group=st.integers(2, 6), signs=st.integers(2, 3))
@limits(max_examples=10)
def test_the_named_word_is_on_no_other_clip_of_its_group(group: int, signs: int) -> None:
    clips = plan_corpus("scene_text", 1.0, 120, settings=PlantSettings(group=group, signs=signs)).split("train")
    for start in range(0, len(clips), group):
        fellows = clips[start : start + group]
        for clip in fellows:
            word = clip.scene.signs[clip.shot.named_sign].text
            assert [word in {sign.text for sign in other.scene.signs} for other in fellows].count(True) == 1
            assert all(word.lower() in caption.text for caption in clip.shot.captions)
            noise = {sign.text.lower() for sign in clip.scene.signs} - {word.lower()}
            assert not any(other in caption.text.split() for other in noise for caption in clip.shot.captions)


def test_the_named_sign_is_at_any_place_in_the_time() -> None:
    clips = plan_corpus("scene_text", 0.9, 600, settings=PlantSettings(signs=3)).clips
    shares = np.bincount([clip.shot.named_sign for clip in clips], minlength=3) / len(clips)
    assert np.abs(shares - 1 / 3).max() < 4 * np.sqrt(2 / 9 / len(clips)), "within four standard errors of a third"


def test_a_clip_has_the_classes_of_all_its_words_and_a_caption_that_of_the_one_it_names() -> None:
    plan = plan_corpus("scene_text", 0.5, 80, settings=PlantSettings(signs=3))
    corpus = corpus_of(plan)
    number: dict[str, int] = {}
    named = dict(zip(corpus.captions["clip_id"], corpus.captions["noun_classes"], strict=True))
    assert corpus.clips["word"].to_list() == [clip.scene.signs[clip.shot.named_sign].text for clip in plan.clips]
    for clip, word, nouns in zip(plan.clips, corpus.clips["word"], corpus.clips["noun_classes"], strict=True):
        said = named[clip.clip_id]
        assert len(nouns) == 1 + 3 and nouns[0] == said[0], "the colour first"
        for sign, class_of in zip(clip.scene.signs, nouns[1:], strict=True):
            assert number.setdefault(sign.text, class_of) == class_of
        assert list(said[1:]) == ([number[word]] if clip.shot.follows else [])
    assert len(set(number.values())) == len(number) == 8


@pytest.mark.parametrize("signs", [1, 3])
def test_the_best_degree_of_a_caption_that_names_a_word_is_that_of_its_number_of_signs(signs: int) -> None:
    plan = plan_corpus("scene_text", 1.0, 40, settings=PlantSettings(signs=signs))
    clips = plan.split("train")
    corpus = select(corpus_of(plan), split="train")
    degrees = class_relevance(corpus, [clip.caption_ids[0] for clip in clips], [clip.clip_id for clip in clips])
    found = degrees.block(slice(0, len(clips)), slice(0, len(clips)))
    assert found.diagonal() == pytest.approx([(1 + 2 / (signs + 1)) / 2] * len(clips))
    assert found.max() == found.diagonal()[0]


def test_every_word_is_seen_by_sparse_frames_and_in_the_table_of_texts() -> None:
    plan = plan_corpus("scene_text", 0.9, 40, settings=PlantSettings(signs=3))
    texts = _texts(plan)
    assert texts is not None and texts.height == 3 * len(plan.clips)
    for row, clip in enumerate(plan.clips):
        seen = [words_read(clip, float(time_s)) for time_s in frame_times(clip.scene, "6 midpoints")]
        words = [sign.text for sign in clip.scene.signs]
        assert seen == [(word,) for word in words for _ in range(2)]
        said = texts[3 * row : 3 * row + 3]
        assert said["text"].to_list() == words and said["clip_id"].unique().to_list() == [clip.clip_id]
        frames = [n for start, end in zip(said["start_frame"], said["end_frame"], strict=True) for n in (start, end)]
        assert frames == sorted(frames) and (frames[0], frames[-1]) == (0, clip.scene.frame_count - 1)
