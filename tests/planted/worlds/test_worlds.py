"""Drawn worlds of the package: each part against slow loops over the formulas, and what is planted, counted."""

from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from benchmarks.worlds import SplitSizes, annotated_clips, phrases_of
from benchmarks.worlds.model import (
    BLOCK_CLIPS,
    BackgroundSettings,
    Contents,
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
    draw_queries,
    frames_of,
    normals,
    rotation,
    usual_kinds,
    words_of,
)
from tests.planted.worlds.tables import made_up_table, unit

if TYPE_CHECKING:
    from benchmarks.worlds.model import FeatureWorld

# The generative model: each part against slow loops over the formulas, and recovered from what was drawn.


NONE = {"action": 0.0, "instance": 0.0, "background": 0.0, "length": 0.0, "time": 0.0, "cone": 0.0}


def contents(count: int, seed: int = 0) -> Contents:
    rng = np.random.default_rng(seed)
    numbers = [rng.integers(most, size=count) for most in (5, 7, 6, 3)]
    return Contents(*numbers, lengths=rng.random(count), lasting=rng.random(count))


def test_a_frame_is_the_sum_of_the_formula() -> None:
    count, size, seed, moments = 4, 8, 3, 3
    shares = FrameShares(action=0.2, instance=0.1, background=0.15, length=0.25, time=0.1, cone=0.4)
    shown = contents(count)
    settings = WorldSettings(size, moments, harmonics=2, frame_shares=shares)
    frames = frames_of(shown, settings, seed)
    verbs, nouns = normals(seed, Stream.VERBS, (5, size)), normals(seed, Stream.NOUNS, (7, size))
    videos, own = normals(seed, Stream.VIDEOS, (6, size)), normals(seed, Stream.INSTANCES, (count, size))
    drifts, noise = normals(seed, Stream.DRIFTS, (count, size)), normals(seed, Stream.FRAME_NOISE, (count, 3, size))
    lengths = arc(shown.lengths, size, seed, 0, 2)
    mean = unit(normals(seed, Stream.MEANS, (2, size))[0].tolist())
    for clip in range(count):
        rank = float(shown.lengths[clip])
        for moment in range(moments):
            tau, vector = (moment + 0.5) / moments, []
            for d in range(size):
                action = (verbs[shown.verbs[clip], d] + nouns[shown.nouns[clip], d]) / math.sqrt(2)
                drift = math.sqrt(3) * (2 * tau - 1) * rank * drifts[clip, d]
                parts = {0.2: action, 0.1: own[clip, d], 0.15: videos[shown.videos[clip], d], 0.25: lengths[clip, d]}
                whole = sum(math.sqrt(share) * part for share, part in parts.items()) + math.sqrt(0.1) * drift
                whole += math.sqrt(1 - 0.8) * noise[clip, moment, d]
                vector.append(math.sqrt(0.6) * whole + math.sqrt(0.4) * mean[d])
            assert frames[clip, moment].tolist() == pytest.approx(unit(vector), abs=1e-3)


def test_a_word_is_the_sum_of_the_formula() -> None:
    count, size, seed = 4, 8, 5
    shown = contents(count)
    settings = WorldSettings(size, harmonics=2, word_shares=WordShares(0.3, 0.15, 0.2, 0.1, 0.4))
    words = words_of(shown, settings, seed)
    tables = normals(seed, Stream.VERBS, (5, size)), normals(seed, Stream.NOUNS, (7, size))
    people, noise = normals(seed, Stream.ANNOTATORS, (3, size)), normals(seed, Stream.WORD_NOISE, (count, 2, size))
    lasting = arc(shown.lasting, size, seed, 1, 2)
    mean, turned = unit(normals(seed, Stream.MEANS, (2, size))[1].tolist()), rotation(size, seed)
    for clip in range(count):
        total = [0.0] * size
        for place, number in enumerate((shown.verbs[clip], shown.nouns[clip])):
            c, vector = tables[place][number], []
            for d in range(size):
                meaning = math.sqrt(0.3) * c[d] + math.sqrt(0.7) * sum(c[e] * turned[e, d] for e in range(size))
                own = math.sqrt(0.55) * meaning + math.sqrt(0.2) * people[shown.annotators[clip], d]
                if place == 1:
                    own += math.sqrt(0.15) * lasting[clip, d]
                own += math.sqrt(0.1) * noise[clip, place, d]
                vector.append(math.sqrt(0.6) * own + math.sqrt(0.4) * mean[d])
            assert words.words[clip, place].tolist() == pytest.approx(unit(vector), abs=1e-3)
            total = [one + other for one, other in zip(total, unit(vector), strict=True)]
        assert words.sentence[clip].tolist() == pytest.approx(unit(total), abs=1e-5)


