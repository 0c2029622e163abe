"""States of captions or videos, as a matcher encodes them: named tuples of tensors with a row for each.

The state of a matcher that wraps several others is a tuple of their states, to any depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.arrays import slices

State = TypeVar("State", bound="tuple[Any, ...]")
RowState = TypeVar("RowState", bound="tuple[Any, ...]")
ColumnState = TypeVar("ColumnState", bound="tuple[Any, ...]")


class Scorer(Protocol):
    """Anything that scores pairs of encoded captions and videos, as every matcher does."""

    def score(self, text: Any, video: Any) -> Tensor:
        """Compute similarities (q, v) from the states of q captions and v videos, before they are scaled to logits."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Captions or videos encoded by a matcher, with their ids.

    Attributes:
        ids: ids of captions or videos, in the order of rows.
        state: what the matcher's `encode_text` or `encode_video` returned, a row for each id.
    """

    ids: tuple[str, ...]
    state: Any


def tensors_of(state: tuple[Any, ...]) -> Iterator[Tensor]:
    """Iterate over the tensors of a state, nested ones included."""
    for part in state:
        if isinstance(part, Tensor):
            yield part
        else:
            yield from tensors_of(part)


def mapped(state: State, change: Callable[[Tensor], Tensor]) -> State:
    """Apply a function to every tensor of a state, and return the changed state.

    >>> mapped((torch.ones(2), (torch.zeros(1),)), lambda tensor: tensor + 1)
    (tensor([2., 2.]), (tensor([1.]),))
    """
    parts = [change(part) if isinstance(part, Tensor) else mapped(part, change) for part in state]
    return type(state)._make(parts) if hasattr(state, "_make") else type(state)(parts)


def row_count(state: tuple[Any, ...]) -> int:
    """Return the number of captions or videos of a state."""
    return len(next(tensors_of(state)))


def take_rows(state: State, rows: slice) -> State:
    """Return a view of the captions or videos of a state that a slice of rows selects."""
    return mapped(state, lambda tensor: tensor[rows])


def chunks_of(state: State, rows: int) -> Iterator[State]:
    """Yield views of a state, `rows` captions or videos at a time, at least one."""
    return (take_rows(state, chunk) for chunk in slices(row_count(state), rows))


def joined_chunks(
    table: Callable[[RowState, ColumnState], Tensor], rows: Iterable[RowState], columns: Iterable[ColumnState]
) -> Tensor:
    """Compute a table (..., R, C) chunk by chunk, and join the chunks.

    Args:
        table: function that computes the table (..., r, c) of a chunk of r rows and one of c columns.
        rows: chunks of the states of R captions, or videos.
        columns: chunks of the states of the C others.

    >>> rows, columns = (torch.arange(3.0),), (torch.arange(2.0),)
    >>> joined_chunks(lambda row, column: row[0][:, None] - column[0], chunks_of(rows, 2), chunks_of(columns, 1))
    tensor([[ 0., -1.],
            [ 1.,  0.],
            [ 2.,  1.]])
    """
    others = list(columns)
    return torch.cat([torch.cat([table(row, column) for column in others], dim=-1) for row in rows], dim=-2)


def row_bytes(state: tuple[Any, ...]) -> int:
    """Return the bytes that one caption or video of a state takes, padding included."""
    return sum(tensor[:1].numel() * tensor.element_size() for tensor in tensors_of(state))


def move(state: State, device: torch.device | str) -> State:
    """Return a copy of a state with its tensors on another device."""
    return mapped(state, lambda tensor: tensor.to(device, non_blocking=True))


def gather_rows(count: int, parts: Iterable[tuple[slice, tuple[Any, ...]]]) -> Any:
    """Join parts of a state to one in main memory, holding no more than one part at a time.

    Dimensions that differ between parts (such as the number of words) are padded with zeros (False in a mask), so a
    mask in the state must tell what is padding. It is fastest where the largest part comes first.

    Args:
        count: number of rows of the whole state.
        parts: rows that a part fills, and its state.

    Returns:
        A state of the parts' type; an empty tuple where there are none.
    """
    room: list[Tensor] = []
    part: tuple[Any, ...] = ()
    for rows, part in parts:
        tensors = list(tensors_of(part))
        room = room or [tensor.new_zeros((count, *[0] * (tensor.dim() - 1)), device="cpu") for tensor in tensors]
        for number, tensor in enumerate(tensors):
            room[number] = _with_room(room[number], tensor.shape[1:])
            room[number][(rows, *(slice(size) for size in tensor.shape[1:]))] = tensor
    gathered = iter(room)
    return mapped(part, lambda _: next(gathered))


def _with_room(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    """A tensor of at least these sizes after the first, zeros after what it holds."""
    missing = [room for size, own in zip(sizes, tensor.shape[1:], strict=True) for room in (max(0, size - own), 0)]
    return F.pad(tensor, missing[::-1]) if any(missing) else tensor
