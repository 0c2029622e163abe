"""Token interaction: every word finds its best frame and every frame its best word (DRL, arXiv 2203.07111, 3.2).

The products of words and frames are all that a pair needs, and more than a processor can keep: 384 numbers a pair at
32 words and 12 frames. So they are made, reduced and forgotten in chunks that stay in its cache. Captions and videos
are taken in the order of their lengths, so that a chunk can be cut to its longest row and nearly no padding takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from evenreel.similarity.tiles import joined_chunks, take_rows


class TokenVectors(NamedTuple):
    """Unit vectors and weights of the words of N captions, or of the frames of N videos."""

    vectors: Tensor  # (N, L, D), rows of unit length
    mask: Tensor  # (N, L) True = real, at least one a row
    weights: Tensor  # (N, L), summing to one a row, zero for padding


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


class TableSide(NamedTuple):
    """The rows (captions) or the columns (videos) of a table of scores."""

    state: tuple[Any, ...]  # named tuple of tensors, or of such tuples, one row for each caption or video
    mask: Tensor  # (N, L) True = real word or frame, at least one a row
    # function `(state, length)` that cuts the words or frames of some rows of the state to a length
    cut: Callable[[Any, int], Any]


def in_chunks(score: Callable[[Any, Any], Tensor], texts: TableSide, videos: TableSide) -> Tensor:
    """Compute scores (Q, V) of Q captions and V videos from the scores (q, v) that a function computes of a chunk."""
    text_order, video_order = (lengths(side.mask).argsort(stable=True) for side in (texts, videos))
    scores = joined_chunks(score, _chunks(texts, text_order), _chunks(videos, video_order))
    return scores[text_order.argsort()][:, video_order.argsort()]


def lengths(mask: Tensor) -> Tensor:
    """Return the length (N,) of each row of a mask (N, L): one more than the index of the last real item.

    >>> lengths(torch.tensor([[True, True, False], [True, False, True]]))
    tensor([2, 3])
    """
    places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    return (mask * places).amax(1)


def chunk_tokens(device: torch.device) -> int:
    """Return the number of words or frames of a chunk, so that products of two take 4 MiB on a CPU, 16 MiB on a GPU."""
    return 1024 if device.type == "cpu" else 2048


def _chunks(side: TableSide, order: Tensor) -> Iterator[Any]:
    in_order = lengths(side.mask)[order].tolist()
    for start, stop in _bounds(in_order, chunk_tokens(side.mask.device)):
        rows = order[start:stop]
        yield side.cut(take_rows(side.state, rows), in_order[stop - 1])


def _bounds(in_order: list[int], limit: int) -> Iterator[tuple[int, int]]:
    """Rows of rising lengths in stretches of at most `limit` items, padding included; one row at the least.

    >>> list(_bounds([2, 2, 3, 9], limit=6))
    [(0, 2), (2, 3), (3, 4)]
    """
    start = 0
    for stop, length in enumerate(in_order):
        if stop > start and (stop + 1 - start) * length > limit:
            yield start, stop
            start = stop
    yield start, len(in_order)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Compute means (N, D) over the real items of values (N, L, D); zeros for a row without any.

    Args:
        values: (N, L, D) vectors.
        mask: (N, L) True = real.

    >>> import torch
    >>> masked_mean(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
    tensor([[2.]])
    """
    weights = mask.to(values.dtype)
    return (values * weights[..., None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1)


def masked_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Compute softmax weights (..., L) over real items, exactly 0 for others.

    Args:
        logits: (..., L).
        mask: (..., L) True = real, at least one a row.

    >>> import torch
    >>> masked_softmax(torch.tensor([-5.0, -5.0, 0.0]), torch.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    return logits.masked_fill(~mask, float("-inf")).softmax(-1)


def attend(alike: Tensor, mix: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Compute attention-weighted sums of similarities: n items, each over its L parts (X-CLIP, equations 7 to 12).

    The parts are the last axis but one, so that every step runs along contiguous memory.

    Args:
        alike: (..., L, n) similarities, zero where a part is not real.
        mix: (M, M) with M >= L; row i redistributes the weight of part i.
        mask: True = real, of a shape that broadcasts with `alike`.
        temperature: temperature of the softmax.

    Returns:
        (..., n), the sum over real parts of mixed weight times similarity.

    >>> import torch
    >>> alike, real = torch.tensor([[0.3], [0.1], [0.0]]), torch.tensor([[True], [True], [False]])
    >>> attend(alike, torch.eye(3), real, temperature=100.0)  # next to equal weights
    tensor([0.2001])
    >>> attend(alike, torch.eye(3), real, temperature=0.01)  # next to the maximum
    tensor([0.3000])
    """
    length = alike.shape[-2]
    forbidden = torch.zeros(mask.shape, dtype=alike.dtype, device=alike.device).masked_fill(~mask, float("-inf"))
    weights = torch.add(forbidden, alike, alpha=1 / temperature).softmax(-2)  # one pass, for this is all about memory
    # weights @ mix times similarity is weights times mix @ similarity, and padding, being zero, mixes nothing in.
    return (weights * (mix[:length, :length] @ alike)).sum(-2)
