"""Rotations of captions towards clips: groups of like queries, the rotation itself, and the map that takes it in."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.matching import alike_groups, caption_map, group_means, rotate_captions, rotation_towards
from evenreel.adaptation.run import adapt
from evenreel.adaptation.stream import QueryStream
from evenreel.adaptation.titan import load_settings
from evenreel.errors import UsageError
from evenreel.matchers import build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.scoring import matcher_scores
from evenreel.types import FloatArray, TextFeatures, VideoFeatures

SIZE = 16


def unit(*shape: int, seed: int) -> FloatArray:
    drawn = np.random.default_rng(seed).standard_normal(shape)
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def turned(degrees: float) -> FloatArray:
    """A rotation of pairs of neighbouring places."""
    found, angle = np.eye(SIZE), np.deg2rad(degrees)
    for one, other in pairwise(range(SIZE)):
        if one % 2 == 0:
            found[[one, other], [one, other]] = np.cos(angle)
            found[one, other], found[other, one] = np.sin(angle), -np.sin(angle)
    return found


def shifted(clips: int = 80, asked: int = 600) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Vectors of queries with unequal demand, of a caption of each clip, and of the clips."""
    rng, shown = np.random.default_rng(3), unit(clips, SIZE, seed=0)
    said = shown @ turned(-62.0)
    noise = 0.05 * rng.standard_normal((asked, SIZE))
    rows = rng.choice(clips, asked, p=(1 / np.arange(1, clips + 1)) / (1 / np.arange(1, clips + 1)).sum())
    queries = said[rows] + noise
    return queries / np.linalg.norm(queries, axis=1, keepdims=True), said, shown


def right(captions: FloatArray, clips: FloatArray) -> float:
    return float(((captions @ clips.T).argmax(1) == np.arange(len(clips))).mean())


def test_groups_are_those_of_a_slow_loop() -> None:
    vectors = unit(40, 3, seed=1)
    centred = vectors - vectors.mean(0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    like = [[row for row in range(40) if centred[row] @ centred[own] >= 0.8] for own in range(40)]
    expected: dict[int, int] = {}
    count = 0
    for own in sorted(range(40), key=lambda row: -len(like[row])):
        if own not in expected:
            for row in like[own]:
                expected.setdefault(row, count)
            count += 1
    assert alike_groups(vectors, 0.8).tolist() == [expected[row] for row in range(40)]


def test_a_mean_of_a_group_is_of_unit_length() -> None:
    vectors = unit(5, SIZE, seed=2)
    means = group_means(vectors, np.array([1, 0, 1, 0, 0]))
    for group, rows in ((0, [1, 3, 4]), (1, [0, 2])):
        total = sum(vectors[row] for row in rows)
        assert means[group] == pytest.approx(total / np.linalg.norm(total))


def test_the_rotation_that_was_is_found_from_right_labels() -> None:
    clips = unit(50, SIZE, seed=0)
    captions = clips @ turned(-70.0)
    assert rotation_towards(captions, clips, np.eye(50), stay=0.0) == pytest.approx(turned(70.0), abs=1e-6)


def test_no_other_rotation_agrees_more() -> None:
    captions, clips, plan = unit(20, SIZE, seed=4), unit(30, SIZE, seed=5), np.random.default_rng(6).random((20, 30))
    best = rotation_towards(captions, clips, plan, stay=0.0)
    assert best @ best.T == pytest.approx(np.eye(SIZE), abs=1e-6)

    def agreement(rotation: FloatArray) -> float:
        return float((plan * (captions @ rotation @ clips.T)).sum())

    for seed in range(20):
        other, _ = np.linalg.qr(unit(SIZE, SIZE, seed=seed))
        assert agreement(other) < agreement(best)


def test_with_a_large_weight_all_stays_where_it_is() -> None:
    captions, clips = unit(20, SIZE, seed=4), unit(20, SIZE, seed=5)
    stayed = rotation_towards(captions, clips, np.eye(20), stay=1e6)
    assert stayed == pytest.approx(np.eye(SIZE), abs=1e-4)


def linear(**settings: Any) -> Adapted:
    torch.manual_seed(0)
    matcher = Adapted(build_matcher("mean_pool", SIZE), SIZE, AdapterSettings(**settings)).eval()
    for weight in matcher.parameters():
        if weight.ndim:
            torch.nn.init.normal_(weight, std=0.1)
    return matcher


def texts_of(vectors: FloatArray) -> TextFeatures:
    ids = tuple(f"c{row}" for row in range(len(vectors)))
    return TextFeatures(ids, vectors[:, None], np.ones((len(ids), 1), np.bool_), vectors.astype(np.float32))


def videos_of(vectors: FloatArray) -> VideoFeatures:
    ids = tuple(f"v{row}" for row in range(len(vectors)))
    return VideoFeatures(
        ids, vectors[:, None].astype(np.float16), np.ones((len(ids), 1), np.bool_), np.zeros((len(ids), 1))
    )


def test_a_folded_rotation_turns_what_the_map_makes_of_captions() -> None:
    matcher = linear()
    sentences = torch.from_numpy(unit(7, SIZE, seed=8)).float()
    real = torch.ones(7, dtype=torch.bool)
    before = matcher.text_map(sentences, real).detach().numpy()
    rotate_captions(matcher, turned(25.0))
    assert matcher.text_map(sentences, real).detach().numpy() == pytest.approx(before @ turned(25.0), abs=1e-5)


@pytest.mark.parametrize("settings", [{"kind": "mlp"}, {"shared": True}, {}])
def test_a_map_that_no_rotation_can_become_a_part_of_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="linear"):
        caption_map(build_matcher("mean_pool", SIZE) if settings == {} else linear(**settings))
    with pytest.raises(UsageError, match="linear"):
        TestTimeMatcher(linear(kind="mlp"), videos_of(unit(3, SIZE, seed=0)), load_settings("rotation"))


def test_adapting_by_the_shipped_settings_finds_more_and_leaves_the_source() -> None:
    queries, captions, clips = shifted()
    source = Adapted(build_matcher("mean_pool", SIZE), SIZE, AdapterSettings()).eval()
    stream = QueryStream(texts_of(queries), ("words",) * len(queries), videos_of(clips))
    model = TestTimeMatcher(source, stream.videos, load_settings("rotation"))
    done = adapt(model, stream)

    def found(matcher: Any) -> float:
        every = slice(0, len(clips))
        values = matcher_scores(matcher, texts_of(captions), videos_of(clips)).block(every, every)
        return float((values.argmax(1) == np.arange(len(clips))).mean())

    assert done.report.kept and found(done.matcher) > found(source) + 0.25
    assert found(source) == right(captions.astype(np.float32), clips.astype(np.float16).astype(np.float32))
    model.reset()
    assert found(model) == found(source)
