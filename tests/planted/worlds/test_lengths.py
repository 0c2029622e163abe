"""Lengths that stand in for the action."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.worlds import planted_lengths
from evenreel.planted.worlds import noun_strata


def test_nouns_go_whole_to_strata_of_about_equal_numbers_of_clips() -> None:
    rng = np.random.default_rng(0)
    nouns = rng.choice(40, size=5_000, p=np.arange(1, 41) / 820)
    places = rng.random(40)
    strata = noun_strata(places, nouns, 4)
    largest = max(Counter(nouns.tolist()).values())
    sizes = [int(np.sum(strata[nouns] == stratum)) for stratum in range(4)]
    assert all(abs(size - 1_250) <= largest for size in sizes)
    order = np.argsort(places)
    assert sorted(strata[order].tolist()) == strata[order].tolist()


@pytest.mark.parametrize("strength", [0.0, 0.5, 0.9, 1.0])
def test_the_share_of_clips_in_their_stratum_is_the_strength_and_chance(strength: float) -> None:
    rng = np.random.default_rng(1)
    strata = rng.choice(3, size=20_000, p=[0.5, 0.3, 0.2])
    lengths = rng.permutation(20_000).astype(float)
    assigned, from_strata = planted_lengths(lengths, strata, strength, np.random.default_rng(2))
    sizes = Counter(strata.tolist())
    kept = 0
    for length, stratum in zip(assigned.tolist(), strata.tolist(), strict=True):
        shortest = sum(sizes[other] for other in range(stratum))  # lengths are 0 to 19,999
        kept += shortest <= length < shortest + sizes[stratum]
    chance = sum((size / 20_000) ** 2 for size in sizes.values())
    assert kept / 20_000 == pytest.approx(strength + (1 - strength) * chance, abs=0.015)
    assert kept == np.sum(from_strata == strata)


def test_without_a_bias_no_stratum_says_anything_of_the_length() -> None:
    strata = np.repeat([0, 1], 5_000)
    lengths = np.arange(10_000.0)
    assigned, _ = planted_lengths(lengths, strata, 0.0, np.random.default_rng(3))
    means = [assigned[strata == stratum].mean() for stratum in (0, 1)]
    assert abs(means[0] - means[1]) < 4 * 10_000 / np.sqrt(12) * np.sqrt(2 / 5_000)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.5, 1.0, 2.0, 7.0])), max_size=40), st.floats(0, 1))
def test_each_length_is_given_once(clips: list[tuple[int, float]], strength: float) -> None:
    strata = np.array([stratum for stratum, _ in clips], np.int64)
    lengths = np.array([length for _, length in clips])
    assigned, from_strata = planted_lengths(lengths, strata, strength, np.random.default_rng(4))
    assert sorted(assigned.tolist()) == sorted(lengths.tolist())
    assert sorted(from_strata.tolist()) == sorted(strata.tolist())
