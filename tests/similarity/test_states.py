"""States are cut, gathered and moved row by row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from evenreel.similarity.states import gather_rows, move, row_bytes, row_count, take_rows


class State(NamedTuple):
    vectors: Tensor
    mask: Tensor
    square: Tensor
    number: Tensor


def state(rows: int, length: int) -> State:
    return State(
        torch.ones(rows, length, 3),
        torch.ones(rows, length, dtype=torch.bool),
        torch.ones(rows, length, length, dtype=torch.float64),
        torch.arange(rows),
    )


def test_parts_of_several_lengths_are_gathered_with_zeros_after_the_shorter() -> None:
    whole = gather_rows(3, [(slice(0, 2), state(2, 2)), (slice(2, 4), state(1, 3))])
    assert [tensor.shape for tensor in whole] == [(3, 3, 3), (3, 3), (3, 3, 3), (3,)]
    assert whole.mask.tolist() == [[True, True, False], [True, True, False], [True, True, True]]
    assert whole.square[0].tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert whole.vectors[:, 2].sum(1).tolist() == [0, 0, 3]
    assert whole.number.tolist() == [0, 1, 0]
    assert isinstance(whole, State)


def test_parts_come_in_any_order() -> None:
    parts = [(slice(0, 2), state(2, 2)), (slice(2, 3), state(1, 3)), (slice(3, 5), state(2, 1))]
    for one, other in zip(gather_rows(5, parts), gather_rows(5, reversed(parts)), strict=True):
        torch.testing.assert_close(one, other)
    assert gather_rows(0, []) == ()


def test_rows_are_counted_cut_weighed_and_moved() -> None:
    whole = state(4, 2)
    assert row_count(whole) == 4
    assert take_rows(whole, slice(1, 3)).number.tolist() == [1, 2]
    assert row_bytes(whole) == 2 * 3 * 4 + 2 * 1 + 2 * 2 * 8 + 8
    assert move(whole, "meta").vectors.device.type == "meta"
