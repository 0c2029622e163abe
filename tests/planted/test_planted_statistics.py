"""What is planted, counted: chance at strength 0, more with more strength, and never in the test split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats.contingency import association

from evenreel.planted import BIASES, BiasName, plan_corpus, planted_statistics
from evenreel.planted.folder import cramers_v, mutual_information_bits

PAIRED: tuple[BiasName, ...] = ("visual", "textual", "length")
AT_STRENGTH = {
    # the share that shows it, by hand: chance c without a strike, so s + (1 - s) c
    "visual": lambda s: s + (1 - s) / 8,
    "textual": lambda s: s + (1 - s) / 8,
    "length": lambda s: s + (1 - s) / 2,
    "source": lambda s: s + (1 - s) / 2,
    "domain": lambda s: s,
    "scene_text": lambda s: s,
}


@pytest.mark.parametrize("bias", sorted(BIASES))
@pytest.mark.parametrize("strength", [0.0, 0.5, 0.9])
def test_the_share_that_is_planted_is_what_the_strength_says(bias: BiasName, strength: float) -> None:
    train = planted_statistics(plan_corpus(bias, strength, 1_500))[0]
    expected = AT_STRENGTH[bias](strength)
    units = train.count / (4 if bias == "scene_text" else 1)
    assert abs(train.planted_share - expected) <= 4 * np.sqrt(expected * (1 - expected) / units)


@pytest.mark.parametrize("bias", PAIRED)
def test_association_is_chance_at_strength_0_and_in_the_test_split_and_grows(bias: BiasName) -> None:
    seen = [planted_statistics(plan_corpus(bias, strength, 1_000)) for strength in (0.0, 0.4, 0.9)]
    information = [train.information_bits or 0.0 for train, _, _ in seen]
    assert information == sorted(information)
    assert information[-1] > 10 * information[0]
    for free in (seen[0][0], *(test for _, _, test in seen)):
        assert (free.information_bits or 0.0) < 2.5 * (free.chance_bits or 0.0)


def test_lengths_part_in_training_and_not_in_the_test_split() -> None:
    plan = plan_corpus("length", 1.0, 1_500)
    train, _, test = planted_statistics(plan)
    for activity, mean_s in train.lengths_s.items():
        low, high = plan.settings.short_s if plan.partners[activity] == "short" else plan.settings.long_s
        assert low <= mean_s <= high
        # short and long ones in halves: a mean of 4.1 s and a deviation of 2.5, some 56 clips of each activity
        assert abs(test.lengths_s[activity] - 4.125) < 4.5 * 2.5 / np.sqrt(50)


tables = arrays(np.int64, (3, 4), elements=st.integers(0, 20)).filter(lambda table: table.sum() > 0)


@given(tables)
def test_information_is_the_entropies_less_the_joint_one(table: np.ndarray) -> None:
    def entropy(counts: np.ndarray) -> float:
        shares = [count / counts.sum() for count in counts.flatten() if count]
        return float(-sum(share * np.log2(share) for share in shares))

    expected = entropy(table.sum(0)) + entropy(table.sum(1)) - entropy(table)
    assert mutual_information_bits(table) == pytest.approx(expected, abs=1e-9)


@given(tables)
def test_association_is_scipy_s(table: np.ndarray) -> None:
    kept = table[table.any(1)][:, table.any(0)]
    expected = association(kept, method="cramer") if min(kept.shape) > 1 else 0.0
    assert cramers_v(table) == pytest.approx(expected, abs=1e-9)
