"""Plans: repeatable, and what each bias plants is there as often as is said, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats.contingency import association

from evenreel.corpus import class_relevance, select
from evenreel.errors import UsageError
from evenreel.planted import (
    BIASES,
    BiasName,
    Look,
    PlantedCorpus,
    PlantSettings,
    SceneRanges,
    corpus_of,
    draw_frame,
    page_of,
    plan_corpus,
    planted_statistics,
    vocabulary,
)
from evenreel.planted.biases import Sentence
from evenreel.planted.features import frame_times, words_read
from evenreel.planted.folder import _texts, cramers_v, mutual_information_bits
from evenreel.planted.plan import PlantedClip, Split

# Plans: repeatable, one test split for all strengths, and nothing but what is planted differs between strengths.


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


def _degrees(plan: PlantedCorpus, split: Split) -> np.ndarray:
    """Relevance of the clips of a split for the first caption of each."""
    clips = plan.split(split)
    names = [clip.caption_ids[0] for clip in clips], [clip.clip_id for clip in clips]
    degrees = class_relevance(select(corpus_of(plan), split=split), *names)
    return degrees.block(slice(0, len(clips)), slice(0, len(clips)))


@pytest.mark.parametrize("bias", BIASED)
def test_a_caption_is_fully_answered_by_clips_that_show_all_it_names_and_no_other(bias: BiasName) -> None:
    plan = plan_corpus(bias, 0.9, 60)
    clips, found = plan.split("test"), _degrees(plan, "test")
    for q, one in enumerate(clips):
        for v, other in enumerate(clips):
            alike = all(_shown(one, name) == _shown(other, name) for name in one.shot.names)
            assert (found[q, v] == 1) == (alike and set(one.shot.captions[0].names) == set(one.shot.names))


@pytest.mark.parametrize(("bias", "degree"), [("textual", 0.5), ("scene_text", 0.75)])
def test_a_caption_that_leaves_something_out_reaches_the_degree_that_is_stated(bias: BiasName, degree: float) -> None:
    plan = plan_corpus(bias, 0.5, 80)
    clips, found = plan.split("train"), _degrees(plan, "train")
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


# What each bias plants is really there: looks, words, company and habits, as often as its docstring says.


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


# What is planted, counted: chance at strength 0, more with more strength, and never in the test split.


PAIRED: tuple[BiasName, ...] = ("visual", "textual", "length")
AT_STRENGTH = {
    # the share that shows it, by hand: chance c without a strike, so s + (1 - s) c
    "visual": lambda s: s + (1 - s) / 8,
    "textual": lambda s: s + (1 - s) / 8,
    "length": lambda s: s + (1 - s) / 2,
    "source": lambda s: s + (1 - s) / 2,
    "domain": lambda s: s,
    "scene_text": lambda s: s,
}


@pytest.mark.parametrize("bias", sorted(BIASES))
@pytest.mark.parametrize("strength", [0.0, 0.5, 0.9])
def test_the_share_that_is_planted_is_what_the_strength_says(bias: BiasName, strength: float) -> None:
    train = planted_statistics(plan_corpus(bias, strength, 1_500))[0]
    expected = AT_STRENGTH[bias](strength)
    units = train.count / (4 if bias == "scene_text" else 1)
    assert abs(train.planted_share - expected) <= 4 * np.sqrt(expected * (1 - expected) / units)


@pytest.mark.parametrize("bias", PAIRED)
def test_association_is_chance_at_strength_0_and_in_the_test_split_and_grows(bias: BiasName) -> None:
    seen = [planted_statistics(plan_corpus(bias, strength, 1_000)) for strength in (0.0, 0.4, 0.9)]
    information = [train.information_bits or 0.0 for train, _, _ in seen]
    assert information == sorted(information)
    assert information[-1] > 10 * information[0]
    for free in (seen[0][0], *(test for _, _, test in seen)):
        assert (free.information_bits or 0.0) < 2.5 * (free.chance_bits or 0.0)


def test_lengths_part_in_training_and_not_in_the_test_split() -> None:
    plan = plan_corpus("length", 1.0, 1_500)
    train, _, test = planted_statistics(plan)
    for activity, mean_s in train.lengths_s.items():
        low, high = plan.settings.short_s if plan.partners[activity] == "short" else plan.settings.long_s
        assert low <= mean_s <= high
        # short and long ones in halves: a mean of 4.1 s and a deviation of 2.5, some 56 clips of each activity
        assert abs(test.lengths_s[activity] - 4.125) < 4.5 * 2.5 / np.sqrt(50)


tables = arrays(np.int64, (3, 4), elements=st.integers(0, 20)).filter(lambda table: table.sum() > 0)


@given(tables)
def test_information_is_the_entropies_less_the_joint_one(table: np.ndarray) -> None:
    def entropy(counts: np.ndarray) -> float:
        shares = [count / counts.sum() for count in counts.flatten() if count]
        return float(-sum(share * np.log2(share) for share in shares))

    expected = entropy(table.sum(0)) + entropy(table.sum(1)) - entropy(table)
    assert mutual_information_bits(table) == pytest.approx(expected, abs=1e-9)


@given(tables)
def test_association_is_scipy_s(table: np.ndarray) -> None:
    kept = table[table.any(1)][:, table.any(0)]
    expected = association(kept, method="cramer") if min(kept.shape) > 1 else 0.0
    assert cramers_v(table) == pytest.approx(expected, abs=1e-9)


# Clips with several signs: those with one and noise around it, and only who reads the right sign finds them.


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
    found = _degrees(plan_corpus("scene_text", 1.0, 40, settings=PlantSettings(signs=signs)), "train")
    assert found.diagonal() == pytest.approx([(1 + 2 / (signs + 1)) / 2] * len(found))
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
