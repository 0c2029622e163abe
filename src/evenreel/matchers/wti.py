"""Weighted token interaction: words meet frames one by one (DRL, arXiv 2203.07111, 3.2, equations 4 to 6).

Kind `ti` weights all words of a caption alike and all frames of a video alike; kind `wti` learns how much each counts,
from the token itself. Training starts at `ti`: the last layer of the weights is zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.config import ABOVE_0, MOST_LAYERS, MOST_SIZE, SHARE, check_settings, whole
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import ContrastiveMatcher, Entry, Limits, logit_scale_at
from evenreel.matchers.temporal import temporal_blocks
from evenreel.similarity.interaction import TokenVectors, masked_softmax, token_interaction


@dataclass(frozen=True)
class WtiSettings:
    """Settings of the matcher `wti`, the weighted token interaction of words and frames.

    Attributes:
        kind: `wti` learns weights, `ti` has none to learn.
        weight_layers: number of linear layers of the network that gives a token its weight, ReLU between them.
        temporal_layers: number of blocks of CLIP4Clip's temporal transformer over the frames; 0 for none.
        heads: number of attention heads of these blocks.
        max_frames: greatest number of frames of a clip where there are such blocks.
        dropout: share of values dropped in these blocks while training.
        temperature: temperature of the loss at the start of training.
    """

    kind: Literal["ti", "wti"] = "wti"
    weight_layers: Annotated[int, whole(1, MOST_LAYERS)] = 2
    temporal_layers: Annotated[int, whole(0, MOST_LAYERS)] = 0
    heads: Annotated[int, whole(1, MOST_SIZE)] = 8
    max_frames: Annotated[int, whole(1, MOST_SIZE)] = 64
    dropout: Annotated[float, SHARE] = 0.0
    temperature: Annotated[float, ABOVE_0] = 0.01

    def __post_init__(self) -> None:
        check_settings("wti", self)


class Wti(ContrastiveMatcher):
    """Matcher that scores by the weighted means of each word's best frame and each frame's best word.

    Raises:
        UsageError: D is no multiple of the number of heads of temporal blocks.
    """

    def __init__(self, dimension: int, settings: WtiSettings) -> None:
        super().__init__()
        self.limits = Limits(dimension, frames=settings.max_frames if settings.temporal_layers else None)
        learned = settings.kind == "wti"
        self.word_weights = token_weights(dimension, settings.weight_layers) if learned else None
        self.frame_weights = token_weights(dimension, settings.weight_layers) if learned else None
        self.temporal = temporal_blocks(dimension, settings)
        self.logit_scale = logit_scale_at(settings.temperature)

    def encode_text(self, text: TextBatch) -> TokenVectors:
        """Encode captions as word vectors (Q, W, D) with weights (Q, W)."""
        return weighted_tokens(self.words_of(text), text.word_mask, self.word_weights)

    def encode_video(self, video: VideoBatch) -> TokenVectors:
        """Encode videos as frame vectors (V, T, D) with weights (V, T)."""
        return weighted_tokens(self.frames_of(video), video.frame_mask, self.frame_weights)

    def words_of(self, text: TextBatch) -> Tensor:
        """Return the word vectors that are compared with frames, (Q, W, D), of unit length."""
        return F.normalize(text.words, dim=-1)

    def frames_of(self, video: VideoBatch) -> Tensor:
        """Return the frame vectors that are compared with words, (V, T, D), of unit length, after temporal blocks."""
        frames = F.normalize(video.frames, dim=-1)
        if self.temporal is not None:
            frames = self.temporal(frames, video.frame_mask)
        return frames

    def score(self, text: TokenVectors, video: TokenVectors) -> Tensor:
        """Compute the token interaction (Q, V) of encoded captions and videos, from -1 to 1."""
        return token_interaction(text, video)


def token_weights(dimension: int, layers: int) -> nn.Sequential:
    """Build the network that gives tokens (..., D) their weight logits (..., 1): linear layers with ReLU between them.

    The last layer starts at zero, and has no bias: one number added to all logits changes no softmax.

    >>> token_weights(8, layers=2)(torch.randn(3, 8)).flatten().tolist()
    [0.0, 0.0, 0.0]
    """
    hidden = [part for _ in range(layers - 1) for part in (nn.Linear(dimension, dimension), nn.ReLU())]
    last = nn.Linear(dimension, 1, bias=False)
    nn.init.zeros_(last.weight)
    return nn.Sequential(*hidden, last)


def weighted_tokens(vectors: Tensor, mask: Tensor, network: nn.Module | None) -> TokenVectors:
    """Scale token vectors (N, L, D) to unit length, and give them weights by a network, or equal ones without it.

    Entries of unit vectors are of size 1 / sqrt(D); the network sees them at size one, as layers are made for.
    """
    if network is None:
        return TokenVectors(vectors, mask, masked_softmax(torch.zeros_like(vectors[..., 0]), mask))
    logits = network(vectors * math.sqrt(vectors.shape[-1])).squeeze(-1)
    return TokenVectors(vectors, mask, masked_softmax(logits, mask))


ENTRY = Entry(Wti, WtiSettings)
