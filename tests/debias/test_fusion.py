"""Weights and common scales of members, against what numpy gives for whole tables and against a slow loss."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from evenreel.corpus.relevance import RelevantPairs
from evenreel.debias import frame_length as fusion
from evenreel.debias.frame_length import (
    Fusion,
    learned_weights,
    pair_loss,
    prior_weights,
    standardisation,
    uniform_weights,
)
from evenreel.errors import ScoresError, UsageError
from evenreel.types import Scores


def scores(values: Any) -> Scores:
    table = np.asarray(values, np.float32)
    return Scores(table, tuple(f"c{row}" for row in range(len(table))), tuple(f"v{row}" for row in range(len(table.T))))


def answers(table: Any) -> RelevantPairs:
    return RelevantPairs(sparse.csr_array(np.asarray(table, np.bool_)))


def noise(seed: int, size: tuple[int, int] = (12, 12)) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=size)


# The numbers


def test_the_share_of_the_clips_is_the_weight() -> None:
    """The published strata of EPIC-KITCHENS-100."""
    assert prior_weights([50_282, 16_935]) == pytest.approx((0.748055, 0.251945), abs=1e-6)
    assert uniform_weights(4) == (0.25,) * 4
    for sizes in ([], [3, 0]):
        with pytest.raises(UsageError, match="at least one clip"):
            prior_weights(sizes)


@given(sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=9))
def test_weights_by_size_are_those_of_a_fusion(sizes: list[int]) -> None:
    assert Fusion(prior_weights(sizes)).weights == prior_weights(sizes)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "weights of the fusion is (); it must be a list of numbers"),
        ({"weights": (0.5, 0.6)}, "add up to 1"),
        ({"weights": (-0.5, 1.5)}, "at least 0"),
        ({"weights": (math.nan,)}, "a list of numbers"),
        ({"weights": "half"}, "'half'; it must be a list"),
        ({"weights": (1.0,), "means": (0.0, 0.1)}, "a number for each weight"),
        ({"weights": (1.0,), "scales": (0.0,)}, "above 0"),
        ({"weights": (0.5, 0.5), "scales": (1.0,)}, "for each weight"),
    ],
)
def test_settings_that_are_no_fusion(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        Fusion(**given)
    assert words in str(error.value)


def test_lists_of_a_file_are_as_good() -> None:
    assert Fusion([0.5, 0.5], [], [1, 2]) == Fusion((0.5, 0.5), (), (1, 2))  # type: ignore[arg-type]


# A common scale


@given(seed=st.integers(0, 99), band=st.integers(1, 200), offset=st.sampled_from([0.0, 1e4]))
@settings(max_examples=15)
def test_mean_and_deviation_are_those_of_the_whole_table(seed: int, band: int, offset: float) -> None:
    given_scores = [scores(noise(seed, (9, 7)) + offset), scores(3 * noise(seed + 1, (9, 7)))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "BAND_SCORES", band)
        means, scales = standardisation(given_scores)
    whole = [one.values.astype(np.float64) for one in given_scores]
    np.testing.assert_allclose(means, [one.mean() for one in whole], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scales, [one.std() for one in whole], rtol=1e-6)


def test_scores_without_a_scale_are_refused() -> None:
    with pytest.raises(ScoresError, match=r"All scores of member 2 are 0.5, so they have no scale"):
        standardisation([scores(noise(0)), scores(np.full((2, 2), 0.5))])
    equal = replace(scores(np.zeros((300, 130))), values=np.full((300, 130), 0.3))  # deviate by 6e-17 in floats
    with pytest.raises(ScoresError, match=r"All scores of member 1 are 0.3, so they have no scale"):
        standardisation([equal])
    with pytest.raises(ScoresError, match="A score of member 1 is no finite number"):
        standardisation([scores([[0.1, np.nan]])])


# Weights from validation


def slow_loss(logits: NDArray[np.float64], same: NDArray[np.bool_]) -> float:
    """One pair at a time: the pair against all that are no pairs in its row, and in its column."""
    terms = [
        math.log(1 + sum(math.exp(other - logits[i, j]) for other in line))
        for i, j in np.argwhere(same)
        for line in (logits[i][~same[i]], logits[:, j][~same[:, j]])
    ]
    return sum(terms) / len(terms)


@given(seed=st.integers(0, 999), size=st.tuples(st.integers(1, 5), st.integers(1, 5)))
def test_the_loss_is_that_of_pairs_one_by_one(seed: int, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    logits, same = 3 * rng.normal(size=size), rng.random(size) < 0.4
    same.flat[0] = True
    found = pair_loss(torch.from_numpy(logits), torch.from_numpy(np.argwhere(same).T))
    assert found.item() == pytest.approx(slow_loss(logits, same), rel=1e-9, abs=1e-12)


def test_who_knows_the_answers_has_the_weight() -> None:
    perfect = np.eye(12) + 0.1 * noise(0)
    weights = learned_weights([scores(noise(1)), scores(perfect)], answers(np.eye(12)))
    assert weights[1] > 0.95
    assert sum(weights) == pytest.approx(1)


def test_equal_members_share() -> None:
    one = scores(0.5 * np.eye(12) + noise(0))
    assert learned_weights([one, one, one], answers(np.eye(12))) == pytest.approx((1 / 3,) * 3, abs=1e-3)


def test_members_that_know_half_each_share_and_their_scales_are_made_up_for() -> None:
    """The second one's scores are ten times as large; its weight is a tenth, or the same where the scale is taken."""
    known = np.repeat([1.0, 0.0], 10)
    first, second = np.diag(known) + 0.3 * noise(2, (20, 20)), np.diag(1 - known) + 0.3 * noise(3, (20, 20))
    members, truth = [scores(first), scores(10 * second)], answers(np.eye(20))
    alone = learned_weights([scores(first), scores(second)], truth)
    scaled = learned_weights(members, truth, scales=(1.0, 10.0))
    assert 0.35 < alone[0] < 0.65
    np.testing.assert_allclose(scaled, alone, atol=2e-3)
    ratio = learned_weights(members, truth)
    assert ratio[0] / ratio[1] == pytest.approx(10 * alone[0] / alone[1], rel=0.02)


