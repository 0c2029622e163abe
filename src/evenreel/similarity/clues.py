"""Rows of a video weighted by a caption: the arithmetic behind TCD's scores of pairs (Zhao et al., AAAI 2026).

All of TCD depends on the pair, since a caption weighs frames and windows before anything else happens to them. But a
weight only scales a vector, and maps of vectors are linear: what attention, keys and values make of frames and windows
can be made once for a video, and a pair needs weighted sums of it. What is left for the pair are tables of rows by
rows, and the few maps of what comes after a softmax.

Letters: a chunk has v videos and q captions; a row is one of l, and takes of k others; h heads.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from evenreel.similarity.pooling import masked_softmax


class RowTerms(NamedTuple):
    """Vectors of rows before they are weighted, behind a linear map; `RowWeights` says how they are summed.

    Attributes:
        own: (v, l, D) of each row itself, or (v, 0, D).
        other: (v, k, D) of the other modality, which rows take from.
    """

    own: Tensor
    other: Tensor


class RowWeights(NamedTuple):
    """Weights of the rows of videos by captions: row l is `own_l own[l] + sum_k mix_lk other_k other[k]`.

    Attributes:
        own: (v, q, l) weights of rows; (v, q, 0) where rows are only what they take.
        other: (v, q, k) weights of what they take.
        mix: (v, l, k), or (v, q, l, k) where captions change it: how much of each they take.
        mask: (v, l) True = real.
    """

    own: Tensor
    other: Tensor
    mix: Tensor
    mask: Tensor


def conditioned(sentence: Tensor, rows: Tensor, mask: Tensor, tau: float, certainty: Tensor | None = None) -> Tensor:
    """Compute weights of frames or windows by their similarity to captions (equation 2), summing to 1.

    Args:
        sentence: (q, D) of unit length.
        rows: (v, l, D) of unit length.
        mask: (v, l) True = real.
        tau: temperature.
        certainty: (v, l) logarithms of further weights of rows; None for none.

    Returns:
        (v, q, l).
    """
    logits = torch.einsum("qd,vld->vql", sentence, rows) / tau
    if certainty is not None:
        logits = logits + certainty[:, None]
    return masked_softmax(logits, mask[:, None].expand_as(logits))


def taken(shares: Tensor, weighing: RowWeights) -> tuple[Tensor, Tensor]:
    """Turn weights of rows (v, q, h, l) into weights of own vectors (v, q, h, l) and of other vectors (v, q, h, k)."""
    own = shares[..., : weighing.own.shape[-1]] * weighing.own[:, :, None]
    return own, mixed(shares, weighing.mix) * weighing.other[:, :, None]


def row_logits(own: Tensor, other: Tensor, weighing: RowWeights) -> Tensor:
    """Compute products with weighted rows, (v, q, h, l), from products with own and other vectors."""
    of_other = mixed(other * weighing.other[:, :, None], weighing.mix.mT)
    return own * weighing.own[:, :, None] + of_other if weighing.own.shape[-1] else of_other


def mixed(shares: Tensor, mix: Tensor) -> Tensor:
    """Multiply weights of rows (v, q, h, l) by what they take, (v, l, k) or (v, q, l, k): (v, q, h, k)."""
    if mix.dim() == shares.dim():
        return shares @ mix
    videos, captions, heads, length = shares.shape
    return (shares.reshape(videos, captions * heads, length) @ mix).view(videos, captions, heads, -1)


def summed(shares: tuple[Tensor, Tensor], rows: RowTerms) -> Tensor:
    """Sum own and other vectors with weights by head: (v, q, D), of which each of h heads has D / h numbers."""
    return _summed(shares[0], rows.own) + _summed(shares[1], rows.other)


def products(query: Tensor, rows: Tensor, heads: int) -> Tensor:
    """Compute dot products by head of queries (v, q, D) and rows (v, l, D): (v, q, h, l)."""
    return torch.einsum("vqhd,vlhd->vqhl", by_head(query, heads), by_head(rows, heads))


def by_head(rows: Tensor, heads: int) -> Tensor:
    """Split vectors (..., D) by head: (..., h, D / h)."""
    return rows.view(*rows.shape[:-1], heads, rows.shape[-1] // heads)


def mean_row(weighing: RowWeights, rows: RowTerms) -> Tensor:
    """Compute the mean of the real weighted rows, (v, q, D)."""
    count = weighing.mask.sum(1).to(weighing.own.dtype)[:, None, None, None]
    shares = (weighing.mask[:, None, None] / count).expand(-1, weighing.own.shape[1], -1, -1)
    return summed(taken(shares, weighing), rows)


def every_row(weighing: RowWeights, rows: RowTerms) -> Tensor:
    """Compute the weighted rows themselves, (v, q, l, D), for what needs more than sums of them."""
    of_other = weighing.mix[:, None] if weighing.mix.dim() == 3 else weighing.mix
    others = (of_other * weighing.other[:, :, None]) @ rows.other[:, None]
    return weighing.own[..., None] * rows.own[:, None] + others if weighing.own.shape[-1] else others


def _summed(shares: Tensor, rows: Tensor) -> Tensor:
    return torch.einsum("vqhl,vlhd->vqhd", shares, by_head(rows, shares.shape[2])).flatten(2)
