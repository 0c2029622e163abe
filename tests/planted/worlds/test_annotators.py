"""Worlds in which who writes goes with what is shown."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest

from benchmarks.worlds import AnnotatorSettings, SplitSizes, annotated_clips, draw_annotators, habits_of
from evenreel.planted.worlds import FeatureWorld, FrameShares, Stream, WordShares, WorldSettings, normals, rotation
from tests.planted.worlds.tables import made_up_table

CLIPS = annotated_clips(made_up_table(), SplitSizes(300, 20, 40), 0)
SMALL = AnnotatorSettings(
    4, 3, 2, 5, 0.4, 0.7, WorldSettings(16, 2, 2, 1, FrameShares(length=0.0), WordShares(0.7, 0.0, 0.0, 0.2, 0.4))
)


def drawn(strength: float, seed: int = 0, habits: bool = True) -> FeatureWorld:
    return draw_annotators(CLIPS, strength, seed, SMALL, habits)


def test_training_clips_have_several_captions_and_others_one() -> None:
    world = drawn(0.9)
    counts = {split: Counter(world.split(split).corpus.captions["clip_id"]) for split in ("train", "val", "test")}
    assert set(counts["train"].values()) == {2} and len(counts["train"]) == 300
    assert set(counts["val"].values()) == set(counts["test"].values()) == {1}
    test = world.split("test")
    assert test.texts.ids == tuple(test.corpus.captions["caption_id"]) and test.videos.frames.shape == (40, 2, 16)


def test_only_captions_that_are_learned_from_differ_between_strengths() -> None:
    biased, free, other = drawn(0.9), drawn(0.0), drawn(0.9, seed=1)
    assert biased.videos.frames.tobytes() == free.videos.frames.tobytes() != other.videos.frames.tobytes()
    assert biased.split("test").texts.words.tobytes() == free.split("test").texts.words.tobytes()
    assert biased.split("test").corpus.captions.equals(free.split("test").corpus.captions)
    same = (biased.corpus.captions["annotator"] == free.corpus.captions["annotator"]).to_numpy()
    assert 0 < np.sum(~same) < len(same)
    assert np.array_equal(biased.texts.words[same], free.texts.words[same])
    assert drawn(0.9).texts.words.tobytes() == biased.texts.words.tobytes()


def test_nobody_of_the_test_split_was_read_in_training() -> None:
    captions = drawn(0.9).corpus.captions.join(CLIPS.select("clip_id", "split"), on="clip_id")
    known = set(captions.filter(pl.col("split") != "test")["annotator"])
    new = captions.filter(pl.col("split") == "test")
    assert not known & set(new["annotator"]) and new["annotator"].n_unique() == new.height
    assert set(new["group"]) == {-1} and known <= set(range(12))
    assert all(row["group"] == row["annotator"] // 3 for row in captions.iter_rows(named=True) if row["group"] >= 0)


@pytest.mark.parametrize("strength", [0.0, 0.5, 0.9, 1.0])
def test_the_share_of_captions_by_the_group_of_the_noun_is_the_strength_and_chance(strength: float) -> None:
    clips = annotated_clips(made_up_table(train=4_000, test=100), SplitSizes(3_900, 40, 40), 0)
    small = AnnotatorSettings(4, 3, 2, 2, world=WorldSettings(4, 1, 2, word_shares=SMALL.world.word_shares))
    captions = draw_annotators(clips, strength, 3, small).split("train").corpus.captions
    tables = captions.with_columns(pl.col("noun_classes").list.first().alias("noun")).group_by("noun")
    kept = sum(own["group"].value_counts()["count"].max() for _, own in tables)
    assert kept / captions.height == pytest.approx(strength + (1 - strength) / 4, abs=0.03)


@pytest.mark.parametrize("habits", [True, False])
def test_a_word_is_the_sum_of_the_formula(habits: bool) -> None:
    world, seed, size = drawn(0.9, 2, habits), 2, 16
    captions, people = world.corpus.captions, habits_of(400, SMALL, 2)
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
    settings = AnnotatorSettings(50, 4, 2, 5, 0.4, 0.7, SMALL.world)
    habits = habits_of(400, settings, 0)
    assert np.linalg.matrix_rank(habits, tol=1e-4) == 5
    assert np.mean(np.sum(habits**2, axis=1)) == pytest.approx(1.0, abs=0.1)
    people = np.arange(400)
    products, group = habits @ habits.T, np.where(people < 200, people // 4, people)
    alike = (group[:, None] == group) & ~np.eye(400, dtype=bool)
    assert products[alike].mean() == pytest.approx(0.7, abs=0.15)
    assert products[200:, 200:][~np.eye(200, dtype=bool)].mean() == pytest.approx(0.0, abs=0.02)
