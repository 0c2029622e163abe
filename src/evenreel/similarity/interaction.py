"""Token interaction: every word finds its best frame and every frame its best word (DRL, arXiv 2203.07111, 3.2).

The products of words and frames are all that a pair needs, and more than a processor can keep: 384 numbers a pair at
32 words and 12 frames. So they are made, reduced and forgotten in chunks that stay in its cache. Captions and videos
are taken in the order of their lengths, which leaves nearly no padding to multiply.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor


class Tokens(NamedTuple):
    """Words of captions or frames of videos.

    Attributes:
        vectors: (N, L, D), rows of unit length.
        mask: (N, L) True = real, at least one a row.
        weights: (N, L), summing to one a row, zero where nothing is real.
    """

    vectors: Tensor
    mask: Tensor
    weights: Tensor


class Chunk(NamedTuple):
    """Some rows of `Tokens`, cut to the longest; what is still padding repeats a real token with weight zero."""

    vectors: Tensor
    weights: Tensor


def token_interaction(words: Tokens, frames: Tokens) -> Tensor:
    """Mean of both directions: `sum_w a_w max_f <w, f>` and `sum_f b_f max_w <w, f>`, over real tokens only.

    Differentiable; where several tokens are best they share the gradient.

    Args:
        words: of Q captions.
        frames: of V videos.

    Returns:
        (Q, V).

    >>> here, gone = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 0.0]])
    >>> word = Tokens(here[None], torch.tensor([[True]]), torch.tensor([[1.0]]))
    >>> frame = Tokens(torch.cat([-here, gone])[None], torch.tensor([[True, False]]), torch.tensor([[1.0, 0.0]]))
    >>> token_interaction(word, frame)  # the padding, zero, is above -1 and yet not taken
    tensor([[-1.]])
    """
    caption_order, video_order = _by_length(words.mask), _by_length(frames.mask)
    videos = list(_chunks(frames, video_order))
    rows = [
        torch.cat([_interact(captions, some) for some in videos], dim=1) for captions in _chunks(words, caption_order)
    ]
    return torch.cat(rows)[caption_order.argsort()][:, video_order.argsort()]


def _interact(words: Chunk, frames: Chunk) -> Tensor:
    """(q, v) of one chunk. Videos come last in the products, so that both maxima run along contiguous memory."""
    (q, w, d), (v, f, _) = words.vectors.shape, frames.vectors.shape
    columns = frames.vectors.transpose(0, 1).reshape(f * v, d)
    products = (words.vectors.reshape(q * w, d) @ columns.T).view(q, w, f, v)
    of_words = torch.einsum("qw,qwv->qv", words.weights, products.amax(2))
    of_frames = torch.einsum("vf,qfv->qv", frames.weights, products.amax(1))
    return 0.5 * (of_words + of_frames)


def _by_length(mask: Tensor) -> Tensor:
    return mask.sum(1).argsort(stable=True)


def _chunks(tokens: Tokens, order: Tensor) -> Iterator[Chunk]:
    """All rows in this order, about `chunk_tokens` tokens at a time."""
    lengths = tokens.mask.sum(1)[order].tolist()
    limit, start = chunk_tokens(tokens.mask.device), 0
    while start < len(lengths):
        stop = start + 1
        while stop < len(lengths) and (stop + 1 - start) * lengths[stop] <= limit:
            stop += 1
        yield _cut(tokens, order[start:stop], lengths[stop - 1])
        start = stop


def chunk_tokens(device: torch.device) -> int:
    """Tokens of a chunk: products of two chunks take 4 MiB, a processor's cache; 64 MiB keep a GPU busy."""
    return 1024 if device.type == "cpu" else 4096


def _cut(tokens: Tokens, rows: Tensor, longest: int) -> Chunk:
    """Padding is overwritten by the first real token: a maximum does not see a number twice, and needs no mask."""
    real_first = tokens.mask[rows].to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :longest]
    real = tokens.mask[rows].gather(1, real_first)
    taken = torch.where(real, real_first, real_first[:, :1])
    return Chunk(tokens.vectors[rows[:, None], taken], tokens.weights[rows[:, None], real_first])
