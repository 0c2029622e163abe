"""Vectors by id, and scores that are their dot products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import UsageError
from evenreel.types import NO_NOTES, ScoreNotes

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class EmbeddingTable:
    """Vectors of captions or videos, one for each id."""

    ids: Sequence[str]  # N ids of captions or videos
    values: Array  # (N, D), a vector a row

    def of(self, ids: Sequence[str]) -> EmbeddingTable:
        """Select the vectors of some ids, in the order of these.

        Raises:
            UsageError: an id is not in the table.
        """
        places = {name: row for row, name in enumerate(self.ids)}
        if missing := [name for name in ids if name not in places]:
            raise UsageError(
                f"{len(missing):,} of {len(ids):,} clips have no vector ({missing[0]!r} for one); encode all of them, "
                "or leave out their counterparts too."
            )
        return EmbeddingTable(tuple(ids), self.values[[places[name] for name in ids]])


@dataclass(frozen=True, eq=False)
class VectorScores:
    """Scores (Q, V) that are dot products of caption and video vectors; implements `ScoreBlocks`."""

    captions: EmbeddingTable  # vectors of Q captions
    videos: EmbeddingTable  # vectors of V videos
    about: ScoreNotes = NO_NOTES  # notes on what the scores use

    @property
    def caption_ids(self) -> Sequence[str]:
        """Ids of the rows (captions)."""
        return self.captions.ids

    @property
    def video_ids(self) -> Sequence[str]:
        """Ids of the columns (videos)."""
        return self.videos.ids

    def block(self, captions: slice, videos: slice) -> Array:
        """Compute the scores (q, v) of some captions and videos."""
        return np.asarray(self.captions.values[captions] @ self.videos.values[videos].T)
