"""The loss of most matchers: InfoNCE of the scores of a batch, with a trained temperature."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from evenreel.losses import info_nce
from evenreel.matchers.batches import PairBatch
from evenreel.matchers.matcher import Matcher


def logit_scale_at(temperature: float) -> nn.Parameter:
    """Make the parameter `Matcher.logit_scale`, the logarithm of 1 / temperature, for training to start from.

    >>> round(logit_scale_at(0.01).exp().item())
    100
    """
    return nn.Parameter(torch.tensor(-math.log(temperature)))


def contrastive(matcher: Matcher, batch: PairBatch) -> dict[str, Tensor]:
    """Compute the InfoNCE of the matcher's scores, as the one term of its loss."""
    scores = matcher.score(matcher.encode_text(batch.text), matcher.encode_video(batch.video))
    return {"contrastive": info_nce(scores, batch.same, matcher.logit_scale.exp())}
