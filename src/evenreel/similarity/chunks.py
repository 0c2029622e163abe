"""Tables of scores (Q, V) whose pairs need many numbers for a moment, computed in chunks that fit a processor's cache.

Captions and videos are taken in the order of their lengths, so that a chunk can be cut to its longest row and nearly
no padding takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor


class TableSide(NamedTuple):
    """The rows (captions) or the columns (videos) of a table of scores.

    Attributes:
        state: named tuple of tensors, one row for each caption or video.
        mask: (N, L) True = real word or frame, at least one a row.
        cut: function `(state, length)` that cuts the words or frames of some rows of the state to a length.
    """

    state: tuple[Tensor, ...]
    mask: Tensor
    cut: Callable[[Any, int], Any]


def in_chunks(score: Callable[[Any, Any], Tensor], texts: TableSide, videos: TableSide) -> Tensor:
    """Compute scores (Q, V) of Q captions and V videos, chunk by chunk.

    Args:
        score: function that computes scores (q, v) from the states of q captions and v videos.
        texts: states of the captions.
        videos: states of the videos.
    """
    text_order, video_order = (lengths(side.mask).argsort(stable=True) for side in (texts, videos))
    columns = list(_chunks(videos, video_order))
    rows = [torch.cat([score(chunk, other) for other in columns], dim=1) for chunk in _chunks(texts, text_order)]
    return torch.cat(rows)[text_order.argsort()][:, video_order.argsort()]


def lengths(mask: Tensor) -> Tensor:
    """Return the length (N,) of each row of a mask (N, L): one more than the index of the last real item.

    >>> lengths(torch.tensor([[True, True, False], [True, False, True]]))
    tensor([2, 3])
    """
    places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    return (mask * places).amax(1)


def chunk_tokens(device: torch.device) -> int:
    """Return the number of words or frames of a chunk, so that products of two take 4 MiB on a CPU, 16 MiB on a GPU."""
    return 1024 if device.type == "cpu" else 2048


def _chunks(side: TableSide, order: Tensor) -> Iterator[Any]:
    in_order = lengths(side.mask)[order].tolist()
    for start, stop in _bounds(in_order, chunk_tokens(side.mask.device)):
        rows = order[start:stop]
        yield side.cut(type(side.state)(*(tensor[rows] for tensor in side.state)), in_order[stop - 1])


def _bounds(in_order: list[int], limit: int) -> Iterator[tuple[int, int]]:
    """Rows of rising lengths in stretches of at most `limit` items, padding included; one row at the least.

    >>> list(_bounds([2, 2, 3, 9], limit=6))
    [(0, 2), (2, 3), (3, 4)]
    """
    start = 0
    for stop, length in enumerate(in_order):
        if stop > start and (stop + 1 - start) * length > limit:
            yield start, stop
            start = stop
    yield start, len(in_order)
