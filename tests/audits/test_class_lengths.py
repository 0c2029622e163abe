"""Class lengths against a dictionary of lists; those of EPIC-KITCHENS-100 are in `test_length_epic`."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.audits.class_lengths import class_lengths

Clips = list[tuple[int, float]]
CLIPS = st.lists(st.tuples(st.integers(0, 4), st.floats(1, 100) | st.just(float("nan"))), max_size=20)


def columns(clips: Clips) -> tuple[np.ndarray, np.ndarray]:
    return np.array([c for c, _ in clips], np.int64), np.array([length for _, length in clips], np.float64)


def listed(clips: Clips) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for name, length in clips:
        if not np.isnan(length):
            found[name].append(length)
    return found


@given(CLIPS, CLIPS)
def test_means_of_the_classes_that_both_have(train: Clips, test: Clips) -> None:
    found, first, second = class_lengths(columns(train), columns(test)), listed(train), listed(test)
    assert found.classes.tolist() == sorted(first.keys() & second.keys())
    for place, name in enumerate(found.classes.tolist()):
        assert found.discrepancy[place] == pytest.approx(np.mean(second[name]) - np.mean(first[name]))
        assert (found.train_count[place], found.test_count[place]) == (len(first[name]), len(second[name]))


def test_a_discrepancy_counts_either_way() -> None:
    found = class_lengths(
        (np.array([0, 1, 2]), np.array([10.0, 10.0, 10.0])), (np.array([0, 1, 2]), np.array([13.0, 7.0, 12.0]))
    )
    assert (found.count_above(2), found.count_above(3), found.count_above(3, or_equal=True)) == (2, 0, 2)
