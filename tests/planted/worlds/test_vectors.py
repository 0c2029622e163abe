"""The generative model: each part against slow loops over the formulas, and recovered from what was drawn."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from evenreel.planted.worlds import (
    BLOCK_CLIPS,
    Contents,
    FrameShares,
    Stream,
    WordShares,
    WorldSettings,
    arc,
    frames_of,
    normals,
    rotation,
    words_of,
)

NONE = {"action": 0.0, "instance": 0.0, "background": 0.0, "length": 0.0, "time": 0.0, "cone": 0.0}


def contents(count: int, seed: int = 0) -> Contents:
    rng = np.random.default_rng(seed)
    numbers = [rng.integers(most, size=count) for most in (5, 7, 6, 3)]
    return Contents(*numbers, lengths=rng.random(count), lasting=rng.random(count))


def unit(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector]


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
