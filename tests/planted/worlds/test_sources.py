"""Worlds in which a generator mirrors real clips."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.worlds import (
    MARK,
    MirrorShares,
    SplitSizes,
    annotated_clips,
    captioned,
    draw_mirrored_world,
    draw_world,
    trace_of,
)
from evenreel.corpus.counterparts import counterparts
from evenreel.planted.worlds import FeatureWorld, FrameShares, Stream, WorldSettings, arc, length_ranks, normals, stream
from tests.planted.worlds.tables import made_up_table

SMALL = WorldSettings(dimension=16, frames=3)
CLIPS = annotated_clips(made_up_table(), SplitSizes(300, 20, 40), 0)


def drawn(strength: float, seed: int = 0, mirrors: MirrorShares | None = None) -> FeatureWorld:
    return draw_mirrored_world(CLIPS, strength, seed, SMALL, mirrors)


def test_every_real_clip_is_that_of_the_unbiased_world_and_has_a_mirror() -> None:
    world, plain = drawn(0.9), draw_world(CLIPS, 0.0, 0, SMALL)
    count = CLIPS.height
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
    biased, free, other = drawn(0.9), drawn(0.0), drawn(0.9, seed=1)
    assert biased.videos.frames.tobytes() == free.videos.frames.tobytes() != other.videos.frames.tobytes()
    assert biased.texts.sentence.tobytes() == free.texts.sentence.tobytes()
    assert biased.corpus.clips.equals(free.corpus.clips)
    assert biased.corpus.captions.drop("clip_id").equals(free.corpus.captions.drop("clip_id"))
    assert not biased.corpus.captions.equals(free.corpus.captions)


def test_the_clips_that_have_captions_are_one_of_each_pair() -> None:
    val = captioned(drawn(0.9).split("val"))
    assert len(val.videos.ids) == len(val.texts.ids) == 20
    assert set(val.corpus.captions["clip_id"]) == set(val.videos.ids)
    assert len({name.removesuffix(MARK) for name in val.videos.ids}) == 20


def test_a_mirror_is_the_sum_of_the_formula() -> None:
    size, moments, seed = 8, 2, 5
    real = FrameShares(0.1, 0.1, 0.1, length=0.2, time=0.1, cone=0.3)
    shares = MirrorShares(action=0.15, style=0.4, instance=0.05, background=0.1, trace=0.25, lead=0.2)
    world = draw_mirrored_world(CLIPS, 0.0, seed, WorldSettings(size, moments, frame_shares=real), shares)
    count, frames = CLIPS.height, world.videos.frames[CLIPS.height :]
    verbs, nouns = (CLIPS[kind].to_list() for kind in ("verb", "noun"))
    tables = [
        normals(seed, part, (max(numbers) + 1, size))
        for part, numbers in ((Stream.VERBS, verbs), (Stream.NOUNS, nouns))
    ]
    videos = sorted(set(CLIPS["path"]))
    places = normals(seed, Stream.VIDEOS, (len(videos), size))
    style, _ = np.linalg.qr(stream(seed, Stream.GENERATOR, 1).standard_normal((size, size)))
    own = normals(seed, Stream.MIRROR_INSTANCES, (count, size)), normals(seed, Stream.MIRROR_DRIFTS, (count, size))
    noise = normals(seed, Stream.MIRROR_NOISE, (count, moments, size))
    lengths = world.corpus.clips["end_s"].to_numpy()[:count]
    ranks = length_ranks(lengths, lengths[CLIPS["split"].is_in(["train", "val"]).to_numpy()])
    circle, trace = arc(ranks, size, seed), trace_of(size, 0.2, seed)
    mean = normals(seed, Stream.MEANS, (2, size))[0]
    mean = mean / math.sqrt(sum(value**2 for value in mean.tolist()))
    for clip in range(0, count, 60):
        action = (tables[0][verbs[clip]] + tables[1][nouns[clip]]) / math.sqrt(2)
        for moment, tau in enumerate((0.25, 0.75)):
            vector = math.sqrt(0.15 * 0.6) * action + math.sqrt(0.15 * 0.4) * (action @ style)
            vector = vector + math.sqrt(0.05) * own[0][clip] + math.sqrt(0.25) * trace + math.sqrt(0.2) * circle[clip]
            vector = vector + math.sqrt(0.1) * places[videos.index(CLIPS["path"][clip])]
            vector = vector + math.sqrt(0.1) * math.sqrt(3) * (2 * tau - 1) * ranks[clip] * own[1][clip]
            vector = vector + math.sqrt(0.15) * noise[clip, moment]
            vector = math.sqrt(0.7) * vector + math.sqrt(0.3) * mean
            assert frames[clip, moment].tolist() == pytest.approx((vector / np.linalg.norm(vector)).tolist(), abs=1e-3)


def test_the_trace_is_in_all_mirrors_and_as_near_to_words_as_is_said() -> None:
    shares = MirrorShares(trace=0.4, lead=0.3)
    settings = WorldSettings(256, 1, frame_shares=FrameShares(length=0.0, cone=0.0))
    world = draw_mirrored_world(CLIPS, 0.0, 0, settings, shares)
    real, mirrors = np.split(world.videos.frames[:, 0].astype(np.float64), 2)
    trace = trace_of(256, 0.3, 0)
    assert np.linalg.norm(trace) == pytest.approx(1.0, abs=1e-5)
    assert ((mirrors - real) @ trace).mean() == pytest.approx(math.sqrt(0.4), abs=0.05)
    words = normals(0, Stream.MEANS, (2, 256))[1]
    assert (trace @ words / np.linalg.norm(words)) ** 2 == pytest.approx(0.3, abs=1e-4)


def test_a_mirror_does_not_have_what_only_its_real_clip_shows() -> None:
    real = FrameShares(action=0.1, instance=0.6, background=0.0, length=0.0, time=0.0, cone=0.0)
    shares = MirrorShares(action=0.1, style=0.0, instance=0.6, background=0.0, trace=0.0)
    world = draw_mirrored_world(CLIPS, 0.0, 0, WorldSettings(512, 1, frame_shares=real), shares)
    one, other = np.split(world.videos.frames[:, 0].astype(np.float64), 2)
    assert (one * other).sum(1).mean() == pytest.approx(0.1, abs=0.03)
