"""InfoNCE against loops, PyTorch's own cross entropy, and what its masks mean."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from evenreel.losses import info_nce


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


def test_the_diagonal_is_always_positive() -> None:
    scores, _ = table(4, 2)
    nothing, diagonal = torch.zeros(4, 4, dtype=torch.bool), torch.eye(4, dtype=torch.bool)
    assert torch.equal(info_nce(scores, nothing), info_nce(scores, diagonal))


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
