"""States of captions or videos, as a matcher encodes them: named tuples of tensors with a row for each.

The state of a matcher that wraps several others is a tuple of their states, to any depth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.arrays import slices
from evenreel.errors import UsageError
from evenreel.types import NO_NOTES, FloatArray, ScoreNotes, Scores

State = TypeVar("State", bound="tuple[Any, ...]")
RowState = TypeVar("RowState", bound="tuple[Any, ...]")
ColumnState = TypeVar("ColumnState", bound="tuple[Any, ...]")


class Scorer(Protocol):
    """Anything that scores pairs of encoded captions and videos, as every matcher does."""

    def score(self, text: Any, video: Any) -> Tensor:
        """Compute similarities (q, v) from the states of q captions and v videos, before they are scaled to logits."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Captions or videos encoded by a matcher, with their ids."""

    ids: tuple[str, ...]  # ids of captions or videos, in the order of rows
    state: Any  # what the matcher's `encode_text` or `encode_video` returned, a row for each id


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


def take_rows(state: State, rows: slice | Tensor) -> State:
    """Return the captions or videos of a state that rows select: a view by a slice, a copy by numbers (n,)."""
    return mapped(state, lambda tensor: tensor[rows])


def chunks_of(state: State, rows: int) -> Iterator[State]:
    """Yield views of a state, `rows` captions or videos at a time, at least one."""
    return (take_rows(state, chunk) for chunk in slices(row_count(state), rows))


