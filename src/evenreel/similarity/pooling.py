"""Averages and weights over the words, frames or windows that are there."""

from __future__ import annotations

from torch import Tensor


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Compute the mean over the real items.

    Args:
        values: (N, L, D).
        mask: (N, L) True = real; a row without any gives zeros.

    Returns:
        (N, D).

    >>> import torch
    >>> masked_mean(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
    tensor([[2.]])
    """
    weights = mask.to(values.dtype)
    return (values * weights[..., None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1)


def masked_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Compute weights of the real items, summing to one; exactly zero for the others.

    Args:
        logits: (..., L).
        mask: (..., L) True = real, at least one a row.

    >>> import torch
    >>> masked_softmax(torch.tensor([-5.0, -5.0, 0.0]), torch.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    return logits.masked_fill(~mask, float("-inf")).softmax(-1)
