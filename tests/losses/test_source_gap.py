"""The two terms against loops, their slopes, and what takes no part."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from evenreel.losses import source_hinge, source_neutral
from evenreel.losses.contrastive import Reduction


def scores(size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Real, generated, kept."""
    make = torch.Generator().manual_seed(seed)
    real, generated = (2 * torch.rand(2, size, generator=make) - 1).unbind()
    return real, generated, torch.rand(size, generator=make) < 0.6


def by_loops(costs: list[float], kept: Tensor, reduction: Reduction) -> float:
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
def test_against_loops(size: int, seed: int, margin: float, reduction: Reduction) -> None:
    real, generated, kept = scores(size, seed)
    gaps = [float(g) - float(r) for r, g in zip(real, generated, strict=True)]
    hinge = by_loops([gap + margin if gap + margin > 0 else 0.0 for gap in gaps], kept, reduction)
    assert source_hinge(real, generated, kept, margin, reduction).item() == pytest.approx(hinge, abs=1e-5)
    neutral = by_loops([gap if gap > 0 else -gap for gap in gaps], kept, reduction)
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
