"""InfoNCE against loops, PyTorch's own cross entropy, and what its masks mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import MultivariateNormal
from torch.nn import functional as F

from evenreel.losses import info_nce, source_hinge, source_neutral
from evenreel.losses.contrastive import LEAST_VARIANCE, Reduction, gaussian_log_likelihood, info_nce_bound


def by_loops(scores: Tensor, same: Tensor, scale: float) -> float:
    """Each caption against the videos that it does not describe, then each video, one exponential at a time."""
    size, total = len(scores), 0.0
    for i in range(size):
        videos = [j for j in range(size) if j == i or not same[i, j]]
        captions = [j for j in range(size) if j == i or not same[j, i]]
        own = scale * float(scores[i, i])
        total -= own - math.log(sum(math.exp(scale * float(scores[i, j])) for j in videos))
        total -= own - math.log(sum(math.exp(scale * float(scores[j, i])) for j in captions))
    return total / (2 * size)


def table(size: int, seed: int) -> tuple[Tensor, Tensor]:
    make = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(size, size, generator=make) - 1, torch.rand(size, size, generator=make) < 0.3


@given(size=st.integers(1, 7), seed=st.integers(0, 999), scale=st.sampled_from([1.0, 5.0, 20.0]))
def test_against_loops(size: int, seed: int, scale: float) -> None:
    scores, same = table(size, seed)
    assert info_nce(scores, same, scale).item() == pytest.approx(by_loops(scores, same, scale), abs=1e-4)


def test_without_masks_it_is_the_mean_of_two_cross_entropies() -> None:
    scores, _ = table(6, 1)
    target = torch.arange(6)
    expected = 0.5 * (F.cross_entropy(10 * scores, target) + F.cross_entropy(10 * scores.T, target))
    assert torch.equal(info_nce(scores, torch.eye(6, dtype=torch.bool), 10.0), expected)


def test_the_mask_is_read_by_row_and_column() -> None:
    """Caption 0 describes video 1 too: that pair is no negative of either, the pair (1, 0) still is."""
    scores, _ = table(2, 3)
    same = torch.tensor([[True, True], [False, True]])
    loss = info_nce(scores, same).item()
    left = math.log(1 + math.exp(float(scores[1, 0] - scores[1, 1])))  # caption 1 against videos
    right = math.log(1 + math.exp(float(scores[1, 0] - scores[0, 0])))  # video 0 against captions
    assert loss == pytest.approx((left + right) / 4, abs=1e-6)


def test_masked_pairs_get_no_gradient_and_the_others_that_of_the_formula() -> None:
    scores, same = table(5, 4)
    scores = scores.double().requires_grad_()
    scale = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    info_nce(scores, same, scale).backward()
    assert scores.grad is not None
    assert scale.grad is not None
    step = 1e-3
    for i in range(5):
        for j in range(5):
            up, down = scores.detach().clone(), scores.detach().clone()
            up[i, j] += step
            down[i, j] -= step
            slope = (by_loops(up, same, 3.0) - by_loops(down, same, 3.0)) / (2 * step)
            assert float(scores.grad[i, j]) == pytest.approx(slope, abs=1e-5)
            if same[i, j] and i != j:
                assert scores.grad[i, j] == 0
    slope = (by_loops(scores.detach(), same, 3.0 + step) - by_loops(scores.detach(), same, 3.0 - step)) / (2 * step)
    assert float(scale.grad) == pytest.approx(slope, abs=1e-5)


def test_permuted_pairs_have_the_same_loss() -> None:
    scores, same = table(6, 5)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    mixed = info_nce(scores[order][:, order], same[order][:, order], 7.0)
    torch.testing.assert_close(mixed, info_nce(scores, same, 7.0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_scores_are_summed_in_float32(dtype: torch.dtype) -> None:
    scores, same = table(8, 6)
    low = info_nce(scores.to(dtype), same, 100.0)
    assert low.dtype == torch.float32
    assert torch.equal(low, info_nce(scores.to(dtype).float(), same, 100.0))


def test_a_large_scale_does_not_overflow() -> None:
    scores, same = table(4, 7)
    assert info_nce(scores, same, 1e4).isfinite()


def test_the_inputs_are_left_alone() -> None:
    scores, same = table(4, 8)
    before = same.clone()
    info_nce(scores, same)
    assert torch.equal(same, before)


# The bounds against loops, and against Gaussian vectors whose mutual information is known


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


# The two terms against loops, their slopes, and what takes no part


def scores(size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Real, generated, kept."""
    make = torch.Generator().manual_seed(seed)
    real, generated = (2 * torch.rand(2, size, generator=make) - 1).unbind()
    return real, generated, torch.rand(size, generator=make) < 0.6


