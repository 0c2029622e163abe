"""What each bias plants is really there: looks, words, company and habits, as often as its docstring says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from evenreel.planted import BiasName, Look, PlantedCorpus, draw_frame, plan_corpus, vocabulary
from evenreel.planted.biases import Sentence
from evenreel.planted.plan import PlantedClip


@cache
def _plan(bias: BiasName, strength: float) -> PlantedCorpus:
    return plan_corpus(bias, strength, 1_200)


def _agrees(hits: Sequence[bool], expected: float) -> bool:
    """Within four standard deviations of what independent draws give."""
    return bool(abs(np.mean(hits) - expected) <= 4 * np.sqrt(expected * (1 - expected) / len(hits)))


def _difference(one: PlantedClip, look: Look) -> float:
    """Mean difference of a channel, of 255, between a clip's picture and the same in another look."""
    pictures = [draw_frame(replace(one.scene, look=each), 0.0).astype(float) for each in (one.scene.look, look)]
    return float(np.abs(pictures[0] - pictures[1]).mean())


@pytest.mark.parametrize(("split", "domain"), [("train", "source"), ("test", "target")])
def test_each_domain_has_its_own_look_that_can_be_seen(split: str, domain: str) -> None:
    clips = [clip for clip in _plan("domain", 1.0).clips if clip.split == split]
    assert {clip.shot.domain for clip in clips} == {domain}
    assert len({clip.scene.look for clip in clips}) == 1
    plain = [_difference(clip, Look()) for clip in clips[:5]]
    assert max(plain) == 0 if domain == "source" else min(plain) > 10


@pytest.mark.parametrize(("split", "habit"), [("train", 0), ("test", -1)])
@pytest.mark.parametrize("attribute", ["background", "shape", "colour"])
def test_a_domain_takes_its_habit_of_n_words_in_four_fifths_and_by_chance(
    split: str, habit: int, attribute: str
) -> None:
    taken: dict[int, list[bool]] = {}
    for clip in _plan("domain", 1.0).clips:
        words = vocabulary.words_for(attribute, clip.scene.attributes[attribute])
        if clip.split == split and len(words) > 1:
            taken.setdefault(len(words), []).extend(words[habit] in each.text for each in clip.shot.captions)
    assert taken
    for count, hits in taken.items():
        assert _agrees(hits, 0.8 + 0.2 / count), (count, np.mean(hits))


def test_a_background_has_company_of_its_domain_in_half_and_by_chance() -> None:
    plan = _plan("domain", 1.0)
    usual = {}
    for split in ("train", "test"):
        seen: dict[str, list[str]] = {}
        for clip in plan.clips:
            if clip.split == split:
                seen.setdefault(clip.scene.background, []).append(clip.scene.subject.shape)
        usual[split] = {place: max(set(shapes), key=shapes.count) for place, shapes in seen.items()}
        assert set(usual[split].values()) == set(vocabulary.shapes())
        hits = [shape == usual[split][place] for place, shapes in seen.items() for shape in shapes]
        assert _agrees(hits, 0.5 + 0.5 / 8)
    assert all(usual["train"][place] != usual["test"][place] for place in vocabulary.backgrounds())


def _writers(text: str) -> set[str]:
    """Annotators of whom a habit fits a caption; what it wraps is never empty."""
    fitting = set()
    for name, habits in vocabulary.annotators().items():
        for habit in habits:
            before, after = habit.split("{caption}")
            if text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after):
                fitting.add(name)
    return fitting


def _sentences(plan: PlantedCorpus, split: str) -> list[Sentence]:
    return [each for clip in plan.clips if clip.split == split for each in clip.shot.captions]


def test_the_wording_of_a_caption_tells_its_annotator_and_no_other() -> None:
    for sentence in _sentences(_plan("textual", 0.9), "train"):
        assert _writers(sentence.text) == {sentence.annotator}, sentence.text


def test_four_fifths_of_training_captions_leave_the_shape_out_and_no_test_caption_does() -> None:
    plan = _plan("textual", 0.9)
    for split, share in (("train", 0.8), ("test", 0.0)):
        vague = []
        for clip in plan.clips:
            if clip.split == split:
                words = vocabulary.words_for("shape", clip.scene.subject.shape)
                vague += [not any(word in each.text for word in words) for each in clip.shot.captions]
        assert _agrees(vague, share)


def test_the_generator_shows_the_subject_large_and_in_its_own_look() -> None:
    clips = _plan("source", 1.0).split("train")
    assert {clip.shot.source for clip in clips} == {"generator"}
    for clip in clips:
        scene, subject = clip.scene, clip.scene.subject
        assert (subject.size, subject.x, subject.y, subject.turns) == ("large", 0.0, 0.0, 0.0)
        assert (scene.distractors, scene.shake) == (0, 0.0)
    assert min(_difference(clip, Look()) for clip in clips[:5]) > 5


@pytest.mark.parametrize("bias", ["visual", "textual"])
def test_the_subject_is_small_where_something_else_shall_stand_in_for_it(bias: BiasName) -> None:
    assert {clip.scene.subject.size for clip in _plan(bias, 0.9).clips} == {"small"}


def _pairs(bias: str, clip: PlantedClip) -> set[tuple[str, str | None]]:
    scene = clip.scene
    if bias == "visual":
        return {(scene.subject.shape, scene.background)}
    if bias == "length":
        return {(scene.activity, "short" if scene.duration_s < 3 else "long")}
    return {(scene.subject.shape, each.annotator) for each in clip.shot.captions}


@pytest.mark.parametrize("bias", ["visual", "textual", "length"])
def test_follows_says_whether_a_clip_agrees_with_what_is_planted(bias: BiasName) -> None:
    plan = _plan(bias, 0.5)
    for clip in plan.clips:
        assert clip.shot.follows == all(plan.partners[one] == other for one, other in _pairs(bias, clip))
