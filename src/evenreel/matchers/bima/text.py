"""Content and bias of the words of a caption: BiMa's text half (arXiv 2506.03589, section 3.3).

The paper splits the text encoder in two and says no more of it. Here both parts are heads of its words. That of the
content is a residual map whose last layer starts at zero (`evenreel.matchers.adapter.ResidualMap`), so that training
starts at the words of the tower; that of the bias is here.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

LARGEST_LOG_VARIANCE = 10.0
"""Of either sign: past it a step too far would be no number any more."""


class Gaussian(NamedTuple):
    """Independent normal distributions (..., D).

    Attributes:
        mu: (..., D) means.
        log_variance: (..., D), log sigma^2.
    """

    mu: Tensor
    log_variance: Tensor

    @property
    def sigma(self) -> Tensor:
        """Standard deviations (..., D)."""
        return (0.5 * self.log_variance).exp()

    def draw(self) -> Tensor:
        """Draw random numbers (..., D), `mu + sigma * epsilon` (equation 10), with the global random state."""
        return self.mu + self.sigma * torch.randn_like(self.mu)


class BiasHead(nn.Module):
    """Network that maps words (..., D), with entries of size one, to the distribution of their bias (equation 9).

    It starts as the standard normal distribution for every word.
    """

    def __init__(self, dimension: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(dimension, dimension), nn.GELU(), nn.Dropout(dropout))
        self.mu, self.log_variance = nn.Linear(dimension, dimension), nn.Linear(dimension, dimension)
        for last in (self.mu, self.log_variance):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, words: Tensor) -> Gaussian:
        """Compute the distribution of the bias of words: mean and log variance, (..., D) each."""
        hidden = self.hidden(words)
        log_variance = self.log_variance(hidden).clamp(-LARGEST_LOG_VARIANCE, LARGEST_LOG_VARIANCE)
        return Gaussian(self.mu(hidden), log_variance)


def mean_draw(bias: Gaussian, ids: Sequence[str], draws: int, seed: int) -> Tensor:
    """Compute the mean (Q, W, D) of random draws of the bias of Q captions; with 0 draws its mean `mu`.

    The draws of a caption depend on its id, not on other captions of the batch.

    Args:
        bias: distribution of the bias, (Q, W, D).
        ids: Q ids of captions.
        draws: number of draws.
        seed: seed of the draws.
    """
    if not draws:
        return bias.mu
    words, dimension = bias.mu.shape[1:]
    # By word first: the noise of a word does not depend on how far other captions make this one be padded.
    noise = [_stream(seed, one).standard_normal((words, draws, dimension)).mean(1) for one in ids]
    return bias.mu + bias.sigma * torch.from_numpy(np.stack(noise)).to(bias.mu)


def _stream(seed: int, caption_id: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(caption_id.encode())])
