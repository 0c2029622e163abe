"""Drawn worlds of the benchmarks: each part against slow loops over the formulas, and what is planted, counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.worlds import (
    GROUP,
    MARK,
    SIGN_CLASSES,
    AnnotatorSettings,
    JointSettings,
    JointShares,
    MirrorShares,
    SignSettings,
    SplitSizes,
    annotated_clips,
    captioned,
    draw_annotators,
    draw_annotators_and_domains,
    draw_backgrounds_and_lengths,
    draw_mirrored_world,
    draw_signs,
    draw_signs_and_mirrors,
    draw_signs_world,
    draw_splits,
    draw_world,
    habits_of,
    planted_lengths,
    trace_of,
    with_named_words,
)
from benchmarks.worlds.model import (
    BackgroundSettings,
    DomainSettings,
    FeatureWorld,
    FrameShares,
    Stream,
    WordShares,
    WorldSettings,
    arc,
    domain_maps,
    draw_backgrounds,
    draw_domains,
    length_ranks,
    normals,
    noun_strata,
    rotation,
    stream,
)
from evenreel.corpus.counterparts import counterparts
from evenreel.errors import CorpusError, UsageError
from tests.planted.worlds.tables import made_up_table, unit

if TYPE_CHECKING:
    from evenreel.corpus import Imported

# Worlds of features for annotation tables.


SMALL = WorldSettings(dimension=16, frames=3)
SIZES = SplitSizes(300, 30, 50)
CLIPS = 300 + 30 + 42  # the test clips of the made-up table have 42 actions


def drawn(strength: float, seed: int = 0) -> FeatureWorld:
    return draw_world(annotated_clips(made_up_table(), SIZES, 0), strength, seed, SMALL)


def test_shapes_ids_and_units() -> None:
    world = drawn(0.9)
    clips, captions = world.corpus.clips, world.corpus.captions
    assert world.videos.frames.shape == (CLIPS, 3, 16) and world.videos.frames.dtype == np.float16
    assert world.texts.words.shape == (CLIPS, 2, 16) and world.texts.words.dtype == np.float16
    assert world.videos.ids == tuple(clips["clip_id"]) and world.texts.ids == tuple(captions["caption_id"])
    for vectors in (world.videos.frames, world.texts.words, world.texts.sentence):
        assert np.linalg.norm(vectors.astype(float), axis=-1) == pytest.approx(1.0, abs=2e-3)
    assert world.videos.frame_mask.all() and world.texts.word_mask.all()
    assert np.all(np.diff(world.videos.times_s, axis=1) > 0)
    assert np.all(world.videos.times_s[:, -1] < clips["end_s"].to_numpy())


def test_the_same_arguments_give_the_same_bytes_and_another_seed_others() -> None:
    first, again, other = drawn(0.9), drawn(0.9), drawn(0.9, seed=1)
    assert first.videos.frames.tobytes() == again.videos.frames.tobytes()
    assert first.texts.words.tobytes() == again.texts.words.tobytes()
    assert first.corpus.clips.equals(again.corpus.clips)
    assert first.videos.frames.tobytes() != other.videos.frames.tobytes()


def test_only_lengths_of_training_and_validation_clips_differ_between_strengths() -> None:
    biased, free = drawn(0.9), drawn(0.0)
    assert biased.texts.words.tobytes() == free.texts.words.tobytes()
    one, other = (world.split("test") for world in (biased, free))
    assert one.videos.frames.tobytes() == other.videos.frames.tobytes()
    assert one.corpus.clips.equals(other.corpus.clips)
    same = (biased.corpus.clips["end_s"] == free.corpus.clips["end_s"]).to_numpy()
    assert 0 < np.sum(~same) < 330
    assert np.array_equal(biased.videos.frames[same], free.videos.frames[same])


@pytest.mark.parametrize("strength", [0.0, 0.9, 1.0])
def test_lengths_are_those_of_the_table(strength: float) -> None:
    clips = annotated_clips(made_up_table(), SIZES, 0)
    drawn = draw_world(clips, strength, 0, SMALL).corpus.clips
    for splits in (["train", "val"], ["test"]):
        table, world = (each.filter(pl.col("split").is_in(splits)) for each in (clips, drawn))
        assert sorted(world["end_s"]) == sorted(table["length_s"])


def test_training_and_validation_clips_keep_to_the_same_strata() -> None:
    clips = draw_world(annotated_clips(made_up_table(), SIZES, 0), 1.0, 0, SMALL).corpus.clips
    clips = clips.filter(pl.col("split") != "test")
    assert clips["follows"].all() and set(clips["split"]) == {"train", "val"}
    bounds = clips.group_by("stratum").agg(low=pl.col("end_s").min(), high=pl.col("end_s").max()).sort("stratum")
    assert all(high <= low for high, low in zip(bounds["high"][:-1], bounds["low"][1:], strict=True))
    nouns = clips.select("stratum", pl.col("noun_classes").list.first().alias("noun")).unique()
    assert nouns["noun"].n_unique() == nouns.height


def test_captions_name_the_first_verb_and_noun() -> None:
    table = made_up_table()
    world = draw_world(annotated_clips(table, SIZES, 0), 0.0, 0, SMALL)
    classes = {row["clip_id"]: row for row in table.clips.iter_rows(named=True)}
    for row in world.corpus.captions.iter_rows(named=True):
        verb, noun = (classes[row["clip_id"]][kind][0] for kind in ("verb_classes", "noun_classes"))
        assert (row["text"], row["verb_classes"], row["noun_classes"]) == (f"verb {verb} noun {noun}", [verb], [noun])


def test_a_split_has_its_own_rows() -> None:
    world, test = drawn(0.5), drawn(0.5).split("test")
    for place, name in enumerate(test.videos.ids):
        row = world.videos.ids.index(name)
        assert np.array_equal(test.videos.frames[place], world.videos.frames[row])
        assert np.array_equal(test.texts.words[place], world.texts.words[row])
    assert test.texts.ids == test.videos.ids == tuple(test.corpus.clips["clip_id"])


def test_ranks_of_length_count_shorter_training_clips() -> None:
    rng = np.random.default_rng(0)
    learned, asked = rng.integers(0, 9, 30).astype(float), np.arange(-1.0, 11.0)
    expected = [sum((one < length) + (one == length) / 2 for one in learned) / 30 for length in asked]
    assert length_ranks(asked, learned).tolist() == pytest.approx(expected)


# Lengths that stand in for the action.


def test_nouns_go_whole_to_strata_of_about_equal_numbers_of_clips() -> None:
    rng = np.random.default_rng(0)
    nouns = rng.choice(40, size=5_000, p=np.arange(1, 41) / 820)
    places = rng.random(40)
    strata = noun_strata(places, nouns, 4)
    largest = max(Counter(nouns.tolist()).values())
    sizes = [int(np.sum(strata[nouns] == stratum)) for stratum in range(4)]
    assert all(abs(size - 1_250) <= largest for size in sizes)
    order = np.argsort(places)
    assert sorted(strata[order].tolist()) == strata[order].tolist()


@pytest.mark.parametrize("strength", [0.0, 0.5, 0.9, 1.0])
def test_the_share_of_clips_in_their_stratum_is_the_strength_and_chance(strength: float) -> None:
    rng = np.random.default_rng(1)
    strata = rng.choice(3, size=20_000, p=[0.5, 0.3, 0.2])
    lengths = rng.permutation(20_000).astype(float)
    assigned, from_strata = planted_lengths(lengths, strata, strength, np.random.default_rng(2))
    sizes = Counter(strata.tolist())
    kept = 0
    for length, stratum in zip(assigned.tolist(), strata.tolist(), strict=True):
        shortest = sum(sizes[other] for other in range(stratum))  # lengths are 0 to 19,999
        kept += shortest <= length < shortest + sizes[stratum]
    chance = sum((size / 20_000) ** 2 for size in sizes.values())
    assert kept / 20_000 == pytest.approx(strength + (1 - strength) * chance, abs=0.015)
    assert kept == np.sum(from_strata == strata)


def test_without_a_bias_no_stratum_says_anything_of_the_length() -> None:
    strata = np.repeat([0, 1], 5_000)
    lengths = np.arange(10_000.0)
    assigned, _ = planted_lengths(lengths, strata, 0.0, np.random.default_rng(3))
    means = [assigned[strata == stratum].mean() for stratum in (0, 1)]
    assert abs(means[0] - means[1]) < 4 * 10_000 / np.sqrt(12) * np.sqrt(2 / 5_000)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.5, 1.0, 2.0, 7.0])), max_size=40), st.floats(0, 1))
def test_each_length_is_given_once(clips: list[tuple[int, float]], strength: float) -> None:
    strata = np.array([stratum for stratum, _ in clips], np.int64)
    lengths = np.array([length for _, length in clips])
    assigned, from_strata = planted_lengths(lengths, strata, strength, np.random.default_rng(4))
    assert sorted(assigned.tolist()) == sorted(lengths.tolist())
    assert sorted(from_strata.tolist()) == sorted(strata.tolist())


# Splits of drawn worlds.


def actions_of(clips: pl.DataFrame, split: str) -> list[tuple[int, int]]:
    return sorted(clips.filter(pl.col("split") == split).select("verb", "noun").iter_rows())


def test_the_test_split_has_one_clip_of_each_action() -> None:
    table = made_up_table()
    clips = annotated_clips(table, SplitSizes(), 0)
    shown = table.clips.filter(pl.col("split") == "test")
    actions = {(verbs[0], nouns[0]) for verbs, nouns in shown.select("verb_classes", "noun_classes").iter_rows()}
    assert actions_of(clips, "test") == sorted(actions)


def test_val_has_one_clip_of_each_action_and_train_the_other_clips() -> None:
    table = made_up_table()
    clips = annotated_clips(table, SplitSizes(), 0)
    val, train = actions_of(clips, "val"), actions_of(clips, "train")
    assert len(set(val)) == len(val) and set(train) <= set(val)
    names = clips.filter(pl.col("split") != "test")["clip_id"].to_list()
    assert sorted(names) == sorted(table.clips.filter(pl.col("split") == "train")["clip_id"])


def test_sizes_are_the_most_clips_and_order_is_the_tables() -> None:
    table = made_up_table()
    clips = annotated_clips(table, SplitSizes(100, 10, 20), 0)
    assert clips["split"].to_list() == ["train"] * 100 + ["val"] * 10 + ["test"] * 20
    place = {name: row for row, name in enumerate(table.clips["clip_id"])}
    for split in ("train", "val", "test"):
        rows = [place[name] for name in clips.filter(pl.col("split") == split)["clip_id"]]
        assert rows == sorted(rows)
    assert not annotated_clips(table, SplitSizes(100, 10, 20), 1).equals(clips)
    assert annotated_clips(table, SplitSizes(100, 0, 20), 0)["split"].unique().sort().to_list() == ["test", "train"]


def test_any_columns_may_be_the_answer() -> None:
    table = pl.DataFrame({"clip_id": [*"abcdef"], "split": ["train"] * 3 + ["test"] * 3, "word": [*"xxyzzz"]})
    drawn = draw_splits(table, SplitSizes(), 0, ("word",))
    assert drawn.columns == table.columns
    assert drawn.filter(pl.col("split") == "val")["word"].sort().to_list() == ["x", "y"]
    assert drawn.filter(pl.col("split") == "train")["word"].to_list() == ["x"]
    assert drawn.filter(pl.col("split") == "test")["word"].to_list() == ["z"]


def test_clips_without_a_class_or_a_length_are_left_out() -> None:
    table = made_up_table(train=5, test=2)
    clips = table.clips.with_columns(
        verb_classes=pl.when(pl.col("clip_id") == "clip 0").then(None).otherwise("verb_classes"),
        end_s=pl.when(pl.col("clip_id") == "clip 1").then(None).otherwise("end_s"),
    )
    kept = annotated_clips(replace(table, clips=clips), SplitSizes(10, 0, 1), 0)
    assert kept["clip_id"].to_list()[:3] == ["clip 2", "clip 3", "clip 4"] and kept.height == 4


def test_a_table_without_one_of_the_splits_is_refused() -> None:
    with pytest.raises(CorpusError, match="split test"):
        annotated_clips(made_up_table(test=0), SplitSizes(), 0)


def test_kitchens_splits(epic_kitchens: Imported) -> None:
    clips = annotated_clips(epic_kitchens.corpus, SplitSizes(train=10**6, val=0), 0)
    train = clips.filter(pl.col("split") == "train")
    assert train.height == 67_217 and train["verb"].n_unique() == 97 and train["noun"].n_unique() == 289
    most = {kind: train[kind].value_counts().sort("count")["count"][-2:].sum() for kind in ("verb", "noun")}
    assert {kind: round(100 * count / 67_217) for kind, count in most.items()} == {"verb": 40, "noun": 9}


# Worlds in which who writes goes with what is shown.


CLIPS_ANNOTATORS = annotated_clips(made_up_table(), SplitSizes(300, 20, 40), 0)
SMALL_ANNOTATORS = AnnotatorSettings(
    4, 3, 2, 5, 0.4, 0.7, WorldSettings(16, 2, 2, 1, FrameShares(length=0.0), WordShares(0.7, 0.0, 0.0, 0.2, 0.4))
)


def drawn_of_annotators(strength: float, seed: int = 0, habits: bool = True) -> FeatureWorld:
    return draw_annotators(CLIPS_ANNOTATORS, strength, seed, SMALL_ANNOTATORS, habits)


def test_training_clips_have_several_captions_and_others_one() -> None:
    world = drawn_of_annotators(0.9)
    counts = {split: Counter(world.split(split).corpus.captions["clip_id"]) for split in ("train", "val", "test")}
    assert set(counts["train"].values()) == {2} and len(counts["train"]) == 300
    assert set(counts["val"].values()) == set(counts["test"].values()) == {1}
    test = world.split("test")
    assert test.texts.ids == tuple(test.corpus.captions["caption_id"]) and test.videos.frames.shape == (40, 2, 16)


def test_only_captions_that_are_learned_from_differ_between_strengths() -> None:
    biased, free, other = drawn_of_annotators(0.9), drawn_of_annotators(0.0), drawn_of_annotators(0.9, seed=1)
    assert biased.videos.frames.tobytes() == free.videos.frames.tobytes() != other.videos.frames.tobytes()
    assert biased.split("test").texts.words.tobytes() == free.split("test").texts.words.tobytes()
    assert biased.split("test").corpus.captions.equals(free.split("test").corpus.captions)
    same = (biased.corpus.captions["annotator"] == free.corpus.captions["annotator"]).to_numpy()
    assert 0 < np.sum(~same) < len(same)
    assert np.array_equal(biased.texts.words[same], free.texts.words[same])
    assert drawn_of_annotators(0.9).texts.words.tobytes() == biased.texts.words.tobytes()


def test_nobody_of_the_test_split_was_read_in_training() -> None:
    captions = drawn_of_annotators(0.9).corpus.captions.join(CLIPS_ANNOTATORS.select("clip_id", "split"), on="clip_id")
    known = set(captions.filter(pl.col("split") != "test")["annotator"])
    new = captions.filter(pl.col("split") == "test")
    assert not known & set(new["annotator"]) and new["annotator"].n_unique() == new.height
    assert set(new["group"]) == {-1} and known <= set(range(12))
    assert all(row["group"] == row["annotator"] // 3 for row in captions.iter_rows(named=True) if row["group"] >= 0)


@pytest.mark.parametrize("strength", [0.0, 0.5, 0.9, 1.0])
def test_the_share_of_captions_by_the_group_of_the_noun_is_the_strength_and_chance(strength: float) -> None:
    clips = annotated_clips(made_up_table(train=4_000, test=100), SplitSizes(3_900, 40, 40), 0)
    small = AnnotatorSettings(4, 3, 2, 2, world=WorldSettings(4, 1, 2, word_shares=SMALL_ANNOTATORS.world.word_shares))
    captions = draw_annotators(clips, strength, 3, small).split("train").corpus.captions
    tables = captions.with_columns(pl.col("noun_classes").list.first().alias("noun")).group_by("noun")
    kept = sum(own["group"].value_counts()["count"].max() for _, own in tables)
    assert kept / captions.height == pytest.approx(strength + (1 - strength) / 4, abs=0.03)


@pytest.mark.parametrize("habits", [True, False])
def test_a_word_is_the_sum_of_the_formula(habits: bool) -> None:
    world, seed, size = drawn_of_annotators(0.9, 2, habits), 2, 16
    captions, people = world.corpus.captions, habits_of(400, SMALL_ANNOTATORS, 2)
    tables = [normals(seed, part, (200, size)) for part in (Stream.VERBS, Stream.NOUNS)]
    turned, mean = rotation(size, seed), normals(seed, Stream.MEANS, (2, size))[1]
    mean /= np.linalg.norm(mean)
    noise = normals(seed, Stream.WORD_NOISE, (captions.height, 2, size))
    for row in [*range(20), *range(captions.height - 20, captions.height)]:
        caption = captions.row(row, named=True)
        for place, table in enumerate(tables):
            c = table[caption[("verb_classes", "noun_classes")[place]][0]]
            total = []
            for d in range(size):
                meaning = math.sqrt(0.7) * c[d] + math.sqrt(0.3) * sum(c[e] * turned[e, d] for e in range(size))
                own = math.sqrt(0.4) * meaning + math.sqrt(0.2) * noise[row, place, d]
                own += habits * math.sqrt(0.4) * people[caption["annotator"], d]
                total.append(math.sqrt(0.6) * own + math.sqrt(0.4) * mean[d])
            length = math.sqrt(sum(one * one for one in total))
            assert world.texts.words[row, place].tolist() == pytest.approx([one / length for one in total], abs=2e-3)


def test_habits_lie_in_few_directions_and_those_of_a_group_are_alike() -> None:
    settings = AnnotatorSettings(50, 4, 2, 5, 0.4, 0.7, SMALL_ANNOTATORS.world)
    habits = habits_of(400, settings, 0)
    assert np.linalg.matrix_rank(habits, tol=1e-4) == 5
    assert np.mean(np.sum(habits**2, axis=1)) == pytest.approx(1.0, abs=0.1)
    people = np.arange(400)
    products, group = habits @ habits.T, np.where(people < 200, people // 4, people)
    alike = (group[:, None] == group) & ~np.eye(400, dtype=bool)
    assert products[alike].mean() == pytest.approx(0.7, abs=0.15)
    assert products[200:, 200:][~np.eye(200, dtype=bool)].mean() == pytest.approx(0.0, abs=0.02)


# A drawn world of signs: groups that differ in nothing but a word, and windows that are misread each for itself.


FRAMES = FrameShares(action=0.3, instance=0.2, background=0.1, length=0.0, time=0.0)
SMALL_SIGNS = SignSettings(
    words=16, scenes=WorldSettings(24, 6, frame_shares=FRAMES, word_shares=WordShares(lasting=0.0))
)
CLIPS_SIGNS = annotated_clips(made_up_table(), SplitSizes(300, 40, 40), 0)


def world(strength: float, settings: SignSettings = SMALL_SIGNS) -> FeatureWorld:
    return draw_signs_world(CLIPS_SIGNS, strength, 3, settings)


def test_clips_of_a_group_differ_in_nothing_but_their_signs() -> None:
    train = world(1.0).split("train")
    clips, captions = train.corpus.clips, train.corpus.captions
    assert clips["named"].all()
    for first in range(0, clips.height, GROUP):
        group = slice(first, first + GROUP)
        assert clips[group].select("path", "verb_classes").n_unique() == 1
        assert clips[group]["noun_classes"].list.first().n_unique() == 1
        named = captions[group]["noun_classes"].list.last().to_list()
        assert len(set(named)) == GROUP
        for own, shown in zip(named, clips[group]["noun_classes"].to_list(), strict=True):
            assert set(shown) & set(named) == {own}  # nobody else of the group shows what a caption names
        assert train.texts.words[group, :2, :].std(axis=0).max() < 0.2  # but for the noise of each caption


def test_without_a_bias_all_clips_are_their_own_and_no_caption_names_a_sign() -> None:
    free = world(0.0)
    assert free.corpus.clips["path"].to_list() == CLIPS_SIGNS["path"].to_list()
    assert not free.corpus.clips["named"].any()
    assert not free.texts.word_mask[:, 2].any() and free.texts.word_mask[:, :2].all()
    assert free.corpus.captions["noun_classes"].list.len().max() == 1
    assert np.allclose(np.linalg.norm(free.texts.sentence, axis=1), 1, atol=1e-3)


def test_the_shares_of_groups_and_of_windows_are_those_of_the_settings() -> None:
    splits = pl.Series(["train"] * 20_000)
    drawn = draw_signs(splits, 0.9, SignSettings(), 0)
    right = drawn.read == drawn.up
    assert drawn.named.mean() == pytest.approx(0.9, abs=0.02)
    assert drawn.written.mean() == pytest.approx(0.8, abs=0.01)
    assert right.mean() == pytest.approx(0.7, abs=0.01)
    assert (drawn.read < 0).mean() == pytest.approx(0.15, abs=0.01)
    sure, unsure = drawn.confidence[drawn.written & right], drawn.confidence[drawn.written & ~right]
    assert sure.mean() == pytest.approx(4 / 6, abs=0.01) and unsure.mean() == pytest.approx(2 / 5, abs=0.01)
    assert (drawn.confidence == 0).mean() == pytest.approx(0.2, abs=0.01)
    times = (drawn.up == drawn.signs[:, None]).sum(1)
    assert times.min() == times.max() == 2  # one sign of three, in six moments
    first_alone = right[:, 0].mean()  # misread each for itself
    assert (right[:, 0] & right[:, 1]).mean() == pytest.approx(first_alone**2, abs=0.02)


def test_clips_in_a_group_at_one_strength_are_in_it_at_every_higher_one() -> None:
    weak, strong = (world(strength) for strength in (0.3, 0.8))
    assert not (weak.corpus.clips["named"] & ~strong.corpus.clips["named"]).any()
    assert (weak.corpus.clips["sign"] == strong.corpus.clips["sign"]).all()


def test_a_frame_is_the_sum_of_the_formula() -> None:
    drawn = world(1.0)
    signs = draw_signs(CLIPS_SIGNS["split"], 1.0, SMALL_SIGNS, 3)
    verbs, nouns = (normals(3, part, (100, 24)) for part in (Stream.VERBS, Stream.NOUNS))
    marks, looks = normals(3, Stream.SIGN_WORDS, (16, 24)), normals(3, Stream.INSTANCES, (CLIPS_SIGNS.height, 24))
    videos, noise = normals(3, Stream.VIDEOS, (20, 24)), normals(3, Stream.FRAME_NOISE, (CLIPS_SIGNS.height, 6, 24))
    mean = unit(normals(3, Stream.MEANS, (2, 24))[0].tolist())
    names = sorted(set(drawn.corpus.clips["path"]))
    for row in (0, 1, 7):
        verb, noun, path = CLIPS_SIGNS[int(signs.scenes[row])].select("verb", "noun", "path").row(0)
        for moment in (0, 5):
            vector = []
            for d in range(24):
                own = math.sqrt(0.3 / 2) * (verbs[verb, d] + nouns[noun, d])
                own += math.sqrt(0.2) * looks[signs.scenes[row], d] + math.sqrt(0.1) * videos[names.index(path), d]
                own += math.sqrt(0.05) * marks[signs.up[row, moment], d] + math.sqrt(0.35) * noise[row, moment, d]
                vector.append(math.sqrt(0.5) * own + math.sqrt(0.5) * mean[d])
            assert drawn.videos.frames[row, moment].tolist() == pytest.approx(unit(vector), abs=1e-3)


def test_a_window_says_the_word_that_was_read() -> None:
    drawn = world(0.9)
    signs = draw_signs(CLIPS_SIGNS["split"], 0.9, SMALL_SIGNS, 3)
    on_screen = drawn.videos.on_screen
    assert on_screen is not None
    noise = normals(3, Stream.WINDOW_NOISE, (CLIPS_SIGNS.height, 6, 24))
    marks, turned, mean = normals(3, Stream.SIGN_WORDS, (16, 24)), rotation(24, 3), normals(3, Stream.MEANS, (2, 24))[1]
    kinds: Counter[str] = Counter()
    for row in range(30):
        for moment in range(6):
            found, word = on_screen.windows[row, moment], int(signs.read[row, moment])
            if not on_screen.mask[row, moment]:
                assert not found.any()
                continue
            kinds["nothing" if word < 0 else "right" if word == signs.up[row, moment] else "another"] += 1
            vector = []
            for d in range(24):
                own = float(noise[row, moment, d])
                if word >= 0:
                    seen = sum(marks[word, e] * turned[e, d] for e in range(24))
                    meaning = math.sqrt(0.3) * marks[word, d] + math.sqrt(0.7) * seen
                    own = math.sqrt(0.8) * meaning + math.sqrt(0.2) * own
                vector.append(math.sqrt(0.5) * own + math.sqrt(0.5) * unit(mean.tolist())[d])
            assert found.tolist() == pytest.approx(unit(vector), abs=1e-3)
    assert set(kinds) == {"nothing", "right", "another"}


def test_the_named_words_stand_in_every_window() -> None:
    told = with_named_words(world(0.8).split("train"), 3, SMALL_SIGNS)
    on_screen, clips = told.videos.on_screen, told.corpus.clips
    named, signs = clips["named"].to_numpy(), clips["sign"].to_numpy()
    assert on_screen is not None and not named.all()
    assert (on_screen.mask == named[:, None]).all() and not on_screen.windows[~named].any()
    windows = on_screen.windows[named].astype(np.float32)
    assert np.allclose(windows, windows[:, :1])
    alike = windows[:, 0] @ windows[:, 0].T
    same = signs[named][:, None] == signs[named]
    assert alike[same].min() > 0.99 > alike[~same].max()
    nearest = (told.texts.words[named, 2].astype(np.float32) @ windows[:, 0].T).argmax(1)
    assert (signs[named][nearest] == signs[named]).mean() > 0.95


def test_classes_of_signs_begin_behind_those_of_nouns() -> None:
    shown = world(0.9).corpus.clips["noun_classes"].list.slice(1).explode()
    assert shown.min() >= SIGN_CLASSES and shown.max() < SIGN_CLASSES + 16


# Worlds in which a generator mirrors real clips.


SMALL_SOURCES = WorldSettings(dimension=16, frames=3)
CLIPS_SOURCES = annotated_clips(made_up_table(), SplitSizes(300, 20, 40), 0)


def drawn_of_sources(strength: float, seed: int = 0, mirrors: MirrorShares | None = None) -> FeatureWorld:
    return draw_mirrored_world(CLIPS_SOURCES, strength, seed, SMALL_SOURCES, mirrors)


def test_every_real_clip_is_that_of_the_unbiased_world_and_has_a_mirror() -> None:
    world, plain = drawn_of_sources(0.9), draw_world(CLIPS_SOURCES, 0.0, 0, SMALL_SOURCES)
    count = CLIPS_SOURCES.height
    assert world.videos.frames[:count].tobytes() == plain.videos.frames.tobytes()
    assert world.texts.words.tobytes() == plain.texts.words.tobytes()
    pairs = counterparts(world.corpus)
    assert pairs["clip_id"].to_list() == list(plain.videos.ids)
    assert pairs["generated_id"].to_list() == [name + MARK for name in plain.videos.ids]
    assert world.videos.ids == (*pairs["clip_id"], *pairs["generated_id"]) == tuple(world.corpus.clips["clip_id"])
    rows = {name: row for row, name in enumerate(world.videos.ids)}
    clips = {row["clip_id"]: row for row in world.corpus.clips.iter_rows(named=True)}
    for real, mirror in pairs.select("clip_id", "generated_id").iter_rows():
        same = ("split", "path", "end_s", "verb_classes", "noun_classes")
        assert [clips[real][name] for name in same] == [clips[mirror][name] for name in same]
        assert np.array_equal(world.videos.times_s[rows[real]], world.videos.times_s[rows[mirror]])


def test_the_strength_says_how_many_training_captions_are_of_mirrors() -> None:
    table = made_up_table(train=4_000, test=100)
    clips = annotated_clips(table, SplitSizes(3_900, 40, 40), 0)
    before: set[str] = set()
    for strength in (0.0, 0.5, 0.9, 1.0):
        world = draw_mirrored_world(clips, strength, 3, WorldSettings(4, 1))
        generated = {name for name in world.corpus.captions["clip_id"] if name.endswith(MARK)}
        own = [name in generated for name in world.split("train").corpus.captions["clip_id"]]
        assert np.mean(own) == pytest.approx(0.5 + 0.5 * strength, abs=0.03)
        assert before <= generated and not any(name in generated for name in world.split("test").videos.ids)
        assert world.split("test").corpus.captions["clip_id"].to_list() == list(world.split("test").texts.ids)
        before = generated


def test_strengths_differ_in_whose_the_captions_are_and_nothing_else() -> None:
    biased, free, other = drawn_of_sources(0.9), drawn_of_sources(0.0), drawn_of_sources(0.9, seed=1)
    assert biased.videos.frames.tobytes() == free.videos.frames.tobytes() != other.videos.frames.tobytes()
    assert biased.texts.sentence.tobytes() == free.texts.sentence.tobytes()
    assert biased.corpus.clips.equals(free.corpus.clips)
    assert biased.corpus.captions.drop("clip_id").equals(free.corpus.captions.drop("clip_id"))
    assert not biased.corpus.captions.equals(free.corpus.captions)


def test_the_clips_that_have_captions_are_one_of_each_pair() -> None:
    val = captioned(drawn_of_sources(0.9).split("val"))
    assert len(val.videos.ids) == len(val.texts.ids) == 20
    assert set(val.corpus.captions["clip_id"]) == set(val.videos.ids)
    assert len({name.removesuffix(MARK) for name in val.videos.ids}) == 20


def test_a_mirror_is_the_sum_of_the_formula() -> None:
    size, moments, seed = 8, 2, 5
    real = FrameShares(0.1, 0.1, 0.1, length=0.2, time=0.1, cone=0.3)
    shares = MirrorShares(action=0.15, style=0.4, instance=0.05, background=0.1, trace=0.25, lead=0.2)
    world = draw_mirrored_world(CLIPS_SOURCES, 0.0, seed, WorldSettings(size, moments, frame_shares=real), shares)
    count, frames = CLIPS_SOURCES.height, world.videos.frames[CLIPS_SOURCES.height :]
    verbs, nouns = (CLIPS_SOURCES[kind].to_list() for kind in ("verb", "noun"))
    tables = [
        normals(seed, part, (max(numbers) + 1, size))
        for part, numbers in ((Stream.VERBS, verbs), (Stream.NOUNS, nouns))
    ]
    videos = sorted(set(CLIPS_SOURCES["path"]))
    places = normals(seed, Stream.VIDEOS, (len(videos), size))
    style, _ = np.linalg.qr(stream(seed, Stream.GENERATOR, 1).standard_normal((size, size)))
    own = normals(seed, Stream.MIRROR_INSTANCES, (count, size)), normals(seed, Stream.MIRROR_DRIFTS, (count, size))
    noise = normals(seed, Stream.MIRROR_NOISE, (count, moments, size))
    lengths = world.corpus.clips["end_s"].to_numpy()[:count]
    ranks = length_ranks(lengths, lengths[CLIPS_SOURCES["split"].is_in(["train", "val"]).to_numpy()])
    circle, trace = arc(ranks, size, seed), trace_of(size, 0.2, seed)
    mean = normals(seed, Stream.MEANS, (2, size))[0]
    mean = mean / math.sqrt(sum(value**2 for value in mean.tolist()))
    for clip in range(0, count, 60):
        action = (tables[0][verbs[clip]] + tables[1][nouns[clip]]) / math.sqrt(2)
        for moment, tau in enumerate((0.25, 0.75)):
            vector = math.sqrt(0.15 * 0.6) * action + math.sqrt(0.15 * 0.4) * (action @ style)
            vector = vector + math.sqrt(0.05) * own[0][clip] + math.sqrt(0.25) * trace + math.sqrt(0.2) * circle[clip]
            vector = vector + math.sqrt(0.1) * places[videos.index(CLIPS_SOURCES["path"][clip])]
            vector = vector + math.sqrt(0.1) * math.sqrt(3) * (2 * tau - 1) * ranks[clip] * own[1][clip]
            vector = vector + math.sqrt(0.15) * noise[clip, moment]
            vector = math.sqrt(0.7) * vector + math.sqrt(0.3) * mean
            assert frames[clip, moment].tolist() == pytest.approx((vector / np.linalg.norm(vector)).tolist(), abs=1e-3)


def test_the_trace_is_in_all_mirrors_and_as_near_to_words_as_is_said() -> None:
    shares = MirrorShares(trace=0.4, lead=0.3)
    settings = WorldSettings(256, 1, frame_shares=FrameShares(length=0.0, cone=0.0))
    world = draw_mirrored_world(CLIPS_SOURCES, 0.0, 0, settings, shares)
    real, mirrors = np.split(world.videos.frames[:, 0].astype(np.float64), 2)
    trace = trace_of(256, 0.3, 0)
    assert np.linalg.norm(trace) == pytest.approx(1.0, abs=1e-5)
    assert ((mirrors - real) @ trace).mean() == pytest.approx(math.sqrt(0.4), abs=0.05)
    words = normals(0, Stream.MEANS, (2, 256))[1]
    assert (trace @ words / np.linalg.norm(words)) ** 2 == pytest.approx(0.3, abs=1e-4)


def test_a_mirror_does_not_have_what_only_its_real_clip_shows() -> None:
    real = FrameShares(action=0.1, instance=0.6, background=0.0, length=0.0, time=0.0, cone=0.0)
    shares = MirrorShares(action=0.1, style=0.0, instance=0.6, background=0.0, trace=0.0)
    world = draw_mirrored_world(CLIPS_SOURCES, 0.0, 0, WorldSettings(512, 1, frame_shares=real), shares)
    one, other = np.split(world.videos.frames[:, 0].astype(np.float64), 2)
    assert (one * other).sum(1).mean() == pytest.approx(0.1, abs=0.03)


# Worlds with two biases: what the second takes, and that each is planted as it is alone.


CLIPS_TOGETHER = annotated_clips(made_up_table(), SplitSizes(300, 20, 40), 0)
DRAWN = (draw_backgrounds_and_lengths, draw_annotators_and_domains, draw_signs_and_mirrors)


def squares(vectors: np.ndarray) -> np.ndarray:
    return (vectors.astype(np.float64) ** 2).sum(-1)


@pytest.mark.parametrize("draw", DRAWN)
def test_the_same_seed_gives_the_same_bytes_and_all_vectors_have_unit_length(draw: object) -> None:
    first, again, other = (draw(CLIPS_TOGETHER, 0.9, seed) for seed in (0, 0, 1))  # type: ignore[operator]
    assert first.videos.frames.tobytes() == again.videos.frames.tobytes() != other.videos.frames.tobytes()
    assert first.texts.words.tobytes() == again.texts.words.tobytes()
    assert np.allclose(squares(first.videos.frames), 1, atol=2e-2)
    assert np.allclose(squares(first.texts.sentence), 1, atol=1e-5)
    with pytest.raises(UsageError, match="between 0 and 1"):
        draw(CLIPS_TOGETHER, 1.5)  # type: ignore[operator]


@pytest.mark.parametrize("draw", DRAWN[:2])
def test_the_test_split_is_the_same_at_every_strength(draw: object) -> None:
    biased, free = (draw(CLIPS_TOGETHER, strength, 3).split("test") for strength in (0.9, 0.0))  # type: ignore[operator]
    assert biased.videos.frames.tobytes() == free.videos.frames.tobytes()
    assert biased.texts.words.tobytes() == free.texts.words.tobytes()


def test_lengths_and_backgrounds_are_those_of_either_bias_alone() -> None:
    both, lengths = draw_backgrounds_and_lengths(CLIPS_TOGETHER, 0.9, 3), draw_world(CLIPS_TOGETHER, 0.9, 3)
    assert both.corpus.clips["end_s"].equals(lengths.corpus.clips["end_s"])
    assert both.corpus.clips["follows"].equals(lengths.corpus.clips["follows"])
    alone = draw_backgrounds(CLIPS_TOGETHER, 0.9, 3)
    assert both.corpus.clips["kind"].equals(alone.corpus.clips["kind"])
    # clips as long as each other get the same vector on top, so that what is between them shrinks and nothing else
    none = draw_backgrounds_and_lengths(CLIPS_TOGETHER, 0.9, 3, JointSettings(JointShares(0.0, 0.0)))
    assert np.allclose(none.videos.frames, alone.videos.frames, atol=2e-3)
    assert np.allclose(none.texts.sentence, alone.texts.sentence, atol=2e-3)


def test_clips_of_the_source_are_mapped_as_in_a_world_of_domains_alone() -> None:
    both, alone = draw_annotators_and_domains(CLIPS_TOGETHER, 0.9, 3), draw_annotators(CLIPS_TOGETHER, 0.9, 3)
    source = (both.corpus.clips["domain"] == "source").to_numpy()
    share = source[both.corpus.clips["split"].is_in(["train", "val"]).to_numpy()].mean()
    assert 0.83 < share < 0.97
    assert not source[(both.corpus.clips["split"] == "test").to_numpy()].any()
    settings = JointSettings()
    look, common, wording = domain_maps(replace(settings.domains, world=settings.annotators.world), 3)
    row = int(np.flatnonzero(source)[0])
    offset = DomainSettings().offset
    frame = (1 - offset) ** 0.5 * (alone.videos.frames[row, 0].astype(np.float64) @ look) + offset**0.5 * common
    assert np.allclose(both.videos.frames[row, 0], frame / np.linalg.norm(frame), atol=2e-3)
    said = both.corpus.captions.with_row_index("row").filter(pl.col("clip_id") == both.videos.ids[row])["row"][0]
    assert np.allclose(both.texts.words[said], alone.texts.words[said].astype(np.float64) @ wording, atol=2e-3)
    assert np.array_equal(both.videos.frames[~source], alone.videos.frames[~source])


def test_mirrors_have_the_trace_the_signs_of_their_clip_and_the_captions() -> None:
    both, alone = draw_signs_and_mirrors(CLIPS_TOGETHER, 0.8, 3), draw_signs_world(CLIPS_TOGETHER, 0.8, 3)
    count = CLIPS_TOGETHER.height
    assert np.array_equal(both.videos.frames[:count], alone.videos.frames)
    assert both.videos.on_screen is not None and alone.videos.on_screen is not None
    assert np.array_equal(both.videos.on_screen.windows[count:], alone.videos.on_screen.windows)
    size, shares = both.videos.frames.shape[-1], JointShares()
    trace = trace_of(size, 0.0, 3)
    shown, drawn = (both.videos.frames[part].astype(np.float64) for part in (slice(count), slice(count, None)))
    smooth = shown.mean(1)
    smooth /= np.linalg.norm(smooth, axis=1, keepdims=True)
    own = (1 - shares.trace - shares.redrawn) ** 0.5 * (1 - shares.style) ** 0.5
    # what is drawn in the generator's own way and what is new have nothing to do with the clip, on average
    assert np.einsum("vtd,vd->vt", drawn, smooth).mean() == pytest.approx(own, abs=0.05)
    common = drawn.mean((0, 1)) - own * smooth.mean(0)
    assert 0.25 < common @ trace < 0.4  # the root of 0.1, and chance
    assert (drawn[:, 0] * drawn[:, 1]).sum(-1).mean() == pytest.approx(1 - shares.redrawn, abs=0.02)
    captions = both.corpus.captions.join(CLIPS_TOGETHER.select("split", caption_id="clip_id"), on="caption_id")
    generated = captions["clip_id"].str.ends_with(" mirrored")
    assert not generated.filter(captions["split"] == "test").any()
    assert 0.84 < generated.filter(captions["split"] != "test").mean() < 0.96
    assert both.split("test").videos.frames.shape[0] == 2 * CLIPS_TOGETHER.filter(pl.col("split") == "test").height


# Worlds that cannot be drawn, and settings that contradict themselves.


CLIPS_REFUSALS = annotated_clips(made_up_table(), SplitSizes(300, 20, 40), 0)
BIASED = (draw_annotators, draw_backgrounds, draw_domains, draw_world, draw_signs_world, draw_mirrored_world)


@pytest.mark.parametrize("draw", BIASED)
def test_a_strength_is_a_share_of_clips_to_learn_from(draw: Callable[..., Any]) -> None:
    for strength in (-0.1, 1.1):
        with pytest.raises(UsageError, match="between 0 and 1"):
            draw(CLIPS_REFUSALS, strength)
    if draw not in (draw_signs_world, draw_mirrored_world):
        with pytest.raises(UsageError, match="split train"):
            draw(CLIPS_REFUSALS.filter(pl.col("split") == "test"), 0.5)


@pytest.mark.parametrize(
    ("settings", "wrong", "told"),
    [
        (AnnotatorSettings, {"habit": 0.9}, "together"),
        (AnnotatorSettings, {"groups": 1}, "groups"),
        (BackgroundSettings, {"kind": 0.9}, "together"),
        (BackgroundSettings, {"kinds": 1}, "kinds"),
        (DomainSettings, {"turned": 0.6, "damped": 0.6}, "above 1"),
        (DomainSettings, {"wording": 100.0}, "wording"),
        (FrameShares, {"action": 0.6, "instance": 0.6}, "together"),
        (WordShares, {"annotator": 0.6, "noise": 0.6}, "together"),
        (WorldSettings, {"strata": 1}, "strata"),
        (WorldSettings, {"dimension": 8, "harmonics": 5}, "10 dimensions"),
        (SignSettings, {"words": 11}, "need 12 words"),
        (MirrorShares, {"style": 1.5}, "style"),
    ],
)
def test_settings_that_contradict_themselves(settings: Callable[..., Any], wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        settings(**wrong)


def test_shares_of_a_mirror_are_at_most_all_of_it() -> None:
    with pytest.raises(UsageError, match="at most 1"):
        draw_mirrored_world(CLIPS_REFUSALS, 0.5, 0, WorldSettings(16, 3), MirrorShares(action=0.5, trace=0.5))
