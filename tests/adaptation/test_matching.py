"""Matching against loops, ranks of scipy, and every assignment there is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import rankdata

from evenreel.adaptation import matching
from evenreel.adaptation.matching import one_way, transport_plan
from evenreel.adaptation.titan import Match, MatchSettings, rank_sums, rematch
from evenreel.errors import ScoresError

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
