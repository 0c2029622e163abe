"""What can be said of a ranking without labels, and whether a stream differs from the source."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy, kstest, ttest_ind
from scipy.stats import f as fisher

from evenreel.adaptation.safety import MeanShift, Quality, compared, drift_of, mean_shift, quality


@given(st.integers(0, 10_000), st.integers(2, 7), st.integers(2, 6))
def test_quality_is_that_of_slow_loops(seed: int, queries: int, clips: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(queries, clips)).round(1)
    found = quality(scores, scale=3.0, rows=slice(1, None))
    for place, row in enumerate(range(1, queries)):
        first = int(np.flatnonzero(scores[row] == scores[row].max())[0])
        above = sum(scores[other, first] > scores[row, first] for other in range(queries))
        level = sum(scores[other, first] == scores[row, first] for other in range(queries))
        assert found.agreement[place] == pytest.approx(1 / (above + (level + 1) / 2))
        alike = [other for other in range(1, queries) if scores[other].argmax() == first]
        assert found.coverage[place] == pytest.approx(1 / len(alike))
        weights = np.exp(3.0 * scores[row])
        assert found.entropy[place] == pytest.approx(entropy(weights / weights.sum()))


def test_a_model_is_better_when_agreement_rises_and_nothing_falls() -> None:
    rng = np.random.default_rng(0)
    old = Quality(rng.uniform(0.1, 0.3, 50), rng.uniform(0.4, 0.6, 50), rng.uniform(2, 3, 50))
    risen = Quality(old.agreement + 0.2 + rng.normal(0, 0.01, 50), old.coverage, old.entropy)
    assert compared(risen, old, 0.95).better
    assert not compared(old, old, 0.95).better
    crowded = Quality(risen.agreement, old.coverage - 0.2, old.entropy)
    assert not compared(crowded, old, 0.95).better
    undecided = Quality(risen.agreement, old.coverage, old.entropy + 1.0)
    assert not compared(undecided, old, 0.95).better


def test_along_one_axis_a_shift_is_judged_as_by_the_t_test() -> None:
    rng = np.random.default_rng(3)
    source, stream = rng.normal(0, 1, (60, 1)), rng.normal(0.4, 1, (40, 1))
    moments = torch.from_numpy(source.mean(0)), torch.from_numpy(np.atleast_2d(np.cov(source.T)))
    found = mean_shift(torch.from_numpy(stream), 60, *moments)
    assert found.p == pytest.approx(ttest_ind(source[:, 0], stream[:, 0]).pvalue, rel=1e-6)
    assert found.distance == pytest.approx(abs(stream.mean() - source.mean()) / source.std(ddof=1))


def test_along_all_axes_it_is_hotellings_two_sample_test() -> None:
    """T^2 in the coordinates as they are, where turning and scaling change nothing; the stream's spread is another."""
    rng = np.random.default_rng(4)
    turned = rng.normal(size=(3, 3))
    source, stream = rng.normal(size=(50, 3)) @ turned, rng.normal(0.3, 2.0, size=(30, 3)) @ turned
    found = mean_shift(
        torch.from_numpy(stream), 50, torch.from_numpy(source.mean(0)), torch.from_numpy(np.cov(source.T))
    )
    away, pooled = stream.mean(0) - source.mean(0), (49 * np.cov(source.T) + 29 * np.cov(stream.T)) / 78
    squared = away @ np.linalg.inv(pooled) @ away / (1 / 50 + 1 / 30)
    assert found.p == pytest.approx(fisher.sf(squared * (80 - 3 - 1) / (3 * 78), 3, 76))
    assert found.distance == pytest.approx(np.sqrt(away @ np.linalg.inv(np.cov(source.T)) @ away))


def test_equal_means_are_told_apart_as_often_as_the_confidence_says() -> None:
    rng, p = np.random.default_rng(1), []
    for _ in range(200):
        source, stream = (torch.from_numpy(rng.normal(size=(200, 6))) for _ in range(2))
        found = mean_shift(stream, 200, source.mean(0), torch.cov(source.T))
        p.append(found.p)
    assert kstest(p, "uniform").pvalue > 0.01
    alike, apart = MeanShift(0.0, 0.5), MeanShift(1.0, 0.049)  # two tests: each has half of the error
    assert drift_of(alike, apart, 0.9).found and drift_of(apart, alike, 0.9).found
    assert not drift_of(alike, apart, 0.95).found
    assert mean_shift(stream + 1.0, 200, source.mean(0), torch.cov(source.T)).p < 1e-6


def test_a_stream_like_the_source_is_left_alone_however_often_it_is_asked() -> None:
    """At the n-th time p is below a number with the chance of that number: all of these chances are the error."""
    apart = MeanShift(1.0, 0.0)
    limits = []
    for asked in range(1, 2000):
        assert drift_of(apart, apart, 0.9, asked).found
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            found = drift_of(MeanShift(1.0, middle), MeanShift(1.0, 1.0), 0.9, asked).found
            low, high = (middle, high) if found else (low, middle)
        limits.append(low)
    assert 2 * sum(limits) == pytest.approx(0.1, rel=1e-3) and 2 * sum(limits) < 0.1


def test_a_few_queries_are_sure_of_nothing() -> None:
    for count, better in ((2, False), (9, False), (10, True)):
        old = Quality(np.full(count, 0.5), np.ones(count), np.ones(count))
        new = Quality(np.full(count, 1.0), np.ones(count), np.ones(count))
        assert compared(new, old, 0.95).better is better
