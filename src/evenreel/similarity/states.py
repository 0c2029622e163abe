"""What a matcher keeps of captions or videos: named tuples of tensors with one row for each of them."""

from __future__ import annotations

from collections.abc import Sequence
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


def join_rows(states: Sequence[State]) -> State:
    """One state of the rows of several; the smaller ones are padded with zeros (False in a mask) to the largest.

    So a dimension that differs between states has to be one whose padding a mask in the state describes.
    """
    parts = [_join(tensors) for tensors in zip(*states, strict=True)]
    return type(states[0])(*parts)


def room_for(state: State, count: int) -> State:
    """Zeros in main memory for `count` captions or videos, none of them larger than those of the state."""
    return type(state)(*(tensor.new_zeros((count, *tensor.shape[1:]), device="cpu") for tensor in state))


def put_rows(room: State, rows: slice, state: State) -> None:
    """Write the rows of a state into their places; what a smaller one leaves free stays zero (False in a mask)."""
    for place, tensor in zip(room, state, strict=True):
        place[(rows, *(slice(size) for size in tensor.shape[1:]))] = tensor


def _join(tensors: Sequence[Tensor]) -> Tensor:
    largest = torch.tensor([tensor.shape[1:] for tensor in tensors]).amax(0).tolist()
    return torch.cat([_padded(tensor, largest) for tensor in tensors])


def _padded(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    """A tensor with these sizes after the first, zeros after what it holds."""
    missing = [room for size, own in zip(sizes, tensor.shape[1:], strict=True) for room in (size - own, 0)]
    return F.pad(tensor, missing[::-1]) if any(missing) else tensor
