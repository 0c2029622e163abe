"""The loss of most matchers: InfoNCE of the scores of a batch, with a learned temperature."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from evenreel.losses import info_nce
from evenreel.matchers.batches import PairBatch
from evenreel.matchers.matcher import Matcher


def logit_scale_at(temperature: float) -> nn.Parameter:
    """Make the learned parameter `Matcher.logit_scale`, which starts as the logarithm of 1 / temperature.

    >>> round(logit_scale_at(0.01).exp().item())
    100
    """
    return nn.Parameter(torch.tensor(-math.log(temperature)))


def contrastive(matcher: Matcher, batch: PairBatch) -> dict[str, Tensor]:
    """Compute the InfoNCE loss of a matcher's scores of a batch, as a dictionary of one term."""
    scores = matcher.score(matcher.encode_text(batch.text), matcher.encode_video(batch.video))
    return {"contrastive": info_nce(scores, batch.same, matcher.logit_scale.exp())}
