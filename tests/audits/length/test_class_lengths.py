"""Class lengths against a dictionary of lists; those of EPIC-KITCHENS-100 are in `test_length_epic`."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.audits.length.class_lengths import class_lengths, drawn_discrepancies
from evenreel.corpus.actions import ActionLengths

Clips = list[tuple[int, float]]
CLIPS = st.lists(st.tuples(st.integers(0, 4), st.floats(1, 100) | st.just(float("nan"))), max_size=20)


def columns(clips: Clips) -> ActionLengths:
    return ActionLengths(
        np.array([c for c, _ in clips], np.int64), np.array([length for _, length in clips], np.float64)
    )


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
        ActionLengths(np.array([0, 1, 2]), np.array([10.0, 10.0, 10.0])),
        ActionLengths(np.array([0, 1, 2]), np.array([13.0, 7.0, 12.0])),
    )
    assert (found.count_above(2), found.count_above(3), found.count_above(3, or_equal=True)) == (2, 0, 2)


def test_draws_are_of_all_ways_to_choose_as_many_test_clips_of_a_class() -> None:
    """Two of four clips: each of the six choices about as often; a class of one split has no part."""
    lengths = [1.0, 2.0, 4.0, 8.0]
    train = ActionLengths(np.array([0, 0, 5, 7]), np.array([*lengths[:2], 3.0, 9.0]))
    test = ActionLengths(np.array([0, 0, 0, 5, 6]), np.array([*lengths[2:], float("nan"), 3.0, 9.0]))
    found = drawn_discrepancies(train, test, draws=6000, seed=1)
    assert found.shape == (6000, 2) and not found[:, 1].any()
    choices = [np.mean(chosen) - np.mean([*set(lengths) - set(chosen)]) for chosen in combinations(lengths, 2)]
    values, counts = np.unique(found[:, 0].round(6), return_counts=True)
    assert values.tolist() == pytest.approx(sorted(choices))
    assert np.abs(counts - 1000).max() < 4 * (6000 / 6 * 5 / 6) ** 0.5
    assert np.array_equal(found, drawn_discrepancies(train, test, draws=6000, seed=1))