@pytest.mark.parametrize("share", ["instance", "background", "action"])
def test_cosines_of_frames_give_the_shares_back(share: str) -> None:
    settings = WorldSettings(256, 2, frame_shares=FrameShares(**(NONE | {share: 0.4})))
    shown = contents(300)
    frames = frames_of(shown, settings, 0).astype(np.float64)
    alike = {
        "instance": np.eye(300, dtype=bool),
        "background": shown.videos[:, None] == shown.videos,
        "action": (shown.verbs[:, None] == shown.verbs) & (shown.nouns[:, None] == shown.nouns),
    }
    cosines = frames[:, 0] @ frames[:, 1].T
    assert cosines[alike[share]].mean() == pytest.approx(0.4, abs=0.05)
    if share != "action":  # other actions may have the verb or the noun in common
        assert cosines[~alike[share]].mean() == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize("harmonics", [1, 4])
def test_lengths_lie_on_a_curve_whose_cosines_depend_on_their_difference(harmonics: int) -> None:
    settings = WorldSettings(64, 1, harmonics=harmonics, frame_shares=FrameShares(**(NONE | {"length": 0.99})))
    ranks = np.array([0.0, 0.1, 0.25, 0.5, 1.0])
    zero = np.zeros(5, np.int64)
    frames = frames_of(Contents(zero, zero, zero, zero, ranks, ranks), settings, 0)[:, 0].astype(np.float64)
    for first in range(5):
        for second in range(5):
            waves = [math.cos(math.pi * wave * (ranks[first] - ranks[second])) for wave in range(1, harmonics + 1)]
            assert frames[first] @ frames[second] == pytest.approx(sum(waves) / harmonics, abs=0.05)


def test_a_longer_clip_drifts_further() -> None:
    settings = WorldSettings(256, 3, frame_shares=FrameShares(**(NONE | {"instance": 0.5, "time": 0.3})))
    shown = contents(400)
    frames = frames_of(shown, settings, 0).astype(np.float64)
    apart = np.linalg.norm(frames[:, 2] - frames[:, 0], axis=1)
    assert np.corrcoef(apart, shown.lengths)[0, 1] > 0.5


def test_the_cone_is_the_cosine_of_unrelated_vectors_and_texts_have_another() -> None:
    shares = FrameShares(cone=0.5, length=0.0), WordShares(lasting=0.0, cone=0.6)
    settings = WorldSettings(256, 1, frame_shares=shares[0], word_shares=shares[1])
    shown = contents(300)
    frames, words = frames_of(shown, settings, 0)[:, 0].astype(float), words_of(shown, settings, 0).words[:, 0]
    apart = shown.videos[:, None] != shown.videos
    assert (frames @ frames.T)[apart].mean() == pytest.approx(0.5, abs=0.05)
    other = (shown.verbs[:, None] != shown.verbs) & (shown.annotators[:, None] != shown.annotators)
    assert (words.astype(float) @ words.T.astype(float))[other].mean() == pytest.approx(0.6, abs=0.05)
    assert abs((words.astype(float) @ frames.T).mean()) < 0.2