def test_the_weights_are_those_of_least_loss() -> None:
    """No other mix of the two, at any temperature of a fine grid, costs less."""
    members = [0.6 * np.eye(12) + 0.4 * noise(4), 0.3 * np.eye(12) + 0.4 * noise(5)]
    first, second = learned_weights([scores(one) for one in members], answers(np.eye(12)))
    least = {
        weight: min(
            slow_loss(factor * (weight * members[0] + (1 - weight) * members[1]), np.eye(12) > 0)
            for factor in np.geomspace(0.5, 50, 25)
        )
        for weight in (first, *np.linspace(0, 1, 11))
    }
    assert least[first] <= min(least.values()) + 1e-3
    assert first > second > 0


def test_they_are_the_same_each_time() -> None:
    members = [scores(0.5 * np.eye(12) + 0.4 * noise(seed)) for seed in range(3)]
    assert learned_weights(members, answers(np.eye(12))) == learned_weights(members, answers(np.eye(12)))


def test_what_weights_cannot_be_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    good, truth = scores(np.eye(2)), answers(np.eye(2))
    with pytest.raises(UsageError, match="at least one member and one caption with an answer"):
        learned_weights([good], answers(np.zeros((2, 2))))
    with pytest.raises(UsageError, match="not of the same captions and clips"):
        learned_weights([good, scores(np.eye(3))], truth)
    with pytest.raises(ScoresError, match="no member scores answers higher"):
        learned_weights([scores(-np.eye(2))], truth)
    monkeypatch.setattr(fusion, "MOST_SCORES", 7)
    with pytest.raises(UsageError, match="learned from 8 scores, 2 captions and 2 clips by 2 members, and at most 7"):
        learned_weights([good, good], truth)
