"""Lower bounds of the mutual information of two vectors, to be maximised (TITAN, MM 2023, equation 14).

The paper names the estimator of variational information distillation (VID, Ahn et al., CVPR 2019, arXiv 1904.05835,
equations 2 to 5): `I(t; c) = H(t) - H(t | c) >= H(t) + E log q(t | c)`, for any `q`; with a Gaussian `q` whose mean is
made of `c` and whose variance is one learned number for each dimension. `H(t)` is not changed by what is learned as
long as nothing is learned through `t`, and is then left out. InfoNCE (arXiv 1807.03748) needs no model of `t`, and
cannot say more than the logarithm of the number of rows that it tells apart.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

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
