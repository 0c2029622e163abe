"""Negative log likelihood of captions word by word, and the KL divergence of Gaussians (BiMa, arXiv 2506.03589).

Both add up over the tokens of a caption. The paper takes these sums as they are; a sum grows with the caption, and so
does what its weight means. The default is the mean over a caption's tokens; both take the mean over captions.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

Reduction = Literal["mean", "sum"]

LOGIT_BYTES = 2**26
"""Most memory for the logits of words at a time; their softmax and its gradient take as much again."""


def gaussian_kl(
    mu: Tensor, log_variance: Tensor, mask: Tensor, reduction: Reduction = "mean", free_nats: float = 0.0
) -> Tensor:
    """Compute the KL divergence of N(mu, sigma^2) from N(0, I), `1/2 sum_d (mu_d^2 + sigma_d^2 - 1 - log sigma_d^2)`.

    Args:
        mu: (B, L, D) means.
        log_variance: (B, L, D), log sigma^2.
        mask: (B, L) True = real, at least one a row.
        reduction: `mean` or `sum` over the tokens of a row.
        free_nats: least divergence that a token counts with, in nats.

    Returns:
        The mean over rows, in float32.

    >>> real = torch.ones(1, 2, dtype=torch.bool)
    >>> gaussian_kl(torch.zeros(1, 2, 8), torch.zeros(1, 2, 8), real).item()
    0.0
    >>> gaussian_kl(torch.ones(1, 2, 8), torch.zeros(1, 2, 8), real).item()  # half of 1 for each of 8
    4.0
    """
    mu, log_variance = mu.float(), log_variance.float()
    costs = 0.5 * (mu.square() + log_variance.exp() - 1 - log_variance).sum(-1)
    return _reduced(costs.clamp(min=free_nats) if free_nats else costs, mask, reduction)


def active_units(mu: Tensor, mask: Tensor, least: float = 0.01) -> Tensor:
    """Count the dimensions of a latent (out of D) that are in use: their means vary by more than `least` over tokens.

    (Burda et al., Importance Weighted Autoencoders, arXiv 1509.00519.) At 0 the latent has collapsed to its prior.

    Args:
        mu: (B, L, D) means.
        mask: (B, L) True = real.
        least: least variance over all real tokens.

    Returns:
        A number from 0 to D, in float32.

    >>> active_units(torch.tensor([[[0.0, 5.0], [1.0, 5.0]]]), torch.ones(1, 2, dtype=torch.bool)).item()
    1.0
    """
    mu, real = mu.float(), mask[..., None].float()
    count = real.sum().clamp(min=1)
    mean = (real * mu).sum((0, 1)) / count
    variance = (real * (mu - mean).square()).sum((0, 1)) / count
    return (variance > least).sum().float()


def overlap(content: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
    """Compute the mean squared cosine of the bias and the content of words, both centred over words, to be minimised.

    It is no term of the paper. A caption is written from the sum of content and bias, and a bias that repeats the
    content makes it louder against the noise of the draw. (After the difference loss of domain separation networks,
    arXiv 1608.06019, equation 5.)

    Args:
        content: (B, L, D); gets no gradient.
        bias: (B, L, D), mean of the latent of each word.
        mask: (B, L) True = real.

    Returns:
        A number from 0 to 1, in float32.

    >>> content = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])
    >>> real = torch.ones(1, 2, dtype=torch.bool)
    >>> round(overlap(content, 5 * content + 3, real).item(), 4), overlap(content, content.flip(-1), real).item()
    (1.0, 0.0)
    """
    said, held = content.detach()[mask].float(), bias[mask].float()
    return F.cosine_similarity(said - said.mean(0), held - held.mean(0), dim=-1).square().mean()


def token_nll(states: Tensor, words: Tensor, targets: Tensor, mask: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Compute the negative log likelihood of captions, `-sum_l log p(T_l | ...)` (equations 6, 8).

    `p` is the softmax of products with the word vectors. The products with all words of a vocabulary are made in
    chunks, and again for their gradient where there is more than one: at 128 captions of 32 words and 10,000 words of a
    vocabulary they would take 164 MB, several times over.

    Args:
        states: (B, L, D) states of the decoder before each word.
        words: (C, D) vectors of the vocabulary.
        targets: (B, L) numbers of the words that follow, from 0 to C - 1.
        mask: (B, L) True = real, at least one a row.
        reduction: `mean` or `sum` over the words of a caption.

    Returns:
        The mean over captions, in float32.

    >>> real = torch.ones(1, 3, dtype=torch.bool)
    >>> alike = token_nll(torch.zeros(1, 3, 4), torch.zeros(8, 4), torch.zeros(1, 3, dtype=torch.int64), real)
    >>> round(alike.item(), 4)  # nothing is known: the logarithm of 8
    2.0794
    """
    rows = max(1, LOGIT_BYTES // (4 * len(words)))
    parts = list(zip(torch.split(states[mask], rows), torch.split(targets[mask], rows), strict=True))
    if len(parts) == 1:
        costs = _costs(*parts[0], words)
    else:
        costs = torch.cat(
            [checkpoint(_costs, *part, words, use_reentrant=False, preserve_rng_state=False) for part in parts]
        )
    return _reduced(costs.new_zeros(mask.shape).masked_scatter(mask, costs), mask, reduction)


def _costs(states: Tensor, targets: Tensor, words: Tensor) -> Tensor:
    """(N, D) and (N,) -> (N,)."""
    return F.cross_entropy(F.linear(states, words).float(), targets, reduction="none")


def _reduced(costs: Tensor, mask: Tensor, reduction: Reduction) -> Tensor:
    totals = costs.masked_fill(~mask, 0.0).sum(1)
    return (totals if reduction == "sum" else totals / mask.sum(1).clamp(min=1)).mean()
