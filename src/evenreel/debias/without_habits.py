"""A matcher of captions from which habits of wording are removed (`evenreel.debias.habits`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.config import check_settings, number
from evenreel.debias.habits import BEYOND, habit_directions
from evenreel.matchers.adapter import map_captions
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch
from evenreel.matchers.matcher import Matcher


@dataclass(frozen=True)
class HabitRemoval:
    """Settings of removing habits of wording from captions.

    Attributes:
        beyond: least variance of a direction of habits, as a multiple of the median direction's.
    """

    beyond: float = BEYOND

    def __post_init__(self) -> None:
        check_settings("without_habits", self, {"beyond": number("at least 1", lambda value: value >= 1)})


class WithoutHabits(nn.Module):
    """Matcher that removes habits of wording from captions before it encodes them; before `fit_pairs`, nothing.

    Args:
        matcher: the matcher, adapted or not.
        dimension: length D of the vectors of words and sentences.
        settings: least variance of a direction of habits.
    """

    kept: Tensor

    def __init__(self, matcher: Matcher, dimension: int, settings: HabitRemoval) -> None:
        super().__init__()
        inner: Any = matcher
        self.matcher: Any = inner
        self.limits = matcher.limits
        self.settings = settings
        self.register_buffer("kept", torch.eye(dimension))

    @property
    def logit_scale(self) -> Tensor:
        """Logit scale of the wrapped matcher."""
        scale: Tensor = self.matcher.logit_scale
        return scale

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

    def encode_text(self, text: TextBatch) -> Any:
        """Remove habits of wording from captions, and encode them with the wrapped matcher."""
        return self.matcher.encode_text(self.cleared(text))

    def encode_video(self, video: VideoBatch) -> Any:
        """Encode videos with the wrapped matcher."""
        return self.matcher.encode_video(video)

    def score(self, text: Any, video: Any) -> Tensor:
        """Compute similarities (Q, V) of encoded captions and videos with the wrapped matcher."""
        scores: Tensor = self.matcher.score(text, video)
        return scores

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the wrapped matcher's loss terms, with captions without habits of wording."""
        terms: dict[str, Tensor] = self.matcher.loss(replace(batch, text=self.cleared(batch.text)))
        return terms

    def cleared(self, text: TextBatch) -> TextBatch:
        """Remove habits of wording from the word and sentence vectors of captions, which keep unit length."""
        return map_captions(text, self._without)

    def _without(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return F.normalize(vectors.to(self.kept.dtype) @ self.kept, dim=-1).masked_fill(~mask[..., None], 0.0)
