"""Token interaction: every word finds its best frame and every frame its best word (DRL, arXiv 2203.07111, 3.2).

The products of words and frames are all that a pair needs, and more than a processor can keep: 384 numbers a pair at
32 words and 12 frames. So they are made, reduced and forgotten in chunks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from evenreel.similarity.chunks import TableSide, in_chunks


class TokenVectors(NamedTuple):
    """Unit vectors and weights of the words of N captions, or of the frames of N videos.

    Attributes:
        vectors: (N, L, D), rows of unit length.
        mask: (N, L) True = real, at least one a row.
        weights: (N, L), summing to one a row, zero for padding.
    """

    vectors: Tensor
    mask: Tensor
    weights: Tensor


def token_interaction(words: TokenVectors, frames: TokenVectors) -> Tensor:
    """Compute similarities (Q, V): the mean of `sum_w a_w max_f <w, f>` and `sum_f b_f max_w <w, f>` over real tokens.

    Differentiable; where several tokens are best they share the gradient.

    >>> here, gone = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 0.0]])
    >>> word = TokenVectors(here[None], torch.tensor([[True]]), torch.tensor([[1.0]]))
    >>> frame = TokenVectors(torch.cat([-here, gone])[None], torch.tensor([[True, False]]), torch.tensor([[1.0, 0.0]]))
    >>> token_interaction(word, frame)  # the padding, zero, is above -1 and yet not taken
    tensor([[-1.]])
    """
    return in_chunks(_interact, TableSide(words, words.mask, _cut), TableSide(frames, frames.mask, _cut))


def token_products(words: Tensor, frames: Tensor) -> Tensor:
    """Compute dot products of words (Q, W, D) and frames (V, F, D) as (Q, W, F, V), contiguous along the videos."""
    (q, w, d), (v, f, _) = words.shape, frames.shape
    columns = frames.transpose(0, 1).reshape(f * v, d)
    return (words.reshape(q * w, d) @ columns.T).view(q, w, f, v)


def _interact(words: TokenVectors, frames: TokenVectors) -> Tensor:
    """(q, v) of one chunk."""
    products = token_products(words.vectors, frames.vectors)
    of_words = torch.einsum("qw,qwv->qv", words.weights, products.amax(2))
    of_frames = torch.einsum("vf,qfv->qv", frames.weights, products.amax(1))
    return 0.5 * (of_words + of_frames)


def _cut(tokens: TokenVectors, longest: int) -> TokenVectors:
    """Padding is overwritten by the first real token: a maximum does not see a number twice, and needs no mask."""
    vectors, mask, weights = (tensor[:, :longest] for tensor in tokens)
    own = torch.arange(longest, device=mask.device).expand(mask.shape)
    first = mask.to(torch.uint8).argmax(1, keepdim=True)
    rows = torch.arange(len(mask), device=mask.device)[:, None]
    return TokenVectors(vectors[rows, torch.where(mask, own, first)], mask, weights)
