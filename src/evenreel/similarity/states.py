"""What a matcher keeps of captions or videos: named tuples of tensors with one row for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

State = TypeVar("State", bound="tuple[Tensor, ...]")


class Scorer(Protocol):
    """The part of a matcher that needs the pair."""

    def score(self, text: Any, video: Any) -> Tensor:
        """States of q captions and v videos -> (q, v) similarities, without the logit scale."""


def row_count(state: tuple[Tensor, ...]) -> int:
    """How many captions or videos a state describes."""
    return len(state[0])


def take_rows(state: State, rows: slice) -> State:
    """A view of some captions or videos of a state."""
    return type(state)(*(tensor[rows] for tensor in state))


def join_rows(states: Sequence[State]) -> State:
    """One state of the rows of several; the shorter ones are padded with zeros (False in a mask) to the longest.

    So a second dimension that differs between states has to be one that a mask in the state describes.
    """
    parts = [_join(tensors) for tensors in zip(*states, strict=True)]
    return type(states[0])(*parts)


def _join(tensors: Sequence[Tensor]) -> Tensor:
    if tensors[0].ndim == 1:
        return torch.cat(list(tensors))
    longest = max(tensor.shape[1] for tensor in tensors)
    return torch.cat([_padded(tensor, longest) for tensor in tensors])


def _padded(tensor: Tensor, length: int) -> Tensor:
    if tensor.shape[1] == length:
        return tensor
    room = tensor.new_zeros((tensor.shape[0], length - tensor.shape[1], *tensor.shape[2:]))
    return torch.cat([tensor, room], dim=1)
