"""X-Pool (arXiv 2203.15086, 3.3 and 3.4): the frames of a video are pooled anew for each caption.

A caption attends to the frames of a video and is compared with what it gets. A video thus looks different to each
caption, also to the wrong ones: every score of a table is with the video pooled by the caption of its row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.config import ABOVE_0, SHARE, check_settings
from evenreel.losses import info_nce
from evenreel.matchers.adapter import identity
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch
from evenreel.matchers.matcher import Entry, Limits, logit_scale_at
from evenreel.matchers.x_pool_fast import (
    AttendedVideos,
    AttendingTexts,
    PooledVideos,
    centred,
    gram,
    pooled_cosines,
)


@dataclass(frozen=True)
class XPoolSettings:
    """Settings of the matcher X-Pool; all sizes are those of the features.

    Attributes:
        dropout: share of the linear map's output that is dropped while training.
        temperature: temperature of the loss at the start of training.
    """

    dropout: Annotated[float, SHARE] = 0.3
    temperature: Annotated[float, ABOVE_0] = 0.01

    def __post_init__(self) -> None:
        check_settings("x_pool", self)


class TextConditionedPooling(nn.Module):
    """Pooling of frames by a caption: one attention head and a residual linear map, with layer normalisations.

    Every map starts as the identity. Inside, entries are of size one (unit vectors times the square root of D), so that
    what a normalisation adds to variances is small beside them.
    """

    def __init__(self, dimension: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.scale = math.sqrt(dimension)
        self.norm_inputs = nn.LayerNorm(dimension)
        self.to_query, self.to_key, self.to_value, self.to_output = (identity(dimension) for _ in range(4))
        self.norm_pooled = nn.LayerNorm(dimension)
        self.linear = identity(dimension)
        self.dropout = nn.Dropout(dropout)
        self.norm_output = nn.LayerNorm(dimension)

    def forward(self, sentence: Tensor, frames: Tensor, frame_mask: Tensor) -> Tensor:
        """Pool the frames of each video by each caption: vectors (Q, V, D), not of unit length.

        Args:
            sentence: (Q, D), rows of unit length.
            frames: (V, T, D), rows of unit length.
            frame_mask: (V, T) True = real, at least one a row.
        """
        return self.pool(self.queries(sentence), *self.keys_and_values(frames), frame_mask)

    def queries(self, sentence: Tensor) -> Tensor:
        """Compute the attention queries (Q, D) of sentences (Q, D), divided by the root of D."""
        queries: Tensor = self.to_query(self.norm_inputs(sentence * self.scale))
        return queries / self.scale

    def keys_and_values(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the attention keys and values (V, T, D) of frames (V, T, D).

        The attention's output map is applied to the values already, which is the same for weights that sum to one.
        """
        frames = self.norm_inputs(frames * self.scale)
        return self.to_key(frames), self.to_output(self.to_value(frames))

    def pool(self, queries: Tensor, keys: Tensor, values: Tensor, frame_mask: Tensor) -> Tensor:
        """Pool the frames of each video by each caption as written in the paper, with vectors for all pairs: (Q, V, D).

        Args:
            queries: (Q, D) attention queries.
            keys: (V, T, D) attention keys.
            values: (V, T, D) attention values.
            frame_mask: (V, T) True = real, at least one a row.
        """
        logits = torch.einsum("qd,vtd->qvt", queries, keys).masked_fill(~frame_mask, float("-inf"))
        pooled = self.norm_pooled(torch.einsum("qvt,vtd->qvd", logits.softmax(-1), values))
        output: Tensor = self.norm_output(pooled + self.dropout(self.linear(pooled)))
        return output

    def texts(self, sentence: Tensor) -> AttendingTexts:
        """Compute the tensors of captions that `pooled_cosines` takes, from sentence vectors (Q, D)."""
        return AttendingTexts(self.queries(sentence), sentence, sentence @ self.common().T)

    def videos(self, frames: Tensor, frame_mask: Tensor) -> PooledVideos:
        """Compute the tensors of videos that `pooled_cosines` takes, from frames (V, T, D)."""
        videos = self.attended(frames, frame_mask)
        return PooledVideos(gram(_after(self.common().flip(0), videos.values)), videos)

    def attended(self, frames: Tensor, frame_mask: Tensor) -> AttendedVideos:
        """Compute the tensors of videos that `pooled_vectors` takes, from frames (V, T, D)."""
        keys, values = self.keys_and_values(frames)
        first = centred(values)
        scaled = first * self.norm_pooled.weight
        second = centred(scaled + F.linear(scaled, self.linear.weight))
        return AttendedVideos(
            keys,
            second * self.norm_output.weight,
            frame_mask,
            gram(first) / first.shape[-1],
            gram(_after(self._constant()[None], second)) / first.shape[-1],
        )

    def common(self) -> Tensor:
        """Return the rows (2, D) that all pooled videos have in common, `x_0` and `b` of `pooled_cosines`."""
        return torch.stack([self._constant() * self.norm_output.weight, self.norm_output.bias])

    def _constant(self) -> Tensor:
        """(D,) what the second normalisation finds in every video, less its mean: biases after the map."""
        return centred(self.norm_pooled.bias + self.linear(self.norm_pooled.bias))


class XPool(nn.Module):
    """X-Pool matcher: the cosine of the sentence and the video pooled by that caption."""

    def __init__(self, dimension: int, settings: XPoolSettings) -> None:
        super().__init__()
        self.limits = Limits(dimension)
        self.pooling = TextConditionedPooling(dimension, settings.dropout)
        self.logit_scale = logit_scale_at(settings.temperature)

    def encode_text(self, text: TextBatch) -> AttendingTexts:
        """Encode captions as attention queries and unit vectors of sentences, (Q, D) each."""
        return self.pooling.texts(F.normalize(text.sentence, dim=-1))

    def encode_video(self, video: VideoBatch) -> PooledVideos:
        """Encode videos as attention keys and values of their frames (V, T, D), with Gram matrices."""
        return self.pooling.videos(F.normalize(video.frames, dim=-1), video.frame_mask)

    def score(self, text: AttendingTexts, video: PooledVideos) -> Tensor:
        """Compute the cosines (Q, V) of captions with the videos pooled by them; dropout is never applied."""
        return pooled_cosines(text, video, self.pooling.norm_output.eps)

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the InfoNCE loss of a batch, each video pooled by each caption, with dropout."""
        sentence = F.normalize(batch.text.sentence, dim=-1)
        frames = F.normalize(batch.video.frames, dim=-1)
        pooled = F.normalize(self.pooling(sentence, frames, batch.video.frame_mask), dim=-1)
        scores = torch.einsum("qd,qvd->qv", sentence, pooled)
        return {"contrastive": info_nce(scores, batch.same, self.logit_scale.exp())}


def _after(common: Tensor, rows: Tensor) -> Tensor:
    """(V, n, D) with the rows (m, D) that all videos have in common before them."""
    return torch.cat([common.expand(len(rows), -1, -1), rows], dim=1)


ENTRY = Entry(XPool, XPoolSettings)
