"""Types of arrays that are columns of a table or rows of a matrix, and reading of rows a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.types import ScoreBlocks

Column = NDArray[np.float64]
"""(N,) A number for each of N things."""

Indices = NDArray[np.int64]
"""(N,) Whole numbers: rows of a table or matrix, or counts."""

Flags = NDArray[np.bool_]
"""(N,) True or False for each of N things."""

SCORE_BYTES = 8
"""Most bytes of a score, for planning memory."""

CACHED_BYTES = 8 * 2**20
"""Bytes of scores that are read several times over: so many stay in a processor's cache."""


def slices(stop: int, most: int, start: int = 0) -> Iterator[slice]:
    """Split the rows from `start` to `stop` into slices of at most `most` rows, and of one at the least.

    >>> list(slices(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, most)
    for first in range(start, stop, step):
        yield slice(first, min(first + step, stop))


def row_bands(
    scores: ScoreBlocks, band_bytes: int, wanted: Indices | None = None
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Read scores band by band: yield rows, and the (b, V) scores of as many captions as fit into so many bytes."""
    videos = slice(0, len(scores.video_ids))
    for rows in slices(len(scores.caption_ids), band_bytes // (SCORE_BYTES * max(1, videos.stop))):
        if wanted is None or np.searchsorted(wanted, rows.start) < np.searchsorted(wanted, rows.stop):
            yield rows, scores.block(rows, videos)
