"""What a matcher keeps of captions or videos: named tuples of tensors with one row for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

State = TypeVar("State", bound="tuple[Tensor, ...]")


class Scorer(Protocol):
    """The part of a matcher that needs the pair."""

    def score(self, text: Any, video: Any) -> Tensor:
        """States of q captions and v videos -> (q, v) similarities, without the logit scale."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Captions or videos as a matcher keeps them.

    Attributes:
        ids: of the rows.
        state: what the matcher's `encode_text` or `encode_video` gives, a row for each id.
    """

    ids: tuple[str, ...]
    state: Any


def row_count(state: tuple[Tensor, ...]) -> int:
    """How many captions or videos a state describes."""
    return len(state[0])


def take_rows(state: State, rows: slice) -> State:
    """A view of some captions or videos of a state."""
    return type(state)(*(tensor[rows] for tensor in state))


def row_bytes(state: tuple[Tensor, ...]) -> int:
    """Bytes of one row of a state, padding included."""
    return sum(tensor[:1].numel() * tensor.element_size() for tensor in state)


def move(state: State, device: torch.device | str) -> State:
    """The state with its tensors on another device."""
    return type(state)(*(tensor.to(device, non_blocking=True) for tensor in state))


def gather_rows(count: int, parts: Iterable[tuple[slice, tuple[Tensor, ...]]]) -> Any:
    """One state in main memory of rows that come in parts, of which no more than the one at hand is held.

    What a part leaves free is zero (False in a mask), so a dimension that differs between parts has to be one whose
    padding a mask in the state describes. Where the largest part comes first, nothing has to make room for another.

    Args:
        count: rows of the whole.
        parts: the places of some rows, and their state.

    Returns:
        A state of the parts' type; an empty tuple where there are none.
    """
    room: list[Tensor] = []
    kind: Any = tuple
    for rows, part in parts:
        kind = type(part)
        room = room or [tensor.new_zeros((count, *[0] * (tensor.dim() - 1)), device="cpu") for tensor in part]
        for number, tensor in enumerate(part):
            room[number] = _with_room(room[number], tensor.shape[1:])
            room[number][(rows, *(slice(size) for size in tensor.shape[1:]))] = tensor
    return kind(*room)


def _with_room(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    """A tensor of at least these sizes after the first, zeros after what it holds."""
    missing = [room for size, own in zip(sizes, tensor.shape[1:], strict=True) for room in (max(0, size - own), 0)]
    return F.pad(tensor, missing[::-1]) if any(missing) else tensor
