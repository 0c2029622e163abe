"""Matching against loops, ranks of scipy, and every assignment there is; rotations of captions towards clips."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import rankdata

from evenreel.adaptation import matching
from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.matching import (
    alike_groups,
    caption_map,
    group_means,
    one_way,
    rotate_captions,
    rotation_towards,
    transport_plan,
)
from evenreel.adaptation.run import adapt
from evenreel.adaptation.stream import QueryStream
from evenreel.adaptation.titan import Match, MatchSettings, load_settings, rank_sums, rematch
from evenreel.errors import ScoresError, UsageError
from evenreel.matchers import build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.scoring import matcher_scores
from evenreel.types import FloatArray, TextFeatures, VideoFeatures

Table = np.ndarray
WAYS: tuple[Match, ...] = ("one_way", "rank_sum", "mutual_nn", "hungarian", "sinkhorn")
GRID = st.sampled_from([-np.inf, -1.0, 0.0, 0.25, 0.5, 1.0])
SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 5))
TIED = SHAPES.flatmap(lambda shape: arrays(np.float64, shape, elements=GRID))
SIZES = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))


def untied(queries: int, videos: int, seed: int) -> Table:
    return np.random.default_rng(seed).permutation(queries * videos).reshape(queries, videos) / (queries * videos)


def slow_sums(scores: Table, alpha: float) -> Table:
    """Equation 5, a pair at a time: 1 + how many are better + half of the others that are equal."""
    sums = np.zeros(scores.shape)
    for query, video in product(*map(range, scores.shape)):
        own = scores[query, video]
        of_video = 1 + sum(scores[query] > own) + (sum(scores[query] == own) - 1) / 2
        of_query = 1 + sum(scores[:, video] > own) + (sum(scores[:, video] == own) - 1) / 2
        sums[query, video] = of_video + alpha * of_query if own > -np.inf else np.inf
    return sums


@given(TIED, st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_rank_sums_are_those_of_loops_and_of_scipy(scores: Table, alpha: float) -> None:
    found = rank_sums(scores, alpha)
    np.testing.assert_allclose(found, slow_sums(scores, alpha))
    by_scipy = np.array([rankdata(-row) for row in scores]) + alpha * np.array([rankdata(-one) for one in scores.T]).T
    np.testing.assert_allclose(found[scores > -np.inf], by_scipy[scores > -np.inf])


@given(TIED, st.sampled_from([0.0, 0.1, 1.0, 2.0]))
def test_a_rank_sum_is_least_then_the_score_highest_then_the_video_earliest(scores: Table, alpha: float) -> None:
    sums = slow_sums(scores, alpha)
    for query, match in enumerate(rematch(scores, MatchSettings(alpha=alpha))):
        order = sorted(
            (round(sums[query, video], 9), -scores[query, video], video)
            for video in range(scores.shape[1])
            if scores[query, video] > -np.inf
        )
        assert match == (order[0][2] if order else -1)


def test_sums_that_are_equal_but_for_rounding_are_equal() -> None:
    """1 + 0.1 x 14 is more than 2 + 0.1 x 4 to a computer; the last query has these ranks for its two videos."""
    scores = np.full((14, 2), -1.0)
    scores[:, 0] = np.linspace(2, 1, 14)
    scores[13, 1], scores[:3, 1] = 0.9, (0.97, 0.95, 0.93)
    sums = rank_sums(scores, 0.1)[13]
    assert sums[0] > sums[1] and sums[0] == pytest.approx(sums[1])
    assert rematch(scores, MatchSettings(alpha=0.1))[13] == 0


@given(TIED)
def test_without_alpha_a_rank_sum_is_one_way(scores: Table) -> None:
    assert rematch(scores, MatchSettings(alpha=0.0)).tolist() == rematch(scores, MatchSettings("one_way")).tolist()


@given(TIED)
def test_mutual_matches_are_each_others_best(scores: Table) -> None:
    found = rematch(scores, MatchSettings("mutual_nn"))
    held = found[found >= 0]
    assert len(set(held.tolist())) == len(held)
    for query, video in enumerate(found):
        if video >= 0:
            assert scores[query, video] == scores[query].max() == scores[:, video].max() > -np.inf
    for query, video in product(*map(range, scores.shape)):
        own = scores[query, video]
        first_in_both = own > max([*np.delete(scores[query], video), *np.delete(scores[:, video], query), -np.inf])
        assert not first_in_both or found[query] == video


@given(TIED.filter(lambda scores: scores.size <= 12), st.sampled_from([None, 1, 2, 9]))
def test_an_assignment_is_the_best_of_all_there_are(scores: Table, capacity: int | None) -> None:
    """As many pairs as can match, and the largest sum among these, over every choice of videos."""
    queries, videos = scores.shape
    each = capacity or -(-queries // videos)
    best = (0, 0.0)
    for chosen in product(range(-1, videos), repeat=queries):
        counts = np.bincount(np.array(chosen) + 1, minlength=videos + 1)[1:]
        pairs = [(query, video) for query, video in enumerate(chosen) if video >= 0]
        if counts.max() <= each and all(scores[pair] > -np.inf for pair in pairs):
            best = max(best, (len(pairs), sum(scores[pair] for pair in pairs)))
    found = rematch(scores, MatchSettings("hungarian", capacity=capacity))
    held = [(query, video) for query, video in enumerate(found.tolist()) if video >= 0]
    assert np.bincount(found[found >= 0], minlength=videos).max() <= each
    assert (len(held), pytest.approx(best[1])) == (best[0], sum(scores[pair] for pair in held))


def test_a_transport_has_equal_shares_of_queries_and_of_videos() -> None:
    scores = np.random.default_rng(0).normal(size=(9, 6))
    plan = transport_plan(scores, 0.3, 5000)
    np.testing.assert_allclose(plan.sum(axis=1), 1 / 9)
    np.testing.assert_allclose(plan.sum(axis=0), 1 / 6, rtol=1e-6)
    # What is optimal has the form exp((s + f + g) / t): every 2 x 2 minor of the logarithm is that of the scores.
    minor = np.diff(np.diff(0.3 * np.log(plan), axis=0), axis=1)
    np.testing.assert_allclose(minor, np.diff(np.diff(scores, axis=0), axis=1), atol=1e-9)


@given(SIZES, st.sampled_from([0.2, 1.0, 5.0]))
def test_shares_of_a_transport_are_equal_whatever_the_scores(sizes: tuple[int, int, int], temperature: float) -> None:
    """Scores from 0 to 1; a round leaves at most tanh(2.5)^2, 0.97, of what is missing at the lowest temperature."""
    queries, videos, _ = sizes
    plan = transport_plan(untied(*sizes), temperature, 2000)
    assert plan.min() >= 0
    np.testing.assert_allclose(plan.sum(axis=1), 1 / queries)
    if queries >= videos:
        np.testing.assert_allclose(plan.sum(axis=0), 1 / videos, rtol=1e-5)
    else:
        assert plan.sum(axis=0).max() <= (1 + 1e-5) / queries


def test_a_transport_of_few_queries_spreads_none_of_them() -> None:
    """Two queries and five videos: equal shares of videos would be 0.2 each, and 2.5 of them a query."""
    scores = np.array([[5.0, 4.0, 0.0, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0, 0.0]])
    plan = transport_plan(scores, 0.1, 1000)
    np.testing.assert_allclose(plan.sum(axis=1), 0.5)
    assert plan.sum(axis=0).max() <= 0.5 + 1e-3
    assert rematch(scores, MatchSettings("sinkhorn")).tolist() == [1, 0]
    alone = transport_plan(scores[:1], 1.0, 100)
    np.testing.assert_allclose(alone[0], np.exp(scores[0]) / np.exp(scores[0]).sum())


def test_a_transport_leaves_out_what_can_match_nothing() -> None:
    gone = -np.inf
    scores = np.array([[0.5, gone, 0.4], [gone, gone, gone], [0.6, gone, gone]])
    plan = transport_plan(scores, 0.05, 1000)
    np.testing.assert_allclose(plan.sum(axis=0), [0.5, 0, 0.5], atol=1e-3)  # query 2 fills video 0, but slowly
    assert rematch(scores, MatchSettings("sinkhorn")).tolist() == [2, -1, 0]
    assert not transport_plan(np.full((2, 2), gone), 0.05, 10).any()
    wide = np.array([[1e6, -1e6], [1e6, 0.0]])
    assert np.isfinite(transport_plan(wide, 1e-3, 50)).all()


@given(TIED, st.sampled_from(WAYS))
def test_what_cannot_match_is_never_matched(scores: Table, way: Match) -> None:
    for query, video in enumerate(rematch(scores, MatchSettings(way))):
        assert video == -1 or scores[query, video] > -np.inf
        assert video >= 0 or way in ("mutual_nn", "hungarian") or (scores[query] == -np.inf).all()


def test_types_of_scores() -> None:
    whole = np.array([[3, 1], [2, 5]])
    for way in WAYS:
        found = rematch(whole.astype(np.float16), MatchSettings(way))
        assert found.dtype == np.int64 and found.tolist() == rematch(whole, MatchSettings(way)).tolist() == [0, 1]
    assert one_way(whole).tolist() == [0, 1]
    for way in WAYS:  # with the highest sum, as the paper's words have it, each would be matched to any other video
        assert rematch(np.eye(4), MatchSettings(way)).tolist() == [0, 1, 2, 3], way


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (np.array([[0.0, 1.0], [np.nan, 1.0]]), "query 1 and video 0 is nan"),
        (np.array([[0.0, np.inf]]), "query 0 and video 1 is inf"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.array([["a"]]), "must be numbers"),
    ],
)
def test_scores_that_nothing_can_be_matched_by(scores: Table, said: str) -> None:
    for way in WAYS:
        with pytest.raises(ScoresError, match=said):
            rematch(scores, MatchSettings(way))


def test_an_assignment_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MOST_CELLS", 79)
    with pytest.raises(ScoresError, match=r"10 queries to 4 videos with 2 places each is a table of 80 fields"):
        rematch(np.zeros((10, 4)), MatchSettings("hungarian", capacity=2))
    monkeypatch.setattr(matching, "MOST_CELLS", 80)
    assert (rematch(np.zeros((10, 4)), MatchSettings("hungarian", capacity=2)) >= 0).sum() == 8


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
