"""Worlds in which a background stands in for the noun."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from benchmarks.worlds import SplitSizes, annotated_clips, phrases_of
from evenreel.planted.worlds import (
    BackgroundSettings,
    FeatureWorld,
    FrameShares,
    Stream,
    WordShares,
    WorldSettings,
    draw_backgrounds,
    normals,
    rotation,
    usual_kinds,
)
from tests.planted.worlds.tables import made_up_table, unit

CLIPS = annotated_clips(made_up_table(), SplitSizes(300, 20, 40), 0)
SMALL = BackgroundSettings(
    5,
    0.3,
    0.5,
    0.2,
    WorldSettings(16, 3, 2, 1, FrameShares(0.3, 0.1, 0.1, 0.0, 0.0, 0.4), WordShares(0.7, 0.0, 0.0, 0.1)),
)


def drawn(strength: float, seed: int = 0, draw: int = 0) -> FeatureWorld:
    return draw_backgrounds(CLIPS, strength, seed, SMALL, draw)


def test_only_backgrounds_of_training_clips_differ_between_strengths() -> None:
    biased, free, other = drawn(0.9), drawn(0.0), drawn(0.9, seed=1)
    assert biased.texts.words.tobytes() == free.texts.words.tobytes() != other.texts.words.tobytes()
    assert biased.split("test").videos.frames.tobytes() == free.split("test").videos.frames.tobytes()
    same = (biased.corpus.clips["kind"] == free.corpus.clips["kind"]).to_numpy()
    assert 0 < np.sum(~same) < CLIPS.height
    assert np.array_equal(biased.videos.frames[same], free.videos.frames[same])
    assert not np.array_equal(biased.videos.frames[~same], free.videos.frames[~same])
    assert drawn(0.9).videos.frames.tobytes() == biased.videos.frames.tobytes()


def test_another_draw_gives_the_same_clips_other_backgrounds_but_in_the_test_split() -> None:
    first, again = drawn(0.0), drawn(0.0, draw=1)
    assert first.split("test").corpus.clips.equals(again.split("test").corpus.clips)
    one, other = (world.split("train").corpus.clips for world in (first, again))
    assert one.drop("kind").equals(other.drop("kind")) and 0.1 < (one["kind"] == other["kind"]).mean() < 0.3


@pytest.mark.parametrize("strength", [0.0, 0.5, 0.9, 1.0])
def test_the_share_of_clips_before_the_kind_of_their_noun_is_the_strength_and_chance(strength: float) -> None:
    clips = annotated_clips(made_up_table(train=4_000, test=100), SplitSizes(3_900, 40, 40), 0)
    small = replace(SMALL, world=replace(SMALL.world, dimension=4, frames=1))
    own = draw_backgrounds(clips, strength, 3, small).corpus.clips
    for split in ("train", "val", "test"):
        rows = own.filter(pl.col("split") == split)
        expected = 0.2 if split == "test" else strength + (1 - strength) / 5
        assert (rows["kind"] == rows["usual"]).mean() == pytest.approx(expected, abs=0.03 if split == "train" else 0.25)
    nouns = own.select(pl.col("noun_classes").list.first(), "usual").unique()
    assert nouns.height == nouns["noun_classes"].n_unique()
    assert set(usual_kinds(clips, 5, 3).tolist()) <= set(range(5))


def test_a_frame_is_the_sum_of_the_formula_in_one_of_two_ways() -> None:
    world, seed, size = drawn(0.9, seed=3), 3, 16
    clips = world.corpus.clips
    videos = {path: place for place, path in enumerate(sorted(set(CLIPS["path"])))}
    tables = {part: normals(seed, part, (200, size)) for part in (Stream.VERBS, Stream.NOUNS, Stream.VIDEOS)}
    kinds, mean = normals(seed, Stream.KINDS, (5, size), 1), unit(normals(seed, Stream.MEANS, (2, size))[0].tolist())
    instances = normals(seed, Stream.INSTANCES, (len(clips), size))
    noise = normals(seed, Stream.FRAME_NOISE, (len(clips), 3, size))
    seen = 0
    for row, clip in enumerate(clips.iter_rows(named=True)):
        shown_in = 0
        for moment in range(3):
            found = world.videos.frames[row, moment].tolist()
            for shown in (0, 1):
                vector = []
                for d in range(size):
                    verb, noun = clip["verb_classes"][0], clip["noun_classes"][0]
                    action = (tables[Stream.VERBS][verb, d] + tables[Stream.NOUNS][noun, d]) / math.sqrt(2)
                    own = shown * math.sqrt(0.3) * action + math.sqrt(0.1) * instances[row, d]
                    own += math.sqrt(0.1) * tables[Stream.VIDEOS][videos[clip["path"]], d]
                    own += math.sqrt(0.3) * kinds[clip["kind"], d] + math.sqrt(0.2) * noise[row, moment, d]
                    vector.append(math.sqrt(0.6) * own + math.sqrt(0.4) * mean[d])
                shown_in += shown * (found == pytest.approx(unit(vector), abs=2e-3))
        assert shown_in >= 1
        seen += shown_in
    assert seen / (3 * len(clips)) == pytest.approx(0.5 + 0.5 / 3, abs=0.07)


def test_a_word_is_the_sum_of_the_formula_and_a_phrase_is_one_without_noise() -> None:
    world, seed, size = drawn(0.9, seed=2), 2, 16
    verbs, nouns = normals(seed, Stream.VERBS, (200, size)), normals(seed, Stream.NOUNS, (200, size))
    kinds, turned = normals(seed, Stream.KINDS, (5, size), 1), rotation(size, seed)
    mean = unit(normals(seed, Stream.MEANS, (2, size))[1].tolist())
    noise = normals(seed, Stream.WORD_NOISE, (CLIPS.height, 2, size))
    phrases = phrases_of(CLIPS, seed, SMALL)

    def meaning(shown: np.ndarray) -> list[float]:
        return [
            math.sqrt(0.7) * shown[d] + math.sqrt(0.3) * sum(shown[e] * turned[e, d] for e in range(size))
            for d in range(size)
        ]

    def placed(own: list[float]) -> list[float]:
        cone = SMALL.world.word_shares.cone
        return unit([math.sqrt(1 - cone) * one + math.sqrt(cone) * other for one, other in zip(own, mean, strict=True)])

    for row, clip in enumerate(world.corpus.clips.head(20).iter_rows(named=True)):
        verb, noun = clip["verb_classes"][0], clip["noun_classes"][0]
        own = [math.sqrt(0.9) * one for one in meaning(verbs[verb])]
        named = [
            math.sqrt(0.7) * one + math.sqrt(0.2) * other
            for one, other in zip(meaning(nouns[noun]), meaning(kinds[clip["usual"]]), strict=True)
        ]
        for place, (vector, table, number) in enumerate(((own, phrases.verbs, verb), (named, phrases.nouns, noun))):
            heard = [one + math.sqrt(0.1) * noise[row, place, d] for d, one in enumerate(vector)]
            assert world.texts.words[row, place].tolist() == pytest.approx(placed(heard), abs=2e-3)
            assert table[number].tolist() == pytest.approx(placed(vector), abs=1e-5)
    for kind in range(5):
        assert phrases.kinds[kind].tolist() == pytest.approx(placed(meaning(kinds[kind])), abs=1e-5)
