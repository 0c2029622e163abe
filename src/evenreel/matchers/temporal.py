"""The mean of frames after a transformer over time: CLIP4Clip's sequential type (arXiv 2104.08860, section 3.3).

The published block is `frames + transformer(frames + positions)`. Here the residual keeps the frames and what the
transformer *adds* to its input, so positions guide attention without being added to what is compared, and a new
block changes nothing: training starts at the mean of the frames that the towers were trained for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.config import ABOVE_0, MOST_LAYERS, MOST_SIZE, SHARE, check_settings, whole
from evenreel.errors import UsageError
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import ContrastiveMatcher, Entry, Limits, check_heads, logit_scale_at
from evenreel.matchers.mean_pool import PooledVectors
from evenreel.similarity.interaction import masked_mean


@dataclass(frozen=True)
class TemporalSettings:
    """Settings of the matcher `temporal`, a transformer over the frames of a clip.

    Attributes:
        layers: number of transformer blocks.
        heads: number of attention heads; a divisor of D.
        max_frames: greatest number of frames of a clip; each has a learned position.
        dropout: share of values dropped after attention and in the feed-forward part, while training.
        temperature: temperature of the loss at the start of training.
    """

    layers: Annotated[int, whole(1, MOST_LAYERS)] = 4
    heads: Annotated[int, whole(1, MOST_SIZE)] = 8
    max_frames: Annotated[int, whole(1, MOST_SIZE)] = 64
    dropout: Annotated[float, SHARE] = 0.0
    temperature: Annotated[float, ABOVE_0] = 0.01

    def __post_init__(self) -> None:
        check_settings("temporal", self)


class TemporalTransformer(nn.Module):
    """Pre-norm transformer blocks with learned frame positions, residual to their input.

    Inside, entries are of size one (unit vectors times the square root of D), as the towers' layers have them.

    Raises:
        UsageError: D is no multiple of the number of heads.
    """

    def __init__(self, dimension: int, settings: TemporalSettings) -> None:
        super().__init__()
        check_heads(dimension, settings.heads)
        self.scale = math.sqrt(dimension)
        self.positions = nn.Embedding(settings.max_frames, dimension)
        self.blocks = nn.ModuleList(_block(dimension, settings) for _ in range(settings.layers))

    def forward(self, frames: Tensor, frame_mask: Tensor) -> Tensor:
        """Apply the transformer to the frames of clips.

        Args:
            frames: (V, T, D), rows of unit length.
            frame_mask: (V, T) True = real.

        Returns:
            (V, T, D), rows of unit length, zero where there is no frame.

        Raises:
            UsageError: a clip has more frames than there are positions.
        """
        before = frames * self.scale + self.positions(self._order(frame_mask))
        after = before
        for block in self.blocks:
            after = block(after, src_key_padding_mask=~frame_mask)
        seen = F.normalize(frames * self.scale + (after - before), dim=-1)
        return seen.masked_fill(~frame_mask[..., None], 0.0)

    def _order(self, frame_mask: Tensor) -> Tensor:
        """Place of each frame among the real ones, (V, T); padding stands at place 0 or where the last frame does."""
        places = (frame_mask.cumsum(1) - 1).clamp(min=0)
        limit = self.positions.num_embeddings
        if frame_mask.shape[1] > limit and (most := int(places.max()) + 1) > limit:
            raise UsageError(
                f"A clip has {most} frames, but this transformer has {limit} frame positions; "
                f"sample fewer frames, or train with max_frames={most} or more."
            )
        return places


def temporal_blocks(dimension: int, settings: Any) -> TemporalTransformer | None:
    """Build the transformer before another matcher, by its `temporal_layers`, `heads`, `max_frames` and `dropout`."""
    if not settings.temporal_layers:
        return None
    sizes = TemporalSettings(settings.temporal_layers, settings.heads, settings.max_frames, settings.dropout)
    return TemporalTransformer(dimension, sizes)


def quick_gelu(values: Tensor) -> Tensor:
    """Apply the activation that CLIP was trained with, x sigmoid(1.702 x)."""
    return values * torch.sigmoid(1.702 * values)


def _block(dimension: int, settings: TemporalSettings) -> nn.TransformerEncoderLayer:
    """One block whose two output projections are zero at first, so that it passes its input on."""
    block = nn.TransformerEncoderLayer(
        dimension,
        settings.heads,
        dim_feedforward=4 * dimension,
        dropout=settings.dropout,
        activation=quick_gelu,
        batch_first=True,
        norm_first=True,
    )
    nn.init.zeros_(block.self_attn.out_proj.weight)
    nn.init.zeros_(block.linear2.weight)
    nn.init.zeros_(block.linear2.bias)
    return block


class Temporal(ContrastiveMatcher):
    """Matcher that scores by the cosine of the sentence and the mean of the frames after the transformer."""

    def __init__(self, dimension: int, settings: TemporalSettings) -> None:
        super().__init__()
        self.limits = Limits(dimension, frames=settings.max_frames)
        self.transformer = TemporalTransformer(dimension, settings)
        self.logit_scale = logit_scale_at(settings.temperature)

    def encode_text(self, text: TextBatch) -> PooledVectors:
        """Encode captions as their sentence vectors (Q, D), scaled to unit length."""
        return PooledVectors(F.normalize(text.sentence, dim=-1))

    def encode_video(self, video: VideoBatch) -> PooledVectors:
        """Encode videos as the mean of their transformed frames (V, D), scaled to unit length."""
        frames = self.transformer(F.normalize(video.frames, dim=-1), video.frame_mask)
        return PooledVectors(F.normalize(masked_mean(frames, video.frame_mask), dim=-1))

    def score(self, text: PooledVectors, video: PooledVectors) -> Tensor:
        """Compute the cosines (Q, V) of encoded captions and videos."""
        return text.vectors @ video.vectors.T


ENTRY = Entry(Temporal, TemporalSettings)
