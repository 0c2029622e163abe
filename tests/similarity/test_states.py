"""States are cut, joined and moved row by row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from evenreel.similarity.states import join_rows, move, put_rows, room_for, row_bytes, row_count, take_rows


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


def test_states_of_several_lengths_join_with_zeros_after_the_shorter() -> None:
    joined = join_rows([state(2, 2), state(1, 3)])
    assert [tensor.shape for tensor in joined] == [(3, 3, 3), (3, 3), (3, 3, 3), (3,)]
    assert joined.mask.tolist() == [[True, True, False], [True, True, False], [True, True, True]]
    assert joined.square[0].tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert joined.vectors[:, 2].sum(1).tolist() == [0, 0, 3]
    assert joined.number.tolist() == [0, 1, 0]
    assert isinstance(joined, State)


def test_rows_are_counted_cut_weighed_and_moved() -> None:
    whole = state(4, 2)
    assert row_count(whole) == 4
    assert take_rows(whole, slice(1, 3)).number.tolist() == [1, 2]
    assert row_bytes(whole) == 2 * 3 * 4 + 2 * 1 + 2 * 2 * 8 + 8
    assert move(whole, "meta").vectors.device.type == "meta"


def test_rows_are_put_into_room_made_for_the_largest() -> None:
    parts = [state(2, 2), state(1, 3)]
    room = room_for(parts[1], 3)
    put_rows(room, slice(0, 2), parts[0])
    put_rows(room, slice(2, 3), parts[1])
    for tensor, expected in zip(room, join_rows(parts), strict=True):
        torch.testing.assert_close(tensor, expected)
