"""The terms of NeighborRetr against loops over its equations, what they are equal under, and their edges."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from evenreel.errors import UsageError
from evenreel.losses import (
    centrality_weighting,
    info_nce,
    level_divergence,
    neighbour_adjusting,
    sample_centrality,
    transport_plan,
    uniform_regularisation,
)

Rows = list[list[float]]


class Drawn(NamedTuple):
    """A table of scores, one of a coarse level, what is the same, and a number for each item."""

    scores: Tensor
    coarse: Tensor
    same: Tensor
    central: Tensor


def drawn(size: int, seed: int, *, repeated: bool = True) -> Drawn:
    make = torch.Generator().manual_seed(seed)
    scores, coarse = (2 * torch.rand(2, size, size, generator=make) - 1).unbind()
    same = torch.eye(size, dtype=torch.bool) | (torch.rand(size, size, generator=make) < 0.2 * repeated)
    return Drawn(scores, coarse, same, torch.rand(size, generator=make))


def log_shares(row: list[float], kept: list[int]) -> dict[int, float]:
    """Logarithm of a softmax over some columns."""
    total = sum(math.exp(row[column]) for column in kept)
    return {column: row[column] - math.log(total) for column in kept}


def kept_of(same: Tensor, row: int) -> list[int]:
    return [column for column in range(len(same)) if column == row or not same[row, column]]


def ranged(value: float, among: list[float]) -> float:
    low, high = min(among, default=0.0), max(among, default=0.0)
    return (value - low) / (high - low) if high > low else 0.0


def adjusting_by_loops(one: Drawn, count: int, sharpness: float) -> float:
    """Equations 5 to 8, query by query."""
    rows: Rows = one.scores.tolist()
    central: list[float] = one.central.tolist()
    total = 0.0
    for query, row in enumerate(rows):
        candidates = [item for item in kept_of(one.same, query) if item != query]
        near = sorted(candidates, key=lambda item: -row[item])[:count]
        beyond = [item for item in candidates if item not in near] or candidates
        raised = {
            item: math.exp(
                sharpness
                * (
                    ranged(row[item], [row[other] for other in beyond])
                    - ranged(central[item], [central[other] for other in beyond])
                )
            )
            for item in near
        }
        weights = {item: value / sum(raised.values()) for item, value in raised.items()} | {query: 1.0}
        logs = log_shares(row, [*near, query])
        total += -sum(weights[item] * logs[item] for item in weights) / sum(weights.values())
    return total / len(rows)


@given(size=st.integers(1, 8), seed=st.integers(0, 999), count=st.integers(1, 9), sharpness=st.sampled_from([0, 3.0]))
def test_neighbour_adjusting_against_loops(size: int, seed: int, count: int, sharpness: float) -> None:
    one = drawn(size, seed)
    found = neighbour_adjusting(one.scores.double(), one.central, one.same, count, sharpness)
    assert found.item() == pytest.approx(adjusting_by_loops(one, count, sharpness), rel=1e-3, abs=1e-5)


@given(size=st.integers(1, 8), seed=st.integers(0, 999), scale=st.sampled_from([1.0, 20.0]))
def test_centrality_weighting_against_loops(size: int, seed: int, scale: float) -> None:
    one = drawn(size, seed)
    total = 0.0
    for query, row in enumerate((scale * one.scores).tolist()):
        total -= float(one.central[query]) * log_shares(row, kept_of(one.same, query))[query]
    found = centrality_weighting(one.scores, one.same, one.central, scale)
    assert found.item() == pytest.approx(total / size, rel=1e-4, abs=1e-5)


def test_weights_of_one_are_info_nce() -> None:
    one, ones = drawn(6, 3), torch.ones(6)
    same = one.same | one.same.T
    forth = centrality_weighting(one.scores, same, ones, 5.0)
    back = centrality_weighting(one.scores.T, same, ones, 5.0)
    assert (0.5 * (forth + back)).item() == pytest.approx(info_nce(one.scores, same, 5.0).item(), rel=1e-6)


@given(size=st.integers(1, 6), others=st.integers(1, 5), seed=st.integers(0, 99))
def test_centrality_is_the_mean_cosine(size: int, others: int, seed: int) -> None:
    make = torch.Generator().manual_seed(seed)
    vectors, rest = torch.randn(size, 3, generator=make), torch.randn(others, 3, generator=make)
    for row, value in enumerate(sample_centrality(vectors, rest).tolist()):
        cosines = [float(torch.cosine_similarity(vectors[row], other, dim=0)) for other in rest]
        assert value == pytest.approx(sum(cosines) / others, abs=1e-5)


def plan_by_loops(scores: Rows, temperature: float, iterations: int) -> Rows:
    """Sinkhorn and Knopp: rows, then columns, are divided by their sums."""
    plan = [[math.exp(value / temperature) for value in row] for row in scores]
    for _ in range(iterations):
        plan = [[value / sum(row) for value in row] for row in plan]
        sums = [sum(column) for column in zip(*plan, strict=True)]
        plan = [[value / total for value, total in zip(row, sums, strict=True)] for row in plan]
    return plan


@given(size=st.integers(1, 6), seed=st.integers(0, 999), temperature=st.sampled_from([0.1, 1.0]))
def test_the_plan_and_its_loss_against_loops(size: int, seed: int, temperature: float) -> None:
    one = drawn(size, seed)
    masked = one.scores.masked_fill(one.same & ~torch.eye(size, dtype=torch.bool), float("-inf"))
    plan = transport_plan(masked, temperature, 7)
    expected = plan_by_loops(masked.tolist(), temperature, 7)
    assert plan.flatten().tolist() == pytest.approx([value for row in expected for value in row], rel=1e-3, abs=1e-5)
    total = 0.0
    for query, row in enumerate((4.0 * one.scores).tolist()):
        for item, log in log_shares(row, kept_of(one.same, query)).items():
            total -= (0.7 * expected[query][item] + 0.3 * (item == query)) * log
    found = uniform_regularisation(one.scores, one.same, plan, 0.7, 4.0)
    assert found.item() == pytest.approx(total / size, rel=1e-3, abs=1e-4)


@given(size=st.integers(1, 8), seed=st.integers(0, 999))
def test_the_plan_has_equal_shares(size: int, seed: int) -> None:
    plan = transport_plan(drawn(size, seed).scores, 0.5, 200)
    assert plan.sum(dim=0).tolist() == pytest.approx([1.0] * size, abs=1e-3)
    assert plan.sum(dim=1).tolist() == pytest.approx([1.0] * size, abs=1e-3)


@given(size=st.integers(1, 7), seed=st.integers(0, 999))
def test_level_divergence_against_loops(size: int, seed: int) -> None:
    one = drawn(size, seed)
    total = 0.0
    for query in range(size):
        kept = kept_of(one.same, query)
        coarse, fine = (log_shares(table[query].tolist(), kept) for table in (one.coarse, one.scores))
        total += sum(math.exp(fine[item]) * (fine[item] - coarse[item]) for item in kept)
    found = level_divergence(one.coarse, one.scores, one.same).item()
    assert found == pytest.approx(total / size**2, abs=1e-5)
    assert found >= -1e-6


def every_term(one: Drawn) -> dict[str, Tensor]:
    """All terms of a table, with a plan that is masked as the training masks it."""
    others = one.same & ~torch.eye(len(one.same), dtype=torch.bool)
    plan = transport_plan(one.scores.masked_fill(others, float("-inf")))
    return {
        "centrality": centrality_weighting(one.scores, one.same, one.central, 10.0),
        "neighbours": neighbour_adjusting(one.scores, one.central, one.same, 3),
        "uniform": uniform_regularisation(one.scores, one.same, plan, 0.7, 10.0),
        "levels": level_divergence(one.coarse, one.scores, one.same),
    }


@given(size=st.integers(2, 9), seed=st.integers(0, 999))
def test_the_order_of_pairs_changes_nothing(size: int, seed: int) -> None:
    one = drawn(size, seed)
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    moved = Drawn(*(table[order][:, order] for table in one[:3]), one.central[order])
    for name, value in every_term(one).items():
        assert every_term(moved)[name].item() == pytest.approx(value.item(), rel=1e-3, abs=1e-4), name


def all_alike(size: int) -> Drawn:
    """Scores of zeros, as duplicates have."""
    zeros = torch.zeros(size, size)
    return Drawn(zeros, zeros.clone(), torch.eye(size, dtype=torch.bool), torch.zeros(size))


def one_clip(size: int) -> Drawn:
    """All captions of a batch describe all its clips: nothing is left to compare with."""
    return drawn(size, 1)._replace(same=torch.ones(size, size, dtype=torch.bool))


@pytest.mark.parametrize("one", [drawn(1, 0), drawn(2, 0), drawn(5, 0), all_alike(1), all_alike(5), one_clip(4)])
def test_losses_and_gradients_are_numbers(one: Drawn) -> None:
    learned = one._replace(**{name: getattr(one, name).clone().requires_grad_() for name in ("scores", "coarse")})
    central = one.central.clone().requires_grad_()
    for name, value in every_term(learned._replace(central=central)).items():
        assert value.isfinite(), name
        grads = torch.autograd.grad(value, [learned.scores, learned.coarse, central], allow_unused=True)
        assert all(grad is None or bool(grad.isfinite().all()) for grad in grads), name


def test_a_vector_of_zeros_has_no_centrality() -> None:
    assert sample_centrality(torch.zeros(1, 3), torch.eye(3)).tolist() == [0.0]


def test_a_bad_hub_is_pushed_away_more_than_a_good_neighbour() -> None:
    """Of two neighbours as near as each other, the one that is near to everything loses more."""
    scores = torch.full((5, 5), -0.5)
    scores[0] = torch.tensor([0.9, 0.6, 0.6, 0.0, -0.2])
    scores.requires_grad_()
    central = torch.tensor([0.0, 1.0, -1.0, 0.3, 0.1])
    neighbour_adjusting(scores, central, torch.eye(5, dtype=torch.bool), neighbours=2).backward()
    assert scores.grad is not None
    assert scores.grad[0, 1] > scores.grad[0, 2]


def test_hazard_208_neighbours_that_cannot_be_are_refused() -> None:
    one = drawn(4, 0)
    with pytest.raises(UsageError, match="a query needs at least 1 neighbour"):
        neighbour_adjusting(one.scores, one.central, one.same, 0)
    with pytest.raises(UsageError, match="3 centralities for 4 items; give one each"):
        neighbour_adjusting(one.scores, one.central[:3], one.same, 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_compared_in_float32(dtype: torch.dtype) -> None:
    one = drawn(6, 2)
    low = one._replace(scores=one.scores.to(dtype))
    same = one._replace(scores=one.scores.to(dtype).float())
    for name, value in every_term(low).items():
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(every_term(same)[name].item(), rel=1e-6), name