def joined_chunks(
    table: Callable[[RowState, ColumnState], Tensor], rows: Iterable[RowState], columns: Iterable[ColumnState]
) -> Tensor:
    """Compute a table (..., R, C) from chunks of R rows and of C columns, chunk by chunk (..., r, c), and join these.

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
    mask in the state must tell what is padding. Parts are the rows that they fill, of `count`, and their states; it is
    fastest where the largest comes first. Without any part it is an empty tuple.
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


DEFAULT_BUDGET_BYTES = 2**30
LEAST_BUDGET_BYTES = 2**27
CHUNK_BYTES = 2**26
"""Most memory that a matcher takes for a moment while it scores a tile."""
PAIR_BYTES = 16
"""What a tile takes for each pair: four tables, of chunks, of these joined, and of what is put in order."""


class Costs(NamedTuple):
    """Bytes of memory that scoring a tile needs for each pair, each caption and each video."""

    pair: int
    caption: int
    video: int


class MatcherScores:
    """Scores (Q, V) of a matcher, computed in tiles when a block of them is read; implements `ScoreBlocks`.

    States may stay in main memory while the matcher is on a GPU: they are moved a tile at a time. Where the whole table
    takes no more than a quarter of the budget, rows are kept once they are computed, since evaluation reads a table
    once in each direction; a matcher that changes afterwards needs new `MatcherScores`.

    The matcher is on the device where the work is to be done, and scores in evaluation mode; it encoded both sides.
    The budget is what scoring takes beside the states and the scores it returns: `CHUNK_BYTES` for the chunks of the
    matcher's own work, the rest for the tile and for rows that are kept. Freed memory that the system's allocator holds
    back is not counted.

    Raises:
        UsageError: there is no caption or no video, or the budget is too small to work with.
    """

    def __init__(
        self,
        scorer: Scorer,
        texts: Encoded,
        videos: Encoded,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
        about: ScoreNotes = NO_NOTES,
    ) -> None:
        if not texts.ids or not videos.ids:
            raise UsageError(
                f"There are {len(texts.ids)} captions and {len(videos.ids)} videos to score; give at least one of each."
            )
        if budget_bytes < LEAST_BUDGET_BYTES:
            raise UsageError(
                f"Scoring is given {budget_bytes:,} bytes of memory; it takes at least {LEAST_BUDGET_BYTES:,}."
            )
        self.caption_ids: Sequence[str] = texts.ids
        self.video_ids: Sequence[str] = videos.ids
        self.about = about
        self._scorer, self._text, self._video = scorer, texts.state, videos.state
        size = len(texts.ids), len(videos.ids)
        table_bytes = size[0] * size[1] * np.dtype(np.float32).itemsize
        keeps = table_bytes <= budget_bytes // 4
        # Scores that were computed, and True where a row is there.
        self._kept = (np.empty(size, np.float32), np.zeros(size[0], np.bool_)) if keeps else None
        # States are there twice: moved to the matcher's device, and laid out for its chunks.
        costs = Costs(PAIR_BYTES, 2 * row_bytes(self._text), 2 * row_bytes(self._video))
        self._tile = tile_shape(size, costs, budget_bytes - CHUNK_BYTES - keeps * table_bytes)

    def block(self, captions: slice, videos: slice) -> FloatArray:
        """Compute the scores of some captions and videos as float32 (q, v); slices past the end are cut short."""
        rows, columns = _within(captions, len(self.caption_ids)), _within(videos, len(self.video_ids))
        if self._kept is None:
            return self._scored(rows, columns)
        values, done = self._kept
        if len(places := rows.start + np.flatnonzero(~done[rows])):
            missing = slice(int(places[0]), int(places[-1]) + 1)
            values[missing], done[missing] = self._scored(missing, slice(0, len(self.video_ids))), True
        return values[rows, columns].copy()

    def score_all(self) -> Scores:
        """Compute the whole matrix of scores, which takes 4 x Q x V bytes."""
        return Scores(self.block(slice(None), slice(None)), self.caption_ids, self.video_ids, self.about)

    def _scored(self, captions: slice, videos: slice) -> FloatArray:
        scores = np.empty((captions.stop - captions.start, videos.stop - videos.start), np.float32)
        device = device_of(self._scorer)
        with torch.inference_mode(), evaluating(self._scorer):
            for rows in slices(captions.stop, self._tile[0], captions.start):
                text = move(take_rows(self._text, rows), device)
                for columns in slices(videos.stop, self._tile[1], videos.start):
                    video = move(take_rows(self._video, columns), device)
                    tile = self._scorer.score(text, video).float().cpu().numpy()
                    scores[_place(rows, captions), _place(columns, videos)] = tile
        return scores


def tile_shape(size: tuple[int, int], costs: Costs, budget_bytes: int) -> tuple[int, int]:
    """Return the number of captions and of videos of the largest tile that fits a budget of memory.

    It is as square as the table of `size` permits, and has at least one of each, whatever the budget.

    >>> tile_shape((1000, 1000), Costs(pair=100, caption=0, video=0), budget_bytes=1_000_000)
    (100, 100)
    >>> tile_shape((10, 5000), Costs(pair=100, caption=0, video=0), budget_bytes=1_000_000)
    (10, 1000)
    """
    captions, videos = size
    fixed = costs.caption + costs.video
    side = (math.sqrt(fixed**2 + 4 * costs.pair * budget_bytes) - fixed) / (2 * costs.pair)
    rows = min(captions, max(1, int(side)))
    columns = _others(rows, costs.caption, costs.video + rows * costs.pair, budget_bytes)
    if columns > videos:
        columns = videos
        rows = _others(columns, costs.video, costs.caption + columns * costs.pair, budget_bytes)
    return min(rows, captions), columns


def _others(rows: int, row_cost: int, column_cost: int, budget_bytes: int) -> int:
    return max(1, (budget_bytes - rows * row_cost) // column_cost)


@contextmanager
def evaluating(scorer: object) -> Iterator[None]:
    """Switch a module to evaluation mode for a `with` block; afterwards each submodule is back in its former mode."""
    parts = list(scorer.modules()) if isinstance(scorer, nn.Module) else []
    modes = [part.training for part in parts]
    for part in parts:
        part.training = False
    try:
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode


def device_of(scorer: object) -> torch.device:
    """Return the device of a module's parameters; the CPU for a module without any."""
    parameters = scorer.parameters() if isinstance(scorer, nn.Module) else iter(())
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


def _within(wanted: slice, count: int) -> slice:
    start, stop, step = wanted.indices(count)
    if step != 1:
        raise UsageError(f"Scores were asked for in steps of {step}; ask for a block without a step.")
    return slice(start, max(start, stop))


def _place(piece: slice, whole: slice) -> slice:
    return slice(piece.start - whole.start, piece.stop - whole.start)
