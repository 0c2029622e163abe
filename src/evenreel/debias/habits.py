"""Habits of wording: directions in which captions of one clip differ, and a matcher of captions without them.

Not from BiMa, whose split into content and bias has no data that tells one from the other. Where several people
describe a clip, what their captions differ in is due to the writers. If habits differ in few respects, they lie in few
directions; these are removed from all captions, in training and in search, so that nothing can be learned from who
writes. In speaker recognition this is nuisance attribute projection (Solomonoff, Campbell and Boardman 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from evenreel.arrays import Indices
from evenreel.config import check_settings, number
from evenreel.errors import UsageError
from evenreel.matchers.adapter import map_captions
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import Matcher, Wrapper

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


@dataclass(frozen=True)
class HabitRemoval:
    """Settings of removing habits of wording from captions."""

    beyond: float = BEYOND  # least variance of a direction of habits, as a multiple of the median direction's

    def __post_init__(self) -> None:
        check_settings("without_habits", self, {"beyond": number("at least 1", lambda value: value >= 1)})


class WithoutHabits(Wrapper):
    """Matcher that removes habits of wording from captions before it encodes them; before `fit_pairs`, nothing."""

    kept: Tensor

    def __init__(self, matcher: Matcher, dimension: int, settings: HabitRemoval) -> None:
        super().__init__(matcher)
        self.settings = settings
        self.register_buffer("kept", torch.eye(dimension))

    def fit_pairs(self, pairs: Callable[[], Iterable[tuple[TextBatch, VideoBatch]]]) -> None:
        """Find the directions of habits of wording in the captions of training pairs, with their videos, in batches.

        Raises:
            UsageError: too few captions share a video with another one.
        """
        sentences, videos = list[Tensor](), list[str]()
        for text, video in pairs():
            sentences.append(F.normalize(text.sentence.double(), dim=-1))
            videos += video.ids
        clips = np.unique(videos, return_inverse=True)[1]
        found = torch.from_numpy(habit_directions(torch.cat(sentences).numpy(), clips, self.settings.beyond).copy())
        self.kept.copy_(torch.eye(len(self.kept), dtype=torch.float64) - found.T @ found)

    def adapt_text(self, text: TextBatch) -> TextBatch:
        """Remove habits of wording from the word and sentence vectors of captions, which keep unit length."""
        return map_captions(text, self._without)

    def _without(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return F.normalize(vectors.to(self.kept.dtype) @ self.kept, dim=-1).masked_fill(~mask[..., None], 0.0)