def by_loops_of_source_gap(costs: list[float], kept: Tensor, reduction: Reduction) -> float:
    total, count = 0.0, 0
    for cost, takes_part in zip(costs, kept.tolist(), strict=True):
        if takes_part:
            total, count = total + cost, count + 1
    return total if reduction == "sum" or count == 0 else total / count


@given(
    size=st.integers(1, 9),
    seed=st.integers(0, 999),
    margin=st.sampled_from([0.0, 0.3]),
    reduction=st.sampled_from(["sum", "mean"]),
)
def test_against_loops_of_source_gap(size: int, seed: int, margin: float, reduction: Reduction) -> None:
    real, generated, kept = scores(size, seed)
    gaps = [float(g) - float(r) for r, g in zip(real, generated, strict=True)]
    hinge = by_loops_of_source_gap([gap + margin if gap + margin > 0 else 0.0 for gap in gaps], kept, reduction)
    assert source_hinge(real, generated, kept, margin, reduction).item() == pytest.approx(hinge, abs=1e-5)
    neutral = by_loops_of_source_gap([gap if gap > 0 else -gap for gap in gaps], kept, reduction)
    assert source_neutral(real, generated, kept, reduction).item() == pytest.approx(neutral, abs=1e-5)


@given(size=st.integers(1, 9), seed=st.integers(0, 999))
def test_the_neutral_term_does_not_know_which_is_which(size: int, seed: int) -> None:
    real, generated, kept = scores(size, seed)
    assert torch.equal(source_neutral(real, generated, kept), source_neutral(generated, real, kept))


def test_the_hinge_asks_nothing_where_real_videos_lead() -> None:
    generated = torch.tensor([0.1, -0.4, 0.0], requires_grad=True)
    real = torch.tensor([0.2, 0.9, 0.0])
    cost = source_hinge(real, generated, torch.ones(3, dtype=torch.bool))
    cost.backward()
    assert cost == 0
    assert generated.grad is not None
    assert generated.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize(("term", "leads", "follows"), [(source_hinge, 1.0, 0.0), (source_neutral, 1.0, -1.0)])
def test_slopes(term: object, leads: float, follows: float) -> None:
    """By the score of a generated video that leads, follows, is equal, and takes no part."""
    real = torch.tensor([0.1, 0.8, 0.5, 0.1], requires_grad=True)
    generated = torch.tensor([0.9, 0.2, 0.5, 0.9], requires_grad=True)
    kept = torch.tensor([True, True, True, False])
    assert callable(term)
    term(real, generated, kept, reduction="sum").backward()
    assert real.grad is not None
    assert generated.grad is not None
    assert generated.grad.tolist() == [leads, follows, 0, 0]
    assert real.grad.tolist() == [-leads, -follows, 0, 0]


@pytest.mark.parametrize("term", [source_hinge, source_neutral])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_nothing_kept_costs_nothing(term: object, reduction: Reduction) -> None:
    real, generated, _ = scores(4, 0)
    assert callable(term)
    assert term(real, generated, torch.zeros(4, dtype=torch.bool), reduction=reduction) == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_scores_are_compared_in_float32(dtype: torch.dtype) -> None:
    real, generated, kept = scores(8, 1)
    low = source_neutral(real.to(dtype), generated.to(dtype), kept)
    assert low.dtype == torch.float32
    assert torch.equal(low, source_neutral(real.to(dtype).float(), generated.to(dtype).float(), kept))
