"""Search in two stages: a cheap score chooses a shortlist, an expensive score orders it.

So what is found after re-ranking K clips can be measured as any system is, for any two systems' scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.config import check_scores
from evenreel.errors import UsageError
from evenreel.evaluation.blocks import CheckedScores, aligned
from evenreel.types import ScoreBlocks, ScoreNotes

Matrix = NDArray[Any]


class TwoStage:
    """Scores of a search in two stages: a cheap score chooses a shortlist, an expensive one orders it.

    It implements `ScoreBlocks`. The first `depth` videos of the cheap score stand above all others, in the order of the
    expensive one; equal scores stay equal. Where several videos tie for the last places of a shortlist, those that get
    one are drawn at random, so a shortlist never holds more than `depth`. A video whose cheap score is minus infinity
    is on none, and one whose expensive score is that is never retrieved. With a depth of all videos the rankings are
    those of the expensive score.

    The values are places, not similarities, to be compared within a caption's ranking only. `about` has the notes of
    both scores.

    Args:
        cheap: cheap scores of Q captions and V videos.
        expensive: expensive scores of the same captions and videos; the result has its order. Whole rows are read at a
            time.
        depth: number of videos of a shortlist; None for all.
        seed: seed of the draw among ties.

    Raises:
        UsageError: the depth is below 1.
        ScoresError: the cheap score lacks a caption or a video of the expensive one; a score is NaN.
    """

    def __init__(self, cheap: ScoreBlocks, expensive: ScoreBlocks, depth: int | None, seed: int = 0) -> None:
        check_scores(cheap, "cheap")
        check_scores(expensive, "expensive")
        if depth is not None and depth < 1:
            raise UsageError(f"The depth of a shortlist is {depth}; it must be 1 or more.")
        self.caption_ids: Sequence[str] = expensive.caption_ids
        self.video_ids: Sequence[str] = expensive.video_ids
        self._cheap, self._expensive = CheckedScores(aligned(cheap, expensive)), CheckedScores(expensive)
        self._seed = seed
        self._depth = len(expensive.video_ids) if depth is None else min(depth, len(expensive.video_ids))
        self._whole = self._depth == len(expensive.video_ids)
        stages = (expensive,) if self._whole else (cheap, expensive)
        self.about = ScoreNotes.joined([stage.about for stage in stages])

    def block(self, captions: slice, videos: slice) -> NDArray[np.float64]:
        """Return the places, as scores (q, v), of some videos in the rankings of some captions; higher is better."""
        start, stop, _ = captions.indices(len(self.caption_ids))
        rows, everything = slice(start, stop), slice(0, len(self.video_ids))
        expensive = np.array(self._expensive.block(rows, everything), np.float64)
        if self._whole:
            return expensive[:, videos]
        cheap = np.array(self._cheap.block(rows, everything), np.float64)
        chosen = np.zeros(cheap.shape, np.bool_)
        np.put_along_axis(chosen, shortlists(cheap, self._depth, self._seed, start), True, axis=1)
        chosen &= cheap > -np.inf
        found = np.where(chosen, len(self.video_ids) + places(expensive), places(cheap))
        found[np.where(chosen, expensive, cheap) == -np.inf] = -np.inf
        return found[:, videos]


def shortlists(cheap: Matrix, depth: int, seed: int = 0, first: int = 0) -> NDArray[np.int64]:
    """Select the K best videos of each caption, the best first; among ties for the last places some are drawn.

    Returns:
        (q, K) indices of columns.

    >>> shortlists(np.array([[0.1, 0.9, 0.5]]), 2).tolist()
    [[1, 2]]
    """
    order = np.argsort(-cheap, axis=1, kind="stable")
    if depth < cheap.shape[1]:
        ordered = np.take_along_axis(cheap, order, axis=1)
        for row in np.flatnonzero(ordered[:, depth - 1] == ordered[:, depth]):
            drawn = np.random.default_rng((seed, first + int(row))).permutation(cheap.shape[1])
            order[row] = drawn[np.argsort(-cheap[row, drawn], kind="stable")]
    return order[:, :depth]


def places(scores: Matrix) -> NDArray[np.float64]:
    """Count, for each score, the different scores below it in its row: (q, V); equal scores stay equal.

    >>> places(np.array([[0.5, -1.0, 0.5, 2.0]])).tolist()
    [[1.0, 0.0, 1.0, 2.0]]
    """
    order = np.argsort(scores, axis=1)
    ordered = np.take_along_axis(scores, order, axis=1)
    steps = np.zeros(scores.shape)
    steps[:, 1:] = np.cumsum(ordered[:, 1:] > ordered[:, :-1], axis=1)
    found = np.empty(scores.shape)
    np.put_along_axis(found, order, steps, axis=1)
    return found
