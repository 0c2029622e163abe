"""Scores of a matcher, had a tile at a time; no library of tensors is imported."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import UsageError


class Batch(Protocol):
    """What a matcher encodes at once; it knows its ids."""

    @property
    def ids(self) -> Sequence[str]:
        """Ids of its captions or videos."""


class Scorer(Protocol):
    """The part of a matcher that scores; its tensors may be of any library."""

    def encode_text(self, text: Any) -> Any:
        """All that a batch of captions needs, once."""

    def encode_video(self, video: Any) -> Any:
        """All that a batch of videos needs, once."""

    def score(self, text: Any, video: Any) -> Any:
        """(q, v) scores of two encoded batches."""


class MatcherScores:
    """Scores that a matcher gives when they are asked for; a `ScoreBlocks` made by `from_matcher`."""

    def __init__(self, matcher: Scorer, texts: Sequence[Batch], videos: Sequence[Batch]) -> None:
        self.caption_ids = [one for batch in texts for one in batch.ids]
        self.video_ids = [one for batch in videos for one in batch.ids]
        self._matcher = matcher
        self._texts = [matcher.encode_text(batch) for batch in texts]
        self._videos = [matcher.encode_video(batch) for batch in videos]
        self._text_ends = np.cumsum([0] + [len(batch.ids) for batch in texts])
        self._video_ends = np.cumsum([0] + [len(batch.ids) for batch in videos])
        # Bands of rows or columns that end inside a batch come back to its tiles: they are scored once.
        self._tile = lru_cache(maxsize=2 * max(len(texts), len(videos)))(self._score)

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """See `ScoreBlocks.block`."""
        rows, first_row = _touched(self._text_ends, captions)
        columns, first_column = _touched(self._video_ends, videos)
        tiles = np.block([[self._tile(row, column) for column in columns] for row in rows])
        return np.asarray(
            tiles[captions.start - first_row : captions.stop - first_row][
                :, videos.start - first_column : videos.stop - first_column
            ]
        )

    def _score(self, row: int, column: int) -> NDArray[Any]:
        values = self._matcher.score(self._texts[row], self._videos[column])
        if hasattr(values, "detach"):
            values = values.detach().cpu().numpy()
        return np.asarray(values)


def from_matcher(matcher: Scorer, texts: Sequence[Batch], videos: Sequence[Batch]) -> MatcherScores:
    """Scores of every caption and video of some batches: each is encoded once, now; pairs are scored in tiles later.

    Args:
        matcher: with `encode_text`, `encode_video` and `score`; tensors of torch are taken to numpy by their methods.
        texts: batches of captions, each with `ids`.
        videos: batches of videos, likewise. The tiles of about two rows or columns of batches are kept in memory.

    Raises:
        UsageError: there is no batch.
    """
    if not texts or not videos:
        raise UsageError("There is no batch of captions or no batch of videos; a matcher scores at least one of each.")
    return MatcherScores(matcher, texts, videos)


def _touched(ends: NDArray[np.int64], wanted: slice) -> tuple[range, int]:
    """Numbers of the batches that hold the wanted rows, and the first row of the first of them."""
    first = int(np.searchsorted(ends, wanted.start, side="right")) - 1
    last = int(np.searchsorted(ends, wanted.stop, side="left"))
    return range(first, last), int(ends[first])