def test_the_alignment_is_the_squared_cosine_of_word_and_picture() -> None:
    settings = WorldSettings(
        512, word_shares=WordShares(alignment=0.3, lasting=0.0, annotator=0.0, noise=0.0, cone=0.0)
    )
    shown = contents(50)
    words = words_of(shown, settings, 0).words[:, 1].astype(float)
    nouns = normals(0, Stream.NOUNS, (7, 512))[shown.nouns]
    cosines = np.sum(words * nouns, axis=1) / np.linalg.norm(nouns, axis=1)
    assert np.mean(cosines) == pytest.approx(math.sqrt(0.3), abs=0.1)


def test_frames_are_drawn_in_blocks_of_bounded_memory() -> None:
    count, settings = 8 * BLOCK_CLIPS, WorldSettings(64, 2)
    shown = contents(count)
    tracemalloc.start()
    frames = frames_of(shown, settings, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    block_bytes = BLOCK_CLIPS * 2 * 64 * 4
    assert peak - frames.nbytes < 8 * block_bytes < 8 * count * 2 * 64


# Worlds in which a background stands in for the noun.


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


# Two domains of features: what a clip of the source is beside the same clip of the target, and what is asked for.


SMALL_DOMAINS = DomainSettings(world=WorldSettings(dimension=16, frames=3, word_shares=WordShares(lasting=0.0)))
CLIPS_DOMAINS = annotated_clips(made_up_table(), SplitSizes(300, 30, 80), 0)


def drawn_of_domains(strength: float, settings: DomainSettings = SMALL_DOMAINS) -> FeatureWorld:
    return draw_domains(CLIPS_DOMAINS, strength, 0, settings)


def test_the_test_split_is_the_target_and_the_same_at_every_strength() -> None:
    biased, free = drawn_of_domains(0.9).split("test"), drawn_of_domains(0.0).split("test")
    assert biased.videos.frames.tobytes() == free.videos.frames.tobytes()
    assert biased.texts.words.tobytes() == free.texts.words.tobytes()
    assert biased.texts.sentence.tobytes() == free.texts.sentence.tobytes()
    assert set(biased.corpus.clips["domain"]) == {"target"}


def test_training_and_validation_clips_are_of_the_source_with_the_strength() -> None:
    for split, count in (("train", 300), ("val", 30)):
        domains = drawn_of_domains(0.9).split(split).corpus.clips["domain"]
        assert (domains == "source").sum() == pytest.approx(0.9 * count, abs=4 * (0.09 * count) ** 0.5)
        assert set(drawn_of_domains(0.0).split(split).corpus.clips["domain"]) == {"target"}
        fewer = drawn_of_domains(0.5).split(split).corpus.clips["domain"]
        assert not ((fewer == "source") & (domains == "target")).any()


def test_target_clips_do_not_depend_on_the_strength() -> None:
    biased, free = drawn_of_domains(0.6), drawn_of_domains(0.0)
    kept = (biased.corpus.clips["domain"] == "target").to_numpy()
    assert 0 < np.sum(~kept) < len(kept)
    assert np.array_equal(biased.videos.frames[kept], free.videos.frames[kept])
    assert np.array_equal(biased.texts.words[kept], free.texts.words[kept])


def test_a_source_clip_is_the_told_one_through_another_camera_and_other_words() -> None:
    source, target = drawn_of_domains(1.0), drawn_of_domains(1.0, SMALL_DOMAINS.told)
    assert source.corpus.captions.equals(target.corpus.captions)
    look, common, wording = domain_maps(SMALL_DOMAINS, 0)
    for row in range(0, 330, 37):
        for moment in range(3):
            x = target.videos.frames[row, moment].astype(float)
            seen = np.sqrt(0.8) * sum(x[own] * look[own] for own in range(16)) + np.sqrt(0.2) * common
            assert source.videos.frames[row, moment] == pytest.approx(seen / np.linalg.norm(seen), abs=2e-3)
        means = [sum(y[own] * wording[own] for own in range(16)) for y in target.texts.words[row].astype(float)]
        assert source.texts.words[row] == pytest.approx(np.array(means), abs=2e-3)
        whole = means[0] + means[1]
        assert source.texts.sentence[row] == pytest.approx(whole / np.linalg.norm(whole), abs=2e-3)


def test_maps_turn_and_damp_as_many_directions_as_they_say() -> None:
    settings = replace(SMALL_DOMAINS, turned=0.5, turn=60.0, damped=0.25, damping=0.3, wording=20.0)
    look, common, wording = (one.astype(float) for one in domain_maps(settings, 3))
    assert np.sort(np.linalg.svd(look)[1]) == pytest.approx([0.3] * 4 + [1.0] * 12, abs=1e-5)
    angles = np.sort(np.abs(np.angle(np.linalg.eigvals(look), deg=True)))
    assert angles == pytest.approx([0.0] * 8 + [60.0] * 8, abs=1e-2)
    assert np.linalg.norm(common) == pytest.approx(1)
    assert wording @ wording.T == pytest.approx(np.eye(16), abs=1e-5)
    rows = np.random.default_rng(0).standard_normal((5, 16))
    cosines = (rows * (rows @ wording)).sum(1) / (rows**2).sum(1)
    assert cosines == pytest.approx(np.full(5, np.cos(np.deg2rad(20))), abs=1e-5)


def test_source_clips_show_actions_of_training_clips_by_frequencies_of_their_own() -> None:
    table = {row[0]: row[1:] for row in CLIPS_DOMAINS.select("clip_id", "verb", "noun").iter_rows()}
    learned = CLIPS_DOMAINS.filter(pl.col("split") == "train")
    actions = set(learned.select("verb", "noun").iter_rows())
    counts = []
    for spread in (0.0, 3.0):
        clips = drawn_of_domains(1.0, replace(SMALL_DOMAINS, frequencies=spread)).corpus.clips
        shown = clips.select("clip_id", "split", pl.col("verb_classes").list[0], pl.col("noun_classes").list[0])
        for clip, split, verb, noun in shown.iter_rows():
            assert (verb, noun) in actions if split == "train" else (verb, noun) == table[clip]
        counts.append(Counter(noun for _, split, _, noun in shown.iter_rows() if split == "train"))
    assert max(counts[0].values()) < 60 < max(counts[1].values())


def test_few_clips_are_asked_for_often() -> None:
    clips = CLIPS_DOMAINS.filter(pl.col("split") == "test")
    log = draw_queries(clips, 20_000, 0, SMALL_DOMAINS)
    asked = sorted(Counter(log.clips.tolist()).values(), reverse=True)
    harmonic = sum(1 / rank for rank in range(1, clips.height + 1))
    for rank in (1, 2, 5):
        expected = 20_000 / harmonic / rank
        assert asked[rank - 1] == pytest.approx(expected, abs=4 * expected**0.5)
    alike = Counter(draw_queries(clips, 20_000, 0, SMALL_DOMAINS, exponent=0.0).clips.tolist())
    assert max(alike.values()) < 1.4 * min(alike.values())


def test_a_query_is_worded_as_captions_of_its_clip_and_by_someone_else() -> None:
    world, clips = drawn_of_domains(0.9).split("test"), CLIPS_DOMAINS.filter(pl.col("split") == "test")
    log = draw_queries(clips, 400, 0, SMALL_DOMAINS)
    assert log.texts.words.shape == (400, 2, 16) and len(set(log.texts.ids)) == 400
    cosines = log.texts.sentence @ world.texts.sentence.T
    own = cosines[np.arange(400), log.clips]
    assert own.mean() > np.delete(cosines, 0, axis=1).mean() + 0.1 and own.max() < 0.9999
    same = [row for row in range(400) if log.clips[row] == log.clips[0]]
    assert len(same) == len({log.texts.words[row].tobytes() for row in same})
