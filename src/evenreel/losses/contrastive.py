"""The contrastive loss that every matcher is trained with (CLIP, arXiv 2103.00020, figure 3)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def info_nce(scores: Tensor, same: Tensor, logit_scale: Tensor | float = 1.0) -> Tensor:
    """Compute the symmetric InfoNCE loss: the mean over the batch and both directions, text to video and video to text.

    A caption that also describes another video of the batch does not have it as a negative. Computed in float32.

    Args:
        scores: (B, B) similarities, the matching pairs on the diagonal.
        same: (B, B) True where caption i describes video j; the diagonal is taken as True.
        logit_scale: factor on the similarities, 1 over the temperature.

    >>> import torch
    >>> alike = torch.zeros(4, 4)
    >>> round(info_nce(alike, torch.eye(4, dtype=torch.bool)).item(), 4)  # nothing is known: the logarithm of 4
    1.3863
    >>> round(info_nce(alike, torch.ones(4, 4, dtype=torch.bool)).item(), 4)  # no negative is left
    0.0
    """
    logits = scores.float() * logit_scale
    diagonal = torch.arange(len(logits), device=logits.device)
    others = same.clone()
    others[diagonal, diagonal] = False
    logits = logits.masked_fill(others, float("-inf"))
    return 0.5 * (F.cross_entropy(logits, diagonal) + F.cross_entropy(logits.T, diagonal))
