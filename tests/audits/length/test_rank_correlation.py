"""Rank correlations against scipy and regressions of ranks; samples against columns that are drawn by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from evenreel.audits.length.rank_correlation import rank_correlation
from evenreel.audits.settings import AuditSettings

QUIET = AuditSettings(resamples=0)


def columns(seed: int, count: int, size: int = 60) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.integers(0, 12, size) + generator.integers(0, 2, size) * 0.5 for _ in range(count)]


def slow(one: np.ndarray, other: np.ndarray, *given_: np.ndarray) -> float:
    """The correlation of what regressions of the ranks leave."""
    design = np.stack([np.ones(len(one)), *map(rankdata, given_)], axis=1)
    left = [rankdata(x) - design @ np.linalg.lstsq(design, rankdata(x), rcond=None)[0] for x in (one, other)]
    return float(np.corrcoef(*left)[0, 1])


@given(st.integers(0, 10**6), st.integers(0, 3))
def test_it_is_the_correlation_of_what_regressions_of_ranks_leave(seed: int, more: int) -> None:
    found = columns(seed, 2 + more)
    value = rank_correlation(found, np.arange(60), QUIET, "r").value
    assert value == pytest.approx(slow(*found), abs=1e-9)
    if not more:
        assert value == pytest.approx(spearmanr(*found).statistic, abs=1e-12)


def test_a_column_that_is_told_by_the_others_has_no_correlation() -> None:
    one, other = columns(0, 2)
    groups = np.arange(60)
    for told in ([one, other, one], [np.ones(60), other], [one[:0], other[:0]]):
        assert np.isnan(rank_correlation(told, groups[: len(told[0])], AuditSettings(resamples=20), "r").value)
    twice = rank_correlation([one, other, one * 0 + 1, one * 0], groups, QUIET, "r").value
    assert twice == pytest.approx(spearmanr(one, other).statistic)


def test_a_sample_counts_a_drawn_row_as_often_as_it_is_drawn() -> None:
    """The interval is of the correlations of the rows that a sample repeats, calculated anew."""
    one, other, held = columns(3, 3)
    groups = np.repeat(np.arange(12), 5)
    how = AuditSettings(resamples=40, seed=5, confidence=0.9)
    found = rank_correlation([one, other, held], groups, how, "r")
    picks = np.random.default_rng(5).integers(0, 12, size=(40, 12))
    drawn = []
    for pick in picks:
        rows = np.concatenate([np.flatnonzero(groups == group) for group in pick])
        drawn.append(slow(one[rows], other[rows], held[rows]))
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.05, 0.95]).tolist())
    below, above = np.sum(np.array(drawn) <= 0), np.sum(np.array(drawn) >= 0)
    assert found.p_value == pytest.approx(min(1, 2 * (1 + min(below, above)) / 41))
