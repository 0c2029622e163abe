"""States are cut, gathered and moved row by row."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from evenreel.similarity.tiles import gather_rows, mapped, move, row_bytes, row_count, take_rows, tensors_of


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


def nested(rows: int, length: int) -> Any:
    """The state of a matcher around two others, one of which is around another."""
    return state(rows, length), (state(rows, length + 1)._replace(number=torch.arange(rows) + 10),)


def test_states_of_states_are_counted_cut_weighed_and_moved() -> None:
    whole = nested(4, 2)
    assert row_count(whole) == 4
    cut = take_rows(whole, slice(1, 3))
    assert (cut[0].number.tolist(), cut[1][0].number.tolist()) == ([1, 2], [11, 12])
    assert row_bytes(whole) == row_bytes(state(1, 2)) + row_bytes(state(1, 3))
    assert {tensor.device.type for tensor in tensors_of(move(whole, "meta"))} == {"meta"}
    assert [type(part) for part in (cut, cut[0], cut[1], cut[1][0])] == [tuple, State, tuple, State]


@given(sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=4))
def test_states_of_states_are_gathered_as_each_of_them_alone(sizes: list[tuple[int, int]]) -> None:
    ends = torch.tensor([0, *(rows for rows, _ in sizes)]).cumsum(0).tolist()
    places = [slice(start, stop) for start, stop in pairwise(ends)]
    parts = [nested(*size) for size in sizes]
    whole = gather_rows(ends[-1], zip(places, parts, strict=True))
    for found, alone in ((whole[0], [part[0] for part in parts]), (whole[1][0], [part[1][0] for part in parts])):
        for one, other in zip(found, gather_rows(ends[-1], zip(places, alone, strict=True)), strict=True):
            assert torch.equal(one, other)


def test_a_state_is_mapped_as_what_it_is() -> None:
    doubled = mapped(nested(2, 1), lambda tensor: tensor + tensor)
    assert doubled[1][0].number.tolist() == [20, 22]
    assert type(doubled[0]) is State


@pytest.mark.parametrize("whole", [state(3, 2), nested(3, 2)])
def test_rows_are_views(whole: Any) -> None:
    """A tile of a large state takes no memory of its own."""
    for tensor, cut in zip(tensors_of(whole), tensors_of(take_rows(whole, slice(1, 2))), strict=True):
        assert cut.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
