"""Strata hold every clip once, in the order of lengths, and are those of the published algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import Imported, select
from evenreel.corpus.actions import clip_lengths
from evenreel.debias.frame_length import adjusted_strata, equal_strata, strata_at
from evenreel.errors import UsageError

LENGTHS = st.lists(st.integers(1, 9), min_size=8, max_size=40).map(lambda values: np.array(values, np.float64))


def printed(order: list[int], count: int, fraction: float) -> list[list[int]]:
    """Algorithm 2 as it is printed, on a sorted list."""
    out, rest = [], order
    while count > 2:
        half = len(rest) // 2
        out.append(rest[:half])
        rest = rest[half:]
        count -= 1
    return [*out, rest[: int(fraction * len(rest))], rest[int(fraction * len(rest)) :]]


@given(LENGTHS, st.integers(2, 4), st.sampled_from([0.5, 0.748]))
def test_adjusted_strata_are_those_of_the_printed_algorithm(lengths: np.ndarray, count: int, fraction: float) -> None:
    order = sorted(range(len(lengths)), key=lambda row: (lengths[row], row))
    expected = printed(order, count, fraction)
    if not all(expected):
        with pytest.raises(UsageError, match="would be empty"):
            adjusted_strata(lengths, count, fraction)
        return
    assert [stratum.tolist() for stratum in adjusted_strata(lengths, count, fraction)] == expected


@given(LENGTHS, st.integers(1, 8))
def test_equal_strata_hold_every_clip_once_from_short_to_long(lengths: np.ndarray, count: int) -> None:
    strata = equal_strata(lengths, count)
    assert sorted(row for stratum in strata for row in stratum.tolist()) == list(range(len(lengths)))
    assert max(map(len, strata)) - min(map(len, strata)) <= 1
    ordered = lengths[np.concatenate(strata)]
    assert (np.diff(ordered) >= 0).all()


@given(LENGTHS, st.integers(1, 9))
def test_a_threshold_parts_the_shorter_clips_from_the_others(lengths: np.ndarray, threshold: int) -> None:
    short = {row for row, length in enumerate(lengths) if length < threshold}
    if not 0 < len(short) < len(lengths):
        with pytest.raises(UsageError, match="would be empty"):
            strata_at(lengths, [threshold])
        return
    first, second = strata_at(lengths, [threshold])
    assert set(first.tolist()) == short
    assert set(second.tolist()) == set(range(len(lengths))) - short


def test_a_share_is_of_whole_clips_whatever_floats_make_of_it() -> None:
    """0.29 of 100 is 28.999999999999996 in floats."""
    assert [len(stratum) for stratum in adjusted_strata(np.arange(100.0), 2, 0.29)] == [29, 71]


def test_long_clips_may_come_first() -> None:
    first, second = adjusted_strata(np.array([1.0, 2.0, 3.0, 4.0]), 2, 0.5, longest_first=True)
    assert (first.tolist(), second.tolist()) == ([3, 2], [1, 0])


def test_one_stratum_keeps_every_clip() -> None:
    assert adjusted_strata(np.arange(5.0), 1, 0.5)[0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("divide", "sentence"),
    [
        (lambda: equal_strata(np.arange(2.0), 3), "2 clips cannot be divided into 3 strata"),
        (lambda: adjusted_strata(np.arange(9.0), 2, 1.0), "between 0 and 1"),
        (lambda: strata_at(np.arange(9.0), [3.0, 3.0]), "each is more than the one before"),
        (lambda: equal_strata(np.array([1.0, np.nan]), 2), "1 of 2 clips is not known"),
    ],
)
def test_wrong_divisions_get_a_sentence(divide: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        divide()  # type: ignore[operator]


def test_the_published_strata_of_epic_kitchens(epic_kitchens: Imported) -> None:
    """The paper's first split holds 50,282 of 67,217 clips, a fraction of 0.748; they have up to 172 frames."""
    lengths, _ = clip_lengths(select(epic_kitchens.corpus, split="train"))
    first, second = adjusted_strata(lengths, 2, 50_282.5 / 67_217)
    assert (len(first), len(second)) == (50_282, 16_935)
    assert lengths[first].max() == pytest.approx(171.7, abs=0.1)
    below_the_mean, _ = strata_at(lengths, [lengths.mean()])
    assert len(below_the_mean) == 50_393
