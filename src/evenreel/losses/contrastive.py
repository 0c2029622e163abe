"""Losses of the scores of pairs: InfoNCE, bounds of mutual information, and the gap between a pair's two sources.

`info_nce` is what every matcher is trained with (CLIP, arXiv 2103.00020, figure 3).

The two bounds of the mutual information of two vectors are to be maximised (TITAN, MM 2023, equation 14). The paper
names the estimator of variational information distillation (VID, Ahn et al., CVPR 2019, arXiv 1904.05835, equations 2
to 5): `I(t; c) = H(t) - H(t | c) >= H(t) + E log q(t | c)`, for any `q`; with a Gaussian `q` whose mean is made of `c`
and whose variance is one learned number for each dimension. `H(t)` is not changed by what is learned as long as nothing
is learned through `t`, and is then left out. InfoNCE (arXiv 1807.03748) needs no model of `t`, and cannot say more than
the logarithm of the number of rows that it tells apart.

The losses against a preference for generated videos (Generative Ghost, arXiv 2502.07327, section 5.1) are of the gap of
a pair, `r(G, C) - r(R, C)`: by how much the generated video G fits a caption C better than the real video R that G
mirrors. Both answer the caption equally well, so whatever the gap is, it is not relevance.
"""

from __future__ import annotations

import math
from typing import Literal

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


LEAST_VARIANCE = 1e-5
"""What VID's published code adds to each variance."""


def gaussian_log_likelihood(values: Tensor, means: Tensor, raw_variances: Tensor) -> Tensor:
    """Compute `E log q(t | c)` in nats a dimension: the mean over rows and dimensions of a Gaussian's log density.

    The paper of VID sums over dimensions; its published code, as here, takes their mean, so that the weight of the term
    means the same at every D. The bound of the mutual information is D times this number plus the entropy of `values`.

    Args:
        values: (B, D), the vectors `t`.
        means: (B, D), predicted from the vectors `c`.
        raw_variances: (D,) of any sign; the variances are their softplus.

    Returns:
        A number, in the type of the values.

    >>> import torch
    >>> rows = torch.zeros(4, 3)
    >>> one = torch.full((3,), 1.0).expm1().log()  # of which the softplus is 1
    >>> round(gaussian_log_likelihood(rows, rows + 1, one).item(), 3)  # of a standard one at 1: -(1 + log 2 pi) / 2
    -1.419
    """
    variances = F.softplus(raw_variances) + LEAST_VARIANCE
    squares = (values - means).square() / variances
    return -0.5 * (squares + variances.log() + math.log(2 * math.pi)).mean()


def info_nce_bound(scores: Tensor, same: Tensor | None = None) -> Tensor:
    """Compute the InfoNCE bound of the mutual information, `log B + mean_i log softmax_j(f_ij)_i`, in nats.

    It is at most `log B`, and at most the mutual information in the mean over batches, whatever the scores are.

    Args:
        scores: (B, B) logits `f(t_i, c_j)`, those of matching rows on the diagonal.
        same: (B, B) True where rows i and j have one value; they are no negatives of each other, and `B` counts only
            the others and the row itself. None where all differ.

    Returns:
        A number, in the type of the scores.

    >>> import torch
    >>> round(info_nce_bound(100 * torch.eye(4)).item(), 4)  # each finds its own: log 4
    1.3863
    >>> info_nce_bound(torch.zeros(4, 4)).item()
    0.0
    >>> pairs = torch.tensor([0, 1, 0, 1])  # each value twice: itself and two others are left, log 3
    >>> round(info_nce_bound(100.0 * (pairs[:, None] == pairs), pairs[:, None] == pairs).item(), 4)
    1.0986
    """
    others = torch.zeros_like(scores, dtype=torch.bool) if same is None else same.clone().fill_diagonal_(False)
    counts = (~others).sum(1).to(scores)
    found = scores.masked_fill(others, -math.inf).log_softmax(1).diagonal()
    return (counts.log() + found).mean()


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
