"""Correction by the queries that came before, against the functions that correct by a bank known beforehand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.adaptation.baselines import StreamNorm
from evenreel.errors import UsageError
from evenreel.evaluation.rescoring import nearest_neighbour_norm, querybank_norm
from evenreel.types import FloatArray, Scores

TOP = 3
"""What NNN looks at of the bank."""


def qb_norm(scores: FloatArray, bank: FloatArray) -> FloatArray:
    return querybank_norm(named(scores), bank).values


def nnn(scores: FloatArray, bank: FloatArray) -> FloatArray:
    return nearest_neighbour_norm(named(scores), bank, top=TOP).values


def named(values: FloatArray) -> Scores:
    return Scores(
        values, tuple(f"q{row}" for row in range(len(values))), tuple(f"v{c}" for c in range(values.shape[1]))
    )


def scores_of(rows: int, seed: int = 0) -> FloatArray:
    """With one clip that every query likes."""
    values: FloatArray = np.random.default_rng(seed).standard_normal((rows, 6))
    values[:, 0] += 1.5
    return values


@pytest.mark.parametrize(("correct", "least"), [(qb_norm, 1), (nnn, TOP)])
def test_each_batch_has_the_queries_before_it_for_its_bank(
    correct: Callable[[FloatArray, FloatArray], FloatArray], least: int
) -> None:
    scores, norm, changed = scores_of(14), StreamNorm(correct, least=least), 0
    for start, stop in ((0, 2), (2, 5), (5, 6), (6, 14)):
        bank = scores[:start]
        expected = correct(scores[start:stop], bank) if len(bank) >= least else scores[start:stop]
        found = norm(scores[start:stop])
        np.testing.assert_array_equal(found, expected)
        changed += not np.array_equal(found, scores[start:stop])
    assert changed >= 2
    assert len(norm) == 14


@given(most=st.integers(1, 9), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_the_bank_keeps_the_latest(most: int, sizes: list[int]) -> None:
    seen: list[FloatArray] = []

    def remember(scores: FloatArray, bank: FloatArray) -> FloatArray:
        seen.append(bank)
        return scores

    scores, norm, start = scores_of(sum(sizes)), StreamNorm(remember, most=most), 0
    for size in sizes:
        norm(scores[start : start + size])
        start += size
        assert len(norm) == min(start, most)
    starts = np.cumsum(sizes)[:-1]
    assert len(seen) == len(starts)
    for bank, stop in zip(seen, starts, strict=True):
        np.testing.assert_array_equal(bank, scores[max(0, stop - most) : stop])


@pytest.mark.parametrize(("least", "most"), [(0, 5), (6, 5)])
def test_a_bank_that_can_never_be_used_is_refused(least: int, most: int) -> None:
    with pytest.raises(UsageError, match=f"from {least} queries on and to hold {most}"):
        StreamNorm(qb_norm, least=least, most=most)


def test_another_gallery_is_refused() -> None:
    norm = StreamNorm(qb_norm)
    norm(scores_of(2))
    with pytest.raises(UsageError, match="scores of 6 clips and the batch of 5"):
        norm(scores_of(2)[:, :5])
