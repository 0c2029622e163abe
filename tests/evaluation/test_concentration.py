"""How matches are shared out, by hand, by scipy, and against a mean over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evenreel.errors import UsageError
from evenreel.evaluation.concentration import HUBS, balance, gini, skewness

COUNTS = st.lists(st.integers(0, 20), min_size=1, max_size=12).map(np.array)


def test_five_queries_by_hand() -> None:
    """Video 1 has three queries, video 3 one, and one query has none: counts 0, 3, 0, 1.

    Gini: the mean difference of two of the four is (3 + 0 + 1 + 3 + 2 + 1) x 2 / 16 = 1.25, over twice the mean 1.
    """
    found = balance(np.array([1, 1, 3, -1, 1]), 4)
    assert (found.queries, found.videos, found.matched, found.coverage) == (5, 4, 4, 0.5)
    assert found.hubs == ((1, 3), (3, 1))
    assert found.gini == pytest.approx(0.625)
    assert found.skewness == pytest.approx(((-1) ** 3 * 2 + 2**3 + 0) / 4 / ((1 + 1 + 4 + 0) / 4) ** 1.5)


def test_nothing_matched_and_every_video_matched() -> None:
    none = balance(np.array([-1, -1]), 3)
    assert (none.matched, none.coverage, none.hubs) == (0, 0.0, ())
    assert np.isnan(none.gini) and np.isnan(none.skewness)
    every = balance(np.arange(30), 30)
    assert (every.coverage, every.gini, len(every.hubs)) == (1.0, pytest.approx(0), HUBS)
    assert every.hubs[0] == (0, 1)
    assert balance(np.empty(0, np.int64), 2).queries == 0


@given(COUNTS)
def test_gini_is_half_the_relative_mean_difference(counts: np.ndarray) -> None:
    if not counts.sum():
        assert np.isnan(gini(counts))
        return
    differences = np.abs(counts[:, None] - counts).mean()
    assert gini(counts) == pytest.approx(differences / (2 * counts.mean()), abs=1e-12)


@given(COUNTS, st.integers(1, 9))
def test_skewness_is_that_of_scipy_and_has_no_scale(counts: np.ndarray, scale: int) -> None:
    if np.ptp(counts) == 0:
        assert np.isnan(skewness(counts / 3))
        return
    assert skewness(counts) == pytest.approx(stats.skew(counts), abs=1e-9)
    assert skewness(counts / scale) == pytest.approx(skewness(counts), abs=1e-9)


def test_counts_that_differ_by_rounding_have_no_skewness() -> None:
    assert np.isnan(skewness(np.array([0.1 + 0.2, 0.3, 0.3])))


@pytest.mark.parametrize(
    ("matches", "videos", "said"),
    [
        (np.array([0, 3]), 3, "matched to video 3; they are numbered from 0 to 2"),
        (np.array([-2]), 3, "matched to video -2"),
        (np.array([0]), 0, "There are 0 videos"),
        (np.array([0.5]), 3, "float64"),
    ],
)
def test_matches_that_are_none(matches: np.ndarray, videos: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        balance(matches, videos)
