"""Losses against a preference for generated videos (Generative Ghost, arXiv 2502.07327, section 5.1).

The gap of a pair is `r(G, C) - r(R, C)`: by how much the generated video G fits a caption C better than the real video
R that G mirrors. Both answer the caption equally well, so whatever the gap is, it is not relevance.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Reduction = Literal["sum", "mean"]


def source_hinge(
    real: Tensor, generated: Tensor, kept: Tensor, margin: float = 0.0, reduction: Reduction = "sum"
) -> Tensor:
    """Compute the published loss, `sum_i m_i [r(G_i, C_i) - r(R_i, C_i) + margin]_+`: generated videos may not lead.

    It sets no limit to the lead of real videos, so training with it can end in a preference for them.

    Args:
        real: (B,) scores of captions and their real videos.
        generated: (B,) scores of the same captions and the generated videos that mirror these.
        kept: (B,) True = the pair counts, the paper's `m`.
        margin: lead of real videos from which the loss is 0.
        reduction: `sum`, which grows with the batch, or `mean` over the pairs that count.

    Returns:
        A number in float32; 0 where no pair counts.

    >>> import torch
    >>> real, generated = torch.tensor([0.5, 0.2, 0.1]), torch.tensor([0.3, 0.6, 0.9])
    >>> round(source_hinge(real, generated, torch.tensor([True, True, False])).item(), 4)  # 0.6 - 0.2 alone
    0.4
    """
    gap = generated.float() - real.float()
    return _reduced((gap + margin).relu(), kept, reduction)


def source_neutral(real: Tensor, generated: Tensor, kept: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Compute `mean_i |r(G_i, C_i) - r(R_i, C_i)|`, a loss by which neither generated nor real videos may lead.

    The gap is not squared, so that the slope is the same however large it is: pairs that differ in more than their
    source, of which any collection has some, do not outweigh all others.

    Args:
        real: (B,) scores of captions and their real videos.
        generated: (B,) scores of the same captions and the generated videos that mirror these.
        kept: (B,) True = the pair counts.
        reduction: `mean`, or `sum`, which grows with the batch.

    Returns:
        A number in float32; 0 where no pair counts.

    >>> import torch
    >>> real, generated = torch.tensor([0.5, 0.2, 0.1]), torch.tensor([0.3, 0.6, 0.9])
    >>> round(source_neutral(real, generated, torch.tensor([True, True, False])).item(), 4)  # the mean of 0.2 and 0.4
    0.3
    """
    return _reduced((generated.float() - real.float()).abs(), kept, reduction)


def _reduced(costs: Tensor, kept: Tensor, reduction: Reduction) -> Tensor:
    total = costs.masked_fill(~kept, 0.0).sum()
    return total if reduction == "sum" else total / kept.sum().clamp(min=1)
