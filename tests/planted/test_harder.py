"""Harder worlds: plain ones stay as they were to the byte, and what a setting promises is counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from evenreel.errors import UsageError
from evenreel.planted import (
    BIASES,
    CAPTION_EDITS,
    BiasName,
    Entity,
    Harder,
    PlantedCorpus,
    PlantSettings,
    draw_frame,
    edited,
    page_of,
    plan_corpus,
    planted_statistics,
    vocabulary,
)
from evenreel.planted.biases import Sentence, colour_at_rest
from evenreel.planted.features import reading, words_read
from evenreel.planted.folder import _texts
from evenreel.planted.plan import PlantedClip, Split

GROUPS = (vocabulary.annotators, vocabulary.new_annotators)
PAGES = {
    "visual": "e3cee23f9afb1220a75805021950d0ca0c1eac4e2d665904ce0f947fa215e455",
    "textual": "a4cd41031f898e7d7337e18fcc86a945008f4c03c415acebf47eb692588e86f9",
    "length": "c5d1515302241248b2f2297bc89de34799b3f3c3ae0a522f5239fe5eb0e4d5f7",
    "source": "b196dd56b23fdb634c79472a9d6f593ea0781b6b0c8c4bbcf08fc0da6b73186d",
    "domain": "fe6f1658a84802eeddd480f233a8922e9e3a0a4fb632a7eb44c3208ff09817e0",
    "scene_text": "7f6ba3fd581ec058f630c38bec1f7c5e607d704725ebdfaff8a457e4c8039752",
}
"""Digests of the pages (which hold those of plan and vocabulary) from before there were harder worlds."""


@cache
def _plan(bias: BiasName, strength: float = 0.9, clips: int = 1_000, **harder: Any) -> PlantedCorpus:
    return plan_corpus(bias, strength, clips, settings=PlantSettings(harder=Harder(**harder)))


@pytest.mark.parametrize("bias", sorted(BIASES))
def test_the_plain_world_is_the_one_of_before(bias: BiasName) -> None:
    page = page_of(plan_corpus(bias, 0.9, 60, seed=3))
    assert sha256(json.dumps(page).encode()).hexdigest() == PAGES[bias]


SETTINGS = [
    ("difficulty", 1.0, "visual"),
    ("new_annotators", True, "textual"),
    ("misread", 0.3, "scene_text"),
    ("traced_signs", True, "scene_text"),
    ("mirror_tint", 0.1, "source"),
]


@pytest.mark.parametrize(("name", "value", "bias"), SETTINGS)
def test_the_page_says_what_a_setting_does_and_other_biases_refuse_it(name: str, value: Any, bias: BiasName) -> None:
    plain, harder = plan_corpus(bias, 0.9, 60), _plan(bias, 0.9, 60, **{name: value})
    page = page_of(harder)
    assert page["settings"][name] == value and name not in page_of(plain)["settings"]
    assert page["planted"].startswith(page_of(plain)["planted"]) and page["planted"] != page_of(plain)["planted"]
    assert page["digest"] != page_of(plain)["digest"]
    for other in set(BIASES) - {bias}:
        with pytest.raises(UsageError, match=f"{name} is a setting of the bias '{bias}', not of '{other}'"):
            _plan(other, 0.0, 60, **{name: value})


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize("name", ["difficulty", "misread", "mirror_tint"])
def test_numbers_outside_0_to_1_are_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name} is between 0"):
        Harder(**{name: value})


@pytest.mark.parametrize(("difficulty", "smallest", "counts"), [(1.0, 0.25, {1, 2}), (0.5, 0.625, {0, 1})])
def test_subjects_are_as_small_and_among_as_many_others_as_the_difficulty_says(
    difficulty: float, smallest: float, counts: set[int]
) -> None:
    scenes = [clip.scene for clip in _plan("visual", difficulty=difficulty).clips]
    scales = np.array([scene.subject.scale for scene in scenes])
    assert smallest <= scales.min() < smallest + 0.02 and 0.98 < scales.max() <= 1
    assert abs(scales.mean() - (1 + smallest) / 2) < 4 * (1 - smallest) / np.sqrt(12 * len(scales))
    assert {len(scene.entities) - 1 for scene in scenes} == counts


def test_no_thing_at_rest_shows_what_a_caption_names() -> None:
    plan = _plan("visual", difficulty=1.0)
    resting = [(each.colour, each.shape) for clip in plan.clips for each in clip.scene.entities[1:]]
    subjects = [(clip.scene.subject.colour, clip.scene.subject.shape) for clip in plan.clips]
    assert len(set(resting)) == 8 == len({shape for _, shape in resting}) == len({colour for colour, _ in resting})
    assert len(set(subjects)) == 56 and not set(resting) & set(subjects)
    assert set(resting) == {(colour_at_rest(shape), shape) for shape in vocabulary.shapes()}


def test_difficulty_leaves_what_is_planted_and_the_rest_of_the_scene_alone() -> None:
    plain, hard = _plan("visual"), _plan("visual", difficulty=1.0)
    for one, other in zip(plain.clips, hard.clips, strict=True):
        as_before = replace(other.scene.subject, colour=one.scene.subject.colour, scale=1.0)
        assert replace(other.scene, entities=(as_before,)) == one.scene
        assert other.shot.follows == one.shot.follows
        named = vocabulary.words_for("colour", other.scene.subject.colour)
        assert all(any(word in each.text for word in named) for each in other.shot.captions)
    assert hard.split("test") == _plan("visual", 0.0, difficulty=1.0).split("test")


@pytest.mark.parametrize("scale", [0.5, 0.25])
def test_the_area_of_a_subject_falls_with_the_square_of_its_scale(scale: float) -> None:
    clip = _plan("visual").clips[0]
    scene = replace(clip.scene, activity="rests", width=640, height=480, shake=0.0, distractors=0)

    def area(entities: tuple[Entity, ...], **change: Any) -> int:
        shown = replace(scene, entities=entities, **change)
        bare = replace(shown, without=frozenset({"entity"}))
        return int((draw_frame(shown, 0.0) != draw_frame(bare, 0.0)).any(axis=-1).sum())

    square = Entity("square", "red", "small")
    found = area((replace(square, scale=scale),)) / area((square,))
    assert found == pytest.approx(scale**2, rel=0.1)


def _sentences(plan: PlantedCorpus, split: Split) -> list[tuple[str, Sentence]]:
    return [(clip.scene.subject.shape, each) for clip in plan.split(split) for each in clip.shot.captions]


@pytest.mark.parametrize("strength", [0.0, 0.9, 1.0])
def test_new_annotators_write_all_of_the_test_split_and_of_training_what_the_strength_leaves(strength: float) -> None:
    plan = _plan("textual", strength, new_annotators=True)
    trained = [sentence.annotator in vocabulary.annotators() for _, sentence in _sentences(plan, "train")]
    assert abs(np.mean(trained) - strength) <= 4 * np.sqrt(strength * (1 - strength) / len(trained))
    assert {each.annotator for _, each in _sentences(plan, "test")} == set(vocabulary.new_annotators())
    assert plan.split("test") == _plan("textual", new_annotators=True).split("test")
    shares = [each.planted_share for each in planted_statistics(plan)]
    assert shares[0] == np.mean(trained) and shares[2] == 0


@pytest.mark.parametrize(("split", "groups"), [("train", vocabulary.annotators), ("test", vocabulary.new_annotators)])
def test_who_describes_a_clip_says_nothing_of_it(split: Split, groups: Any) -> None:
    """Chi-square of annotator and shape stays below what chance exceeds once in a million."""
    pairs = [(shape, each.annotator) for shape, each in _sentences(_plan("textual", 1.0, new_annotators=True), split)]
    shapes, writers, cells = (Counter(each) for each in ([s for s, _ in pairs], [w for _, w in pairs], pairs))
    assert set(writers) == set(groups())
    expected = {(s, w): shapes[s] * writers[w] / len(pairs) for s in shapes for w in writers}
    chi_square = sum((cells[cell] - mean) ** 2 / mean for cell, mean in expected.items())
    assert chi_square < 49 + 5 * np.sqrt(2 * 49) + 10


def test_no_word_of_a_test_habit_was_seen_in_a_training_habit() -> None:
    """Words in lower case; new habits have none of the captions that they wrap either."""

    def words(texts: Iterable[str]) -> set[str]:
        return {word for text in texts for word in re.findall(r"[a-z']+", text.replace("{caption}", "").lower())}

    usual, new = (words(h for habits in group().values() for h in habits) for group in GROUPS)
    bare = words(each.text for clip in _plan("visual").clips for each in clip.shot.captions)
    assert not new & usual and not new & bare and len(new) > 20
    assert not set(vocabulary.annotators()) & set(vocabulary.new_annotators())


@pytest.mark.parametrize("edit", sorted(CAPTION_EDITS))
def test_captions_of_new_annotators_can_be_edited(edit: str) -> None:
    plan = _plan("textual", clips=60, new_annotators=True)
    for before, after in zip(plan.split("test"), edited(plan, edit).clips, strict=True):
        assert all(each.annotator in vocabulary.new_annotators() for each in after.shot.captions)
        assert before.shot.captions != after.shot.captions or edit == "content-swapped"


def _whole_sign(**harder: Any) -> list[PlantedClip]:
    return [clip for clip in _plan("scene_text", 0.9, 200, **harder).clips if clip.scene.signs]


def test_each_stretch_of_a_clip_is_misread_for_itself() -> None:
    """Readings of two stretches are right together as often as their shares say: one tells nothing of the other."""
    clips = _whole_sign(misread=0.1)
    right = np.array([[reading(c, c.scene.signs[0], n) == c.scene.signs[0].text for n in range(12)] for c in clips])
    lengths = [len(clip.scene.signs[0].text) for clip in clips]
    assert abs(right.mean() - np.mean([0.9**n for n in lengths])) < 0.03
    deviations = right - np.array([0.9**n for n in lengths])[:, None]
    together = (deviations.T @ deviations / len(clips))[~np.eye(12, dtype=bool)]
    assert abs(together.mean()) < 0.02
    distinct = [len({reading(clip, clip.scene.signs[0], n) for n in range(12)}) for clip in clips]
    assert np.mean(distinct) > 3


def test_clips_with_the_same_word_are_misread_for_themselves() -> None:
    by_word: dict[str, list[tuple[str, ...]]] = {}
    for clip in _whole_sign(misread=0.3):
        sign = clip.scene.signs[0]
        by_word.setdefault(sign.text, []).append(tuple(reading(clip, sign, n) for n in range(12)))
    assert all(len(set(readings)) == len(readings) > 5 for readings in by_word.values())


@pytest.mark.parametrize(
    ("bias", "harder", "part"),
    [("scene_text", {"misread": 0.3}, "signs"), ("scene_text", {"traced_signs": True}, "signs"),
     ("source", {"mirror_tint": 0.1}, "look")],
)  # fmt: skip
def test_a_setting_changes_nothing_but_what_it_is_of(bias: BiasName, harder: dict[str, Any], part: str) -> None:
    changed = 0
    for one, other in zip(_plan(bias, 0.9, 200).clips, _plan(bias, 0.9, 200, **harder).clips, strict=True):
        assert replace(other.scene, **{part: getattr(one.scene, part)}) == one.scene
        assert other.shot.captions == one.shot.captions
        assert part != "look" or (other.scene == one.scene) == (other.shot.source == "camera")
        words = [[sign.text for sign in clip.scene.signs] for clip in (one, other)]
        assert words[0] == words[1]
        changed += other.scene != one.scene
    assert changed


def test_misreading_is_not_seen() -> None:
    clip = next(clip for clip in _whole_sign(misread=0.3) if reading(clip, clip.scene.signs[0], 0) != "HEART")
    plain = replace(clip.scene, signs=tuple(replace(sign, misread=0.0) for sign in clip.scene.signs))
    assert (draw_frame(clip.scene, 0.5) == draw_frame(plain, 0.5)).all()


def test_the_table_of_words_says_what_is_read_at_every_frame() -> None:
    plan = plan_corpus("scene_text", 1.0, 40, settings=PlantSettings(signs=3, harder=Harder(misread=0.3)))
    table = _texts(plan)
    assert table is not None
    for clip in plan.clips:
        rows = table.filter(table["clip_id"] == clip.clip_id)
        for number in range(clip.scene.frame_count):
            there = rows.filter((rows["start_frame"] <= number) & (number <= rows["end_frame"]))
            assert tuple(there["text"]) == words_read(clip, number / clip.scene.fps)


def test_the_commonest_board_colour_of_a_frame_tells_which_sign_is_up() -> None:
    papers = vocabulary.trace_colours()
    assert set(papers) == {shape.upper() for shape in vocabulary.shapes()}
    gaps = [np.abs(np.subtract(one, other)).max() for one, other in combinations(papers.values(), 2)]
    assert min(gaps) >= 40
    settings = PlantSettings(signs=3, harder=Harder(traced_signs=True))
    for clip in plan_corpus("scene_text", 0.9, 40, settings=settings).clips[:10]:
        for n, sign in enumerate(clip.scene.signs):
            frame = draw_frame(clip.scene, (n + 0.5) * clip.scene.duration_s / 3)
            counts = {word: int((frame == paper).all(axis=-1).sum()) for word, paper in papers.items()}
            assert max(counts, key=lambda word: counts[word]) == sign.text


def test_a_trace_is_on_the_board() -> None:
    one, other = _whole_sign()[0].scene, _whole_sign(traced_signs=True)[0].scene
    changed = (draw_frame(one, 0.5) != draw_frame(other, 0.5)).any(axis=-1)
    rows = np.flatnonzero(changed.any(axis=1)) / one.height
    assert changed.any() and np.abs(rows - one.signs[0].y).max() < 2 * one.signs[0].height


def _mirrors(tint: float, clips: int = 60) -> list[PlantedClip]:
    plan = plan_corpus("source", 0.0, clips, settings=PlantSettings(mirrors=True, harder=Harder(mirror_tint=tint)))
    return [clip for clip in plan.clips if clip.shot.source != "camera"]


@pytest.mark.parametrize("tint", [0.05, 0.2])
def test_every_mirror_is_moved_in_picture_space_by_the_tint_in_the_same_direction(tint: float) -> None:
    """Where nothing is cut to the range, each channel moves by 255 x tint."""
    for one, other in list(zip(_mirrors(0.0), _mirrors(tint), strict=True))[:6]:
        before, after = (draw_frame(each.scene, 0.5).astype(float) for each in (one, other))
        room = 255 * tint + 1
        inside = (room < before) & (before < 255 - room)
        assert (inside.mean(axis=(0, 1)) > 0.02).all()
        assert np.abs((after - before - 255 * tint * np.array([1, -1, 1]))[inside]).max() <= 1
