"""A matcher of captions from which habits of wording are removed (`evenreel.debias.habits`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.config import check_settings, number
from evenreel.debias.habits import BEYOND, habit_directions
from evenreel.matchers.adapter import map_captions
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import Matcher, Wrapper


@dataclass(frozen=True)
class HabitRemoval:
    """Settings of removing habits of wording from captions.

    Attributes:
        beyond: least variance of a direction of habits, as a multiple of the median direction's.
    """

    beyond: float = BEYOND

    def __post_init__(self) -> None:
        check_settings("without_habits", self, {"beyond": number("at least 1", lambda value: value >= 1)})


class WithoutHabits(Wrapper):
    """Matcher that removes habits of wording from captions before it encodes them; before `fit_pairs`, nothing.

    Args:
        matcher: the matcher, adapted or not.
        dimension: length D of the vectors of words and sentences.
        settings: least variance of a direction of habits.
    """

    kept: Tensor

    def __init__(self, matcher: Matcher, dimension: int, settings: HabitRemoval) -> None:
        super().__init__(matcher)
        self.settings = settings
        self.register_buffer("kept", torch.eye(dimension))

    def fit_pairs(self, pairs: Callable[[], Iterable[tuple[TextBatch, VideoBatch]]]) -> None:
        """Find the directions of habits of wording in the captions of training pairs.

        Args:
            pairs: returns all captions with their videos, in batches.

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
