"""Means and softmax weights over real words, frames or windows."""

from __future__ import annotations

from torch import Tensor


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
