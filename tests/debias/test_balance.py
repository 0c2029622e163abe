"""Weights take from a class what it says of the stratum, and nothing else; they equal the adjustment written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.debias.balance import balanced_weights, shared_information

PLACES = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 3)), min_size=1, max_size=60)


def slow_weights(strata: list[int], classes: list[int]) -> list[float]:
    """P(L) / P(L | c), brought to a class's number of clips: counted pair by pair, nothing cut."""
    some = [(stratum, one) for stratum, one in zip(strata, classes, strict=True) if one >= 0]
    raw = []
    for stratum, one in zip(strata, classes, strict=True):
        if one < 0:
            raw.append(1.0)
            continue
        of_class = [other for other, name in some if name == one]
        overall = sum(other == stratum for other, _ in some) / len(some)
        raw.append(overall / (sum(other == stratum for other in of_class) / len(of_class)))
    totals = {one: sum(w for w, name in zip(raw, classes, strict=True) if name == one) for one in set(classes)}
    return [
        w if one < 0 else w * sum(name == one for name in classes) / totals[one]
        for w, one in zip(raw, classes, strict=True)
    ]


@given(PLACES)
def test_weights_are_the_adjustment_written_out(places: list[tuple[int, int]]) -> None:
    strata, classes = (np.array(column) for column in zip(*places, strict=True))
    found = balanced_weights(strata, classes, most=1e9)
    assert found == pytest.approx(slow_weights(strata.tolist(), classes.tolist()))


@given(PLACES, st.floats(1, 20))
def test_no_class_becomes_more_frequent_and_the_mean_is_one(places: list[tuple[int, int]], most: float) -> None:
    strata, classes = (np.array(column) for column in zip(*places, strict=True))
    found = balanced_weights(strata, classes, most)
    assert (found > 0).all()
    assert found.mean() == pytest.approx(1)
    for one in set(classes.tolist()):
        assert found[classes == one].sum() == pytest.approx(np.count_nonzero(classes == one))


@given(st.integers(0, 100))
def test_classes_with_clips_in_all_strata_hold_no_information_on_them(seed: int) -> None:
    generator = np.random.default_rng(seed)
    classes = generator.integers(0, 4, 300)
    strata = (generator.random(300) < 0.1 + 0.2 * classes).astype(int)
    strata, classes = np.append(strata, [0, 1] * 4), np.append(classes, np.repeat(np.arange(4), 2))  # none is missing
    before, after = (
        shared_information(strata, classes, one)
        for one in (np.ones(len(strata)), balanced_weights(strata, classes, most=1e9))
    )
    assert before > 0.01
    assert after == pytest.approx(0, abs=1e-9)


def test_a_weight_is_cut_and_its_class_keeps_its_sum() -> None:
    """100 clips of a class, one of them long, among as many long clips as short ones: it would weigh 50."""
    strata = np.array([0] * 99 + [1] + [0] * 1 + [1] * 99)
    classes = np.array([0] * 100 + [1] * 100)
    assert balanced_weights(strata, classes, most=1e9)[99] == pytest.approx(50)
    cut = balanced_weights(strata, classes, most=5)
    raw = np.array([0.5 / 0.99] * 99 + [5.0])  # by hand: 50 is cut to 5, then all are brought to a sum of 100
    assert cut[:100] == pytest.approx(raw * 100 / raw.sum())
