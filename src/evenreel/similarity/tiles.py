"""Scores of a matcher for all pairs, had in tiles of bounded memory; the same on a CPU and on a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from evenreel.errors import UsageError
from evenreel.similarity.states import Encoded, Scorer, move, row_bytes, take_rows
from evenreel.types import FloatArray, Scores

DEFAULT_BUDGET_BYTES = 2**30
LEAST_BUDGET_BYTES = 2**27


@runtime_checkable
class SparingScorer(Protocol):
    """A scorer that knows what a pair costs; of others it is taken to be as much as the rows of the pair."""

    def pair_bytes(self, text: Any, video: Any) -> int:
        """Most bytes that `score` of these states needs at once, divided by the number of pairs."""


class Costs(NamedTuple):
    """Bytes that a tile needs for each pair, for each caption and for each video."""

    pair: int
    caption: int
    video: int


class MatcherScores:
    """Scores of captions and videos, calculated when they are asked for; a `ScoreBlocks`.

    States may stay in the main memory while the matcher is on a GPU: they move a tile at a time.

    Args:
        scorer: a matcher, on the device where the work is to be done; it scores in evaluation mode.
        texts: Q captions, encoded by the same matcher.
        videos: V videos, likewise.
        budget_bytes: most memory that scoring takes beside the states and the scores it gives: half of it for a tile,
            half for the chunks in which a matcher works it off.

    Raises:
        UsageError: there is no caption or no video, or the budget is too small to work with.
    """

    def __init__(
        self, scorer: Scorer, texts: Encoded, videos: Encoded, budget_bytes: int = DEFAULT_BUDGET_BYTES
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
        self._scorer, self._text, self._video = scorer, texts.state, videos.state
        self._tile = tile_shape((len(texts.ids), len(videos.ids)), self._costs(), budget_bytes // 2)

    def block(self, captions: slice, videos: slice) -> FloatArray:
        """See `ScoreBlocks.block`."""
        scores = np.empty((captions.stop - captions.start, videos.stop - videos.start), np.float32)
        device = device_of(self._scorer)
        with torch.inference_mode(), evaluating(self._scorer):
            for rows in _pieces(captions, self._tile[0]):
                text = move(take_rows(self._text, rows), device)
                for columns in _pieces(videos, self._tile[1]):
                    video = move(take_rows(self._video, columns), device)
                    scores[_within(rows, captions), _within(columns, videos)] = _array(self._scorer.score(text, video))
        return scores

    def score_all(self) -> Scores:
        """The whole matrix, of 4 x Q x V bytes."""
        values = self.block(slice(0, len(self.caption_ids)), slice(0, len(self.video_ids)))
        return Scores(values, self.caption_ids, self.video_ids)

    def _costs(self) -> Costs:
        """States are there twice: moved to the matcher's device, and laid out for its chunks."""
        caption, video = 2 * row_bytes(self._text), 2 * row_bytes(self._video)
        return Costs(pair_bytes(self._scorer, self._text, self._video), caption, video)


def pair_bytes(scorer: Scorer, text: tuple[Tensor, ...], video: tuple[Tensor, ...]) -> int:
    """Bytes that a pair costs: what the scorer says, else as much as the rows of its caption and its video."""
    if isinstance(scorer, SparingScorer):
        return scorer.pair_bytes(text, video)
    return row_bytes(text) + row_bytes(video)


def tile_shape(size: tuple[int, int], costs: Costs, budget_bytes: int) -> tuple[int, int]:
    """Captions and videos of the largest tile that the budget allows, as square as the table permits.

    At least one of each, whatever the budget.

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
    """Evaluation mode for a while; afterwards each part of the module is again in the mode that it was in."""
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
    """Where a module has its parameters; the CPU for what has none."""
    parameters = scorer.parameters() if isinstance(scorer, nn.Module) else iter(())
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


def _pieces(wanted: slice, length: int) -> Iterator[slice]:
    for start in range(wanted.start, wanted.stop, length):
        yield slice(start, min(start + length, wanted.stop))


def _within(piece: slice, whole: slice) -> slice:
    return slice(piece.start - whole.start, piece.stop - whole.start)


def _array(scores: Tensor) -> FloatArray:
    return scores.float().cpu().numpy()
