"""Cosine of the sentence and the mean of a clip's frames: CLIP4Clip's parameter-free type (arXiv 2104.08860, 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from torch import Tensor
from torch.nn import functional as F

from evenreel.config import ABOVE_0, check_settings
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import ContrastiveMatcher, Entry, Limits, logit_scale_at
from evenreel.similarity.interaction import masked_mean


@dataclass(frozen=True)
class MeanPoolSettings:
    """Settings of the matcher `mean_pool`, the mean of frames.

    Attributes:
        temperature: temperature of the loss at the start of training; CLIP's ends at 0.01.
    """

    temperature: Annotated[float, ABOVE_0] = 0.01

    def __post_init__(self) -> None:
        check_settings("mean_pool", self)


class PooledVectors(NamedTuple):
    """Unit vectors (N, D) of captions or videos."""

    vectors: Tensor


class MeanPool(ContrastiveMatcher):
    """Matcher that scores by the cosine of the sentence and the mean frame."""

    def __init__(self, dimension: int, settings: MeanPoolSettings) -> None:
        super().__init__()
        self.limits = Limits(dimension)
        self.logit_scale = logit_scale_at(settings.temperature)

    def encode_text(self, text: TextBatch) -> PooledVectors:
        """Encode captions as their sentence vectors (Q, D), scaled to unit length."""
        return PooledVectors(F.normalize(text.sentence, dim=-1))

    def encode_video(self, video: VideoBatch) -> PooledVectors:
        """Encode videos as the mean of their unit frames (V, D), scaled to unit length."""
        return PooledVectors(F.normalize(masked_mean(F.normalize(video.frames, dim=-1), video.frame_mask), dim=-1))

    def score(self, text: PooledVectors, video: PooledVectors) -> Tensor:
        """Compute the cosines (Q, V) of encoded captions and videos."""
        return text.vectors @ video.vectors.T


ENTRY = Entry(MeanPool, MeanPoolSettings)
