"""Frames and windows of a video weighted by a caption: the arithmetic of TCD's scores (Zhao et al., AAAI 2026).

All of TCD depends on the pair, since a caption weighs frames and windows before anything else happens to them. But a
weight only scales a vector, and maps of vectors are linear: what attention, keys and values make of frames and windows
can be made once for a video, and a pair needs weighted sums of it. What is left for the pair are tables of rows by
rows, and the few maps of what comes after a softmax.

Letters: a chunk has v videos and q captions; a video has l rows (of one modality), which attend to k rows (of the
other); h heads.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from evenreel.similarity.pooling import masked_softmax


class RowTerms(NamedTuple):
    """Linearly mapped frames or windows of v videos before captions weight them; `RowWeights` says how they are summed.

    Attributes:
        own: (v, l, D) vectors of the rows themselves, or (v, 0, D) for none.
        other: (v, k, D) vectors of the other modality, which rows attend to.
    """

    own: Tensor
    other: Tensor


class RowWeights(NamedTuple):
    """Weights that q captions give to the rows (frames or windows) of v videos.

    Row l of a pair is `own_l own[l] + sum_k mix_lk other_k other[k]`, with the vectors of `RowTerms`.

    Attributes:
        own: (v, q, l) weights of the rows themselves; (v, q, 0) where rows are made of the other modality alone.
        other: (v, q, k) weights of the rows of the other modality.
        mix: attention of rows to those of the other modality, (v, l, k), or (v, q, l, k) where captions change it.
        mask: (v, l) True = real.
    """

    own: Tensor
    other: Tensor
    mix: Tensor
    mask: Tensor


def conditioned(sentence: Tensor, rows: Tensor, mask: Tensor, tau: float, certainty: Tensor | None = None) -> Tensor:
    """Compute weights of frames or windows by their similarity to captions (TCD, equation 2), summing to 1 over rows.

    Args:
        sentence: (q, D) captions of unit length.
        rows: (v, l, D) frames or windows of unit length.
        mask: (v, l) True = real.
        tau: temperature.
        certainty: (v, l) logarithms of further weights of rows; None for none.

    Returns:
        (v, q, l) weights.
    """
    logits = torch.einsum("qd,vld->vql", sentence, rows) / tau
    if certainty is not None:
        logits = logits + certainty[:, None]
    return masked_softmax(logits, mask[:, None].expand_as(logits))


def taken(shares: Tensor, weighing: RowWeights) -> tuple[Tensor, Tensor]:
    """Convert weights of combined rows (v, q, h, l) to weights of the vectors that rows are combined from.

    Args:
        shares: (v, q, h, l) weights of rows (frames or windows), for v videos, q captions and h heads.
        weighing: how captions combine rows from vectors of both modalities.

    Returns:
        Weights of own vectors (v, q, h, l), and of vectors of the other modality (v, q, h, k).
    """
    own = shares[..., : weighing.own.shape[-1]] * weighing.own[:, :, None]
    return own, mixed(shares, weighing.mix) * weighing.other[:, :, None]


def row_logits(own: Tensor, other: Tensor, weighing: RowWeights) -> Tensor:
    """Compute the dot products of a query with combined rows, (v, q, h, l), without making the rows.

    Args:
        own: (v, q, h, l) products with the rows' own vectors.
        other: (v, q, h, k) products with vectors of the other modality.
        weighing: weights by which rows are combined from both.
    """
    of_other = mixed(other * weighing.other[:, :, None], weighing.mix.mT)
    return own * weighing.own[:, :, None] + of_other if weighing.own.shape[-1] else of_other


def mixed(shares: Tensor, mix: Tensor) -> Tensor:
    """Multiply weights of rows (v, q, h, l) by their attention to the other modality: (v, q, h, k).

    Args:
        shares: (v, q, h, l) weights of rows.
        mix: attention, (v, l, k), or (v, q, l, k) where captions change it.
    """
    if mix.dim() == shares.dim():
        return shares @ mix
    videos, captions, heads, length = shares.shape
    return (shares.reshape(videos, captions * heads, length) @ mix).view(videos, captions, heads, -1)


def summed(shares: tuple[Tensor, Tensor], rows: RowTerms) -> Tensor:
    """Sum vectors of frames and windows with the weights of h attention heads, for v videos and q captions.

    Args:
        shares: weights of the l own vectors (v, q, h, l), and of the k vectors of the other modality (v, q, h, k).
        rows: vectors of the videos, own (v, l, D) and of the other modality (v, k, D); each head sums D / h of their
            numbers.

    Returns:
        (v, q, D) sums, those of the heads side by side.
    """
    return _summed(shares[0], rows.own) + _summed(shares[1], rows.other)


def products(query: Tensor, rows: Tensor, heads: int) -> Tensor:
    """Compute the dot products of queries (v, q, D) and rows (v, l, D) in each of h heads: (v, q, h, l)."""
    return torch.einsum("vqhd,vlhd->vqhl", by_head(query, heads), by_head(rows, heads))


def by_head(rows: Tensor, heads: int) -> Tensor:
    """Split vectors (..., D) into heads: (..., h, D / h)."""
    return rows.view(*rows.shape[:-1], heads, rows.shape[-1] // heads)


def mean_row(weighing: RowWeights, rows: RowTerms) -> Tensor:
    """Compute, for each pair of a video and a caption, the mean of the rows as the caption weights them: (v, q, D).

    Args:
        weighing: weights of v videos' rows (frames or windows) by q captions.
        rows: vectors that the rows are combined from.
    """
    count = weighing.mask.sum(1).to(weighing.own.dtype)[:, None, None, None]
    shares = (weighing.mask[:, None, None] / count).expand(-1, weighing.own.shape[1], -1, -1)
    return summed(taken(shares, weighing), rows)


def every_row(weighing: RowWeights, rows: RowTerms) -> Tensor:
    """Compute, for each pair of a video and a caption, the rows (frames or windows) as the caption weights them.

    Args:
        weighing: weights of v videos' rows by q captions.
        rows: vectors that the rows are combined from.

    Returns:
        (v, q, l, D) combined rows.
    """
    of_other = weighing.mix[:, None] if weighing.mix.dim() == 3 else weighing.mix
    others = (of_other * weighing.other[:, :, None]) @ rows.other[:, None]
    return weighing.own[..., None] * rows.own[:, None] + others if weighing.own.shape[-1] else others


def _summed(shares: Tensor, rows: Tensor) -> Tensor:
    return torch.einsum("vqhl,vlhd->vqhd", shares, by_head(rows, shares.shape[2])).flatten(2)
