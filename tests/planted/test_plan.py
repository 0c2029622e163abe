"""Plans: repeatable, one test split for all strengths, and nothing but what is planted differs between strengths."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from evenreel.corpus import class_relevance, select
from evenreel.errors import UsageError
from evenreel.planted import BIASES, BiasName, PlantSettings, SceneRanges, corpus_of, plan_corpus
from evenreel.planted.plan import PlantedClip

BIASED = sorted(BIASES)
IN_TRAINING = sorted(name for name, bias in BIASES.items() if not bias.in_test)
SHOWN = {
    "visual": {"background"},
    "textual": {"annotator"},
    "length": {"duration_s"},
    "source": {"source", "look", "distractors", "shake", "pose"},
    "domain": {"domain", "look", "shape", "wording"},
}
"""What a bias may change in a clip."""


def _facts(clip: PlantedClip) -> dict[str, object]:
    scene, subject = clip.scene, clip.scene.subject
    return {
        "background": scene.background,
        "colour": subject.colour,
        "shape": subject.shape,
        "pose": (subject.size, subject.x, subject.y, subject.turns),
        "activity": scene.activity,
        "seed": scene.seed,
        "duration_s": scene.duration_s,
        "distractors": scene.distractors,
        "shake": scene.shake,
        "look": scene.look,
        "source": clip.shot.source,
        "domain": clip.shot.domain,
        "annotator": tuple(each.annotator for each in clip.shot.captions),
        "names": tuple(each.names for each in clip.shot.captions),
    }


def _shown(clip: PlantedClip, name: str) -> str:
    return clip.scene.signs[0].text if name == "word" else clip.scene.attributes[name]


@pytest.mark.parametrize("bias", BIASED)
def test_the_same_seed_gives_the_same_plan_and_another_seed_another(bias: BiasName) -> None:
    one, two, other = (plan_corpus(bias, 0.7, 60, seed) for seed in (3, 3, 4))
    assert repr(one) == repr(two)
    assert one.clips != other.clips


@pytest.mark.parametrize("bias", BIASED)
def test_a_larger_plan_begins_with_the_smaller_one(bias: BiasName) -> None:
    small, large = plan_corpus(bias, 0.7, 40).split("train"), plan_corpus(bias, 0.7, 80).split("train")
    assert large[: len(small)] == small


@pytest.mark.parametrize("bias", IN_TRAINING)
def test_the_test_split_is_the_same_at_every_strength(bias: BiasName) -> None:
    plans = [plan_corpus(bias, strength, 60) for strength in (0.0, 0.4, 1.0)]
    assert plans[0].split("test") == plans[1].split("test") == plans[2].split("test")
    assert plans[0].split("train") != plans[2].split("train")


@pytest.mark.parametrize("bias", IN_TRAINING)
def test_strength_changes_nothing_but_what_is_planted(bias: BiasName) -> None:
    free, bound = (plan_corpus(bias, strength, 100).split("train") for strength in (0.0, 1.0))
    for one, other in zip(free, bound, strict=True):
        before, after = _facts(one), _facts(other)
        assert {name for name in before if before[name] != after[name]} <= SHOWN[bias]


@pytest.mark.parametrize("bias", IN_TRAINING)
def test_a_clip_that_is_struck_stays_struck_as_the_strength_grows(bias: BiasName) -> None:
    """One draw decides at every strength: so corpora of two strengths share all that they can."""
    plans = [plan_corpus(bias, strength, 100).split("train") for strength in (0.0, 0.3, 0.6, 1.0)]
    for states in zip(*plans, strict=True):
        facts = [str(_facts(clip)) for clip in states]
        assert sum(a != b for a, b in pairwise(facts)) <= (2 if bias == "textual" else 1)


@pytest.mark.parametrize("bias", BIASED)
def test_splits_have_the_shares_that_were_asked_for(bias: BiasName) -> None:
    settings = PlantSettings(train_share=0.5, val_share=0.2, captions=3)
    plan = plan_corpus(bias, 0.5, 40, settings=settings)
    assert Counter(clip.split for clip in plan.clips) == {"train": 20, "val": 8, "test": 12}
    assert len({clip.clip_id for clip in plan.clips}) == 40
    assert all(len(clip.shot.captions) == 3 for clip in plan.clips)


@pytest.mark.parametrize("bias", BIASED)
def test_the_tables_are_a_corpus_with_everything_filled(bias: BiasName) -> None:
    plan = plan_corpus(bias, 0.9, 60)
    corpus = corpus_of(plan)
    for column in ("path", "start_s", "end_s", "frame_count", "fps", "split", "source", "verb_classes", "noun_classes"):
        assert corpus.clips[column].null_count() == 0
    assert corpus.clips["clip_id"].to_list() == [clip.clip_id for clip in plan.clips]
    assert corpus.captions["caption_id"].to_list() == [name for clip in plan.clips for name in clip.caption_ids]
    assert (corpus.clips["end_s"] * corpus.clips["fps"]).round().to_list() == corpus.clips["frame_count"].to_list()


@pytest.mark.parametrize("bias", BIASED)
def test_a_caption_is_fully_answered_by_clips_that_show_all_it_names_and_no_other(bias: BiasName) -> None:
    plan = plan_corpus(bias, 0.9, 60)
    clips = plan.split("test")
    captions = [clip.caption_ids[0] for clip in clips]
    corpus = select(corpus_of(plan), split="test")
    degrees = class_relevance(corpus, captions, [clip.clip_id for clip in clips])
    found = degrees.block(slice(0, len(clips)), slice(0, len(clips)))
    for q, one in enumerate(clips):
        for v, other in enumerate(clips):
            alike = all(_shown(one, name) == _shown(other, name) for name in one.shot.names)
            assert (found[q, v] == 1) == (alike and set(one.shot.captions[0].names) == set(one.shot.names))


@pytest.mark.parametrize(("bias", "degree"), [("textual", 0.5), ("scene_text", 0.75)])
def test_a_caption_that_leaves_something_out_reaches_the_degree_that_is_stated(bias: BiasName, degree: float) -> None:
    plan = plan_corpus(bias, 0.5, 80)
    clips = plan.split("train")
    corpus = select(corpus_of(plan), split="train")
    degrees = class_relevance(corpus, [clip.caption_ids[0] for clip in clips], [clip.clip_id for clip in clips])
    found = degrees.block(slice(0, len(clips)), slice(0, len(clips)))
    vague = [set(clip.shot.captions[0].names) < set(clip.shot.names) for clip in clips]
    assert 0 < sum(vague) < len(clips)
    for row, (own, leaves_out) in enumerate(zip(found.diagonal(), vague, strict=True)):
        assert own == found[row].max() == (degree if leaves_out else 1)


@pytest.mark.parametrize(("bias", "unit"), [("scene_text", 4), ("scene_text", 3), ("source", 2)])
def test_groups_and_pairs_are_never_parted(bias: BiasName, unit: int) -> None:
    plan = plan_corpus(bias, 0.9, 111, settings=PlantSettings(group=4 if bias == "source" else unit))
    asked = {"train": 67, "val": 11, "test": 33}
    parted = asked if bias == "scene_text" else {"test": 33}
    sizes = Counter(clip.split for clip in plan.clips)
    assert sizes == asked | {split: size // unit * unit for split, size in parted.items()}
    units = Counter(clip.clip_id.rsplit("_", 1)[0] for clip in plan.clips if clip.split in parted)
    assert set(units.values()) == {unit}


def test_generated_clips_mirror_the_real_clip_beside_them() -> None:
    clips = plan_corpus("source", 0.9, 100).split("test")
    for real, mirror in zip(clips[::2], clips[1::2], strict=True):
        assert (real.shot.source, mirror.shot.source, mirror.pair_id) == ("camera", "generator", real.clip_id)
        assert real.pair_id is None
        assert real.shot.captions == mirror.shot.captions
        assert (real.scene.activity, real.scene.background, real.scene.seed) == (
            mirror.scene.activity,
            mirror.scene.background,
            mirror.scene.seed,
        )


def test_with_mirrors_every_split_holds_pairs_and_the_captions_are_the_real_clips() -> None:
    plain = plan_corpus("source", 0.0, 100, settings=PlantSettings(generated_share=0.0))
    paired = plan_corpus("source", 0.0, 100, settings=PlantSettings(mirrors=True))
    for split in ("train", "val", "test"):
        clips = paired.split(split)
        assert [clip.pair_id for clip in clips[1::2]] == [clip.clip_id for clip in clips[::2]]
        assert not any(clip.caption_ids for clip in clips[1::2])
        assert all(clip.caption_ids for clip in clips[::2])
    known = {clip.clip_id: clip.shot for clip in plain.split("train")}
    for clip in paired.split("train")[::2]:
        assert clip.shot == known[clip.clip_id], "the same clips as without mirrors"


def test_word_groups_differ_in_the_word_alone_and_their_captions_say_it() -> None:
    plan = plan_corpus("scene_text", 1.0, 80, settings=PlantSettings(group=4))
    clips = plan.split("train")
    for start in range(0, len(clips), 4):
        group = clips[start : start + 4]
        assert len({clip.scene.signs[0].text for clip in group}) == 4
        blank = {replace(clip.scene, signs=(replace(clip.scene.signs[0], text=""),)) for clip in group}
        assert len(blank) == 1
        for clip in group:
            assert all(clip.scene.signs[0].text.lower() in caption.text for caption in clip.shot.captions)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (("colour", 0.5), "no bias is called 'colour'; there are visual"),
        (("visual", float("nan")), "between 0"),
        (("visual", 0.5, 3), "ask for more clips"),
        (("scene_text", 0.5, 30), "would leave 16 to train, 0 to validate and 8 to test"),
        (("visual", 0.5, 100, -1), "A seed is 0 or more; it was -1."),
        (("source", 0.5, 100, 0, PlantSettings(mirrors=True)), "mirrors"),
        (("visual", 0.0, 100, 0, PlantSettings(mirrors=True)), "mirrors"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_a_sentence(call: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        plan_corpus(*call)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"captions": 0}, "at least one caption; captions was 0"),
        ({"train_share": 0.9, "val_share": 0.1}, "leave some clips to test"),
        ({"group": 0}, "a group has 2 to 8 clips.* it was 0"),
        ({"signs": 0}, "a group of 4 shows at least 1 and at most 5.*signs was 0"),
        ({"signs": 3, "scenes": SceneRanges(duration_s=(0.2, 1.0))}, "3 signs cannot be shown one after the other"),
        ({"generated_share": 2}, "generated_share is between 0 and 1; it was 2"),
        ({"short_s": (2.0, 1.0)}, "short_s is the shortest and the longest clip"),
        ({"short_s": (1.0, 5.0)}, "up to 5 s and long ones from 5 s cannot be told apart"),
    ],
)
def test_settings_that_cannot_be_planned_are_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        PlantSettings(**settings)
