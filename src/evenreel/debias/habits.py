"""Directions in which captions of one clip differ: habits of wording, not what the clip shows.

Not from BiMa, whose split into content and bias has no data that tells one from the other. Where several people
describe a clip, what their captions differ in is due to the writers. If habits differ in few respects, they lie in few
directions; these are removed from all captions, in training and in search, so that nothing can be learned from who
writes. In speaker recognition this is nuisance attribute projection (Solomonoff, Campbell and Boardman 2005).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.errors import UsageError

BEYOND = 2.0
"""Variance of a direction, in times of the median one, from which it is one of habits."""


def habit_directions(captions: NDArray[Any], clips: Indices, beyond: float = BEYOND) -> NDArray[np.float64]:
    """Find the directions in which captions of one clip differ much more than in the median direction.

    Args:
        captions: (Q, D) vector of each caption.
        clips: (Q,) number of each caption's clip, from 0.
        beyond: least variance of a direction of habits, as a multiple of the median direction's; 1 or more.

    Returns:
        (K, D) orthonormal rows, the direction of the largest differences first; K is at most half of D, and 0 where no
        direction stands out.

    Raises:
        UsageError: fewer than D captions share a clip with another one.

    >>> rng = np.random.default_rng(0)
    >>> habits = rng.standard_normal((400, 1)) * np.array([0.6, 0.8, 0, 0])
    >>> found = habit_directions(habits + 0.1 * rng.standard_normal((400, 4)), np.arange(400) // 2)
    >>> np.abs(found).round(1).tolist()
    [[0.6, 0.8, 0.0, 0.0]]
    """
    size = captions.shape[1]
    counts = np.bincount(clips)
    shared = counts[clips] > 1
    if shared.sum() < size:
        raise UsageError(
            f"{shared.sum():,} captions share a clip with another one, and {size:,} are needed to tell habits of "
            "wording from what clips show."
        )
    sums = np.zeros((len(counts), size))
    np.add.at(sums, clips, captions)
    apart = (captions - sums[clips] / counts[clips][:, None])[shared]
    spread, directions = np.linalg.eigh(apart.T @ apart)
    wanted = int((spread > beyond * np.median(spread)).sum())
    found: NDArray[np.float64] = directions.T[::-1][:wanted]
    return found


def without_directions(vectors: NDArray[Any], directions: NDArray[Any]) -> NDArray[Any]:
    """Remove orthonormal directions (K, D) from vectors (..., D), and scale these to unit length; zero ones stay so."""
    left = vectors - vectors @ directions.T @ directions
    lengths = np.linalg.norm(left, axis=-1, keepdims=True)
    cleared: NDArray[Any] = left / np.where(lengths == 0, 1, lengths)
    return cleared
