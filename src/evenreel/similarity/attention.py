"""Attention over similarities (AOSM of X-CLIP, arXiv 2207.07285, equations 7 to 12)."""

from __future__ import annotations

import torch
from torch import Tensor


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
