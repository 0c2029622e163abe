"""The bounds against loops, and against Gaussian vectors whose mutual information is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import MultivariateNormal

from evenreel.losses.contrastive import LEAST_VARIANCE, gaussian_log_likelihood, info_nce_bound

RHO = 0.8
PER_DIMENSION = -0.5 * math.log(1 - RHO**2)
"""What one of two standard normal numbers of correlation `RHO` tells of the other, in nats."""
ENTROPY = 0.5 * math.log(2 * math.pi * math.e)
"""Of a standard normal number."""


def correlated(rows: int, dimension: int, seed: int) -> tuple[Tensor, Tensor]:
    make = torch.Generator().manual_seed(seed)
    told = torch.randn(rows, dimension, generator=make, dtype=torch.float64)
    noise = torch.randn(rows, dimension, generator=make, dtype=torch.float64)
    return RHO * told + math.sqrt(1 - RHO**2) * noise, told


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 10))
def test_the_likelihood_is_that_of_torch(rows: int, dimension: int, seed: int) -> None:
    make = torch.Generator().manual_seed(seed)
    values, means = torch.randn(2, rows, dimension, generator=make, dtype=torch.float64)
    raw = torch.randn(dimension, generator=make, dtype=torch.float64)
    variances = [math.log1p(math.exp(one)) + LEAST_VARIANCE for one in raw.tolist()]
    covariance = torch.diag(torch.tensor(variances, dtype=torch.float64))
    expected = np.mean(
        [float(MultivariateNormal(mean, covariance).log_prob(row)) for row, mean in zip(values, means, strict=True)]
    )
    assert gaussian_log_likelihood(values, means, raw).item() == pytest.approx(expected / dimension, abs=1e-10)


@given(st.integers(1, 6), st.integers(0, 10))
def test_infonce_is_that_of_loops(rows: int, seed: int) -> None:
    scores = 3 * torch.randn(rows, rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    table, total = scores.tolist(), 0.0
    for i in range(rows):
        total += table[i][i] - math.log(sum(math.exp(one) for one in table[i]) / rows)
    bound = info_nce_bound(scores).item()
    assert bound == pytest.approx(total / rows, abs=1e-10)
    assert bound <= math.log(rows) + 1e-12


def test_infonce_holds_no_row_against_its_twin() -> None:
    scores = torch.randn(6, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    value, total = [0, 1, 2, 0, 1, 3], 0.0
    for i in range(6):
        columns = [j for j in range(6) if j == i or value[j] != value[i]]
        total += scores[i, i].item() - math.log(sum(math.exp(scores[i, j].item()) for j in columns) / len(columns))
    told = torch.tensor(value)
    assert info_nce_bound(scores, told[:, None] == told).item() == pytest.approx(total / 6, abs=1e-10)


def test_vid_reaches_what_is_known_and_does_not_pass_it() -> None:
    """Fitted by gradient descent, from a start that tells nothing; the entropy of the values is known here."""
    values, told = correlated(20_000, 3, 0)
    weight = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    raw = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    start = gaussian_log_likelihood(values, told @ weight, raw).item()
    optimiser = torch.optim.Adam([weight, raw], 0.05)
    for _ in range(150):
        optimiser.zero_grad()
        (-gaussian_log_likelihood(values, told @ weight, raw)).backward()
        optimiser.step()
    fresh, fresh_told = correlated(20_000, 3, 1)
    bound = ENTROPY + gaussian_log_likelihood(fresh, fresh_told @ weight, raw).item()
    assert ENTROPY + start < 0.05
    assert PER_DIMENSION - 0.02 < bound < PER_DIMENSION + 0.01  # the mean of 60,000 numbers is off by so much


def test_a_poor_guess_stays_far_below() -> None:
    values, told = correlated(5_000, 2, 0)
    one = torch.full((2,), math.log(math.e - 1), dtype=torch.float64)
    assert ENTROPY + gaussian_log_likelihood(values, -told, one).item() < 0


@pytest.mark.parametrize("batch", [16, 256])
def test_infonce_by_the_best_scores_is_near_what_is_known_and_below(batch: int) -> None:
    """The best scores are the log density of the value given what tells it, but for what all columns share."""
    bounds = []
    for seed in range(200 if batch == 16 else 40):
        values, told = correlated(batch, 1, seed)
        scores = -0.5 * (values - RHO * told.T).square() / (1 - RHO**2)
        bounds.append(info_nce_bound(scores).item())
    mean, error = np.mean(bounds), np.std(bounds) / math.sqrt(len(bounds))
    assert PER_DIMENSION - 0.05 < mean < PER_DIMENSION + 2 * error


def test_infonce_cannot_say_more_than_the_batch_has_rows() -> None:
    values, told = correlated(4, 400, 0)  # 204 nats
    scores = -0.5 * torch.cdist(values, RHO * told).square() / (1 - RHO**2)
    assert info_nce_bound(scores).item() == pytest.approx(math.log(4), abs=1e-6)
