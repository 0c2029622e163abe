"""Selection, balance and aggregation of scene elements against loops, and the cases that can be worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from evenreel.matchers.bima import Selected, aggregate, balance, select


def unit(*shape: int, seed: int = 0) -> Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double(), dim=-1)


def chosen(entities: Tensor, activities: Tensor) -> Selected:
    none = torch.zeros(entities.shape[:2], dtype=torch.int64)
    return Selected(entities, activities, none, none)


def cosine(one: Tensor, other: Tensor) -> float:
    return float(one @ other) / math.sqrt(float(one @ one) * float(other @ other))


def slow_nearest(seen: Tensor, phrases: Tensor, count: int) -> list[int]:
    scores = [(-cosine(seen, phrase), place) for place, phrase in enumerate(phrases)]
    return [place for _, place in sorted(scores)[:count]]


@given(
    videos=st.integers(1, 4),
    entities=st.integers(0, 6),
    activities=st.integers(1, 6),
    kappa=st.integers(1, 7),
    seed=st.integers(0, 99),
)
def test_the_nearest_phrases_in_order(videos: int, entities: int, activities: int, kappa: int, seed: int) -> None:
    seen = 3 * unit(videos, 5, seed=seed)
    phrases = unit(entities, 5, seed=seed + 1), unit(activities, 5, seed=seed + 2)
    count = min([kappa, activities, *([entities] if entities else [])])
    found = select(seen, *phrases, kappa)
    for row in range(videos):
        for table, places, vectors in zip(phrases, found[2:], found[:2], strict=True):
            expected = slow_nearest(seen[row], table, count)
            assert places[row].tolist() == expected
            assert torch.equal(vectors[row], table[expected])


def test_equal_phrases_stand_in_the_order_of_the_dictionary() -> None:
    up, right = torch.eye(2)
    assert select(up[None], torch.stack([right, up, up, up]), up[None].expand(4, 2), 3).entity_places.tolist() == [
        [1, 2, 3]
    ]


def test_nothing_learns_through_selection_and_autocast_leaves_it_alone() -> None:
    seen = unit(3, 8).float().requires_grad_()
    tables = unit(50, 8, seed=1).float(), unit(40, 8, seed=2).float()
    plain = select(seen, *tables, 5)
    assert not plain.entities.requires_grad
    with torch.autocast("cpu", torch.bfloat16):
        for one, other in zip(select(seen, *tables, 5), plain, strict=True):
            assert torch.equal(one, other)


@given(seed=st.integers(0, 999), kappa=st.integers(1, 5))
def test_balance_as_equation_4_says(seed: int, kappa: int) -> None:
    entities, activities = 2 * unit(3, kappa, 4, seed=seed), unit(3, kappa, 4, seed=seed + 1)
    found = balance(entities, activities)
    for row in range(3):
        best = [max(cosine(one, other) for other in entities[row]) for one in activities[row]]
        assert found[row].item() == pytest.approx(1 - sum(best) / kappa, abs=1e-12)
        assert -1e-12 <= found[row] <= 2 + 1e-12


def test_like_elements_count_once_unlike_ones_twice_opposite_ones_for_nothing() -> None:
    """The hand-worked cases: g of 0, 1 and 2."""
    same = torch.eye(4).double()[None, :2]
    across = torch.eye(4).double()[None, 2:]
    opposite = -same[:, :1]
    for entities, activities, g in ((same, same, 0.0), (across, same, 1.0), (opposite, same[:, :1], 2.0)):
        assert balance(entities, activities).tolist() == [g]
        torch.testing.assert_close(aggregate(chosen(entities, activities)), activities + g * entities)


def test_elements_of_one_kind_and_with_a_fixed_weight() -> None:
    entities, activities = unit(2, 3, 4), unit(2, 3, 4, seed=1)
    none = entities[:, :0]
    assert torch.equal(aggregate(chosen(entities, none)), entities)
    assert torch.equal(aggregate(chosen(none, activities)), activities)
    for g in (0.0, 0.5, 1.0):
        torch.testing.assert_close(aggregate(chosen(entities, activities), g), activities + g * entities)
