"""A causal transformer that writes captions from features: BiMa's captioning head and text decoder.

Used in training alone (arXiv 2506.03589, equations 6 and 8). Layers, heads and how words become vectors are not
published: two pre-norm blocks of eight heads here, and one table of vectors for words that are read and that are
written, as in the transformer that the paper cites (arXiv 1706.03762, section 3.4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evenreel.config import check_heads
from evenreel.losses.variational import Reduction, token_nll
from evenreel.matchers.bima.caption_words import WrittenCaptions


@dataclass(frozen=True)
class DecoderSettings:
    """Sizes of a caption decoder.

    Attributes:
        words: size C of the vocabulary, special words included.
        most_words: greatest number of words of a caption; each has a learned position.
        layers: number of transformer blocks.
        heads: number of attention heads; a divisor of D.
        dropout: share of values dropped in the blocks while training.
    """

    words: int
    most_words: int
    layers: int = 2
    heads: int = 8
    dropout: float = 0.0


class CaptionDecoder(nn.Module):
    """Transformer that predicts each word of a caption from the words before it and from source vectors.

    Raises:
        UsageError: D is no multiple of the number of heads.
    """

    def __init__(self, dimension: int, settings: DecoderSettings) -> None:
        super().__init__()
        check_heads(dimension, settings.heads)
        self.scale = math.sqrt(dimension)
        self.words = nn.Embedding(settings.words, dimension)
        nn.init.normal_(self.words.weight, std=1 / self.scale)  # so that states of entry size one give logits of it
        self.places = nn.Embedding(settings.most_words, dimension)
        self.blocks = nn.ModuleList(
            nn.TransformerDecoderLayer(
                dimension,
                settings.heads,
                dim_feedforward=4 * dimension,
                dropout=settings.dropout,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(settings.layers)
        )
        # Through a map of its own: a state is mostly the word that was read last, whose vector it would meet again.
        self.last = nn.Sequential(nn.LayerNorm(dimension), nn.Linear(dimension, dimension))

    def forward(self, before: Tensor, source: Tensor, source_mask: Tensor) -> Tensor:
        """Compute the hidden states (B, L, D) from which each word of captions is predicted.

        Args:
            before: (B, L) vocabulary numbers of the word before each.
            source: (B, M, D) vectors that the caption is written from, entries of size one.
            source_mask: (B, M) True = real, at least one a row.
        """
        length = before.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=before.device).triu(1)
        states = self.scale * self.words(before) + self.places.weight[:length]
        for block in self.blocks:
            states = block(states, source, tgt_mask=later, memory_key_padding_mask=~source_mask, tgt_is_causal=True)
        mapped: Tensor = self.last(states)
        return mapped

    def nll(self, captions: WrittenCaptions, source: Tensor, source_mask: Tensor, reduction: Reduction) -> Tensor:
        """Compute the negative log likelihood of captions given source vectors, `-sum_l log p(T_l | T_<l, source)`.

        Args:
            captions: B captions.
            source: (B, M, D) vectors that the captions are written from.
            source_mask: (B, M) True = real, at least one a row.
            reduction: `mean` or `sum` over the words of a caption.
        """
        states = self(captions.before, source, source_mask)
        return token_nll(states, self.words.weight, captions.words, captions.mask, reduction)
