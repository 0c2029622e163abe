"""Worlds of features for annotation tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from benchmarks.worlds import SplitSizes, annotated_clips, draw_world
from evenreel.planted.worlds import FeatureWorld, WorldSettings, length_ranks
from tests.planted.worlds.tables import made_up_table

if TYPE_CHECKING:
    from evenreel.corpus import Imported

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


def test_kitchens(epic_kitchens: Imported) -> None:
    clips = annotated_clips(epic_kitchens.corpus, SplitSizes(400, 0, 100), 0)
    world = draw_world(clips, 0.9, 0, SMALL)
    assert world.videos.frames.shape == (500, 3, 16)
    learned = world.split("train").corpus.clips
    assert learned["follows"].mean() == pytest.approx(0.9 + 0.1 / 16, abs=0.05)
