"""A single vector for each caption and each video, for the parts of test-time training that compare whole items."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from evenreel.errors import UsageError
from evenreel.matchers.adapter import Adapted
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import Matcher
from evenreel.similarity.interaction import masked_mean


def text_vectors(matcher: Matcher, text: TextBatch) -> Tensor:
    """Compute a unit vector (Q, D) for each caption: its sentence vector after the matcher's adapter.

    Every matcher that takes features of captions has it, whatever it does with words later.

    Raises:
        UsageError: the matcher reads role graphs and takes no features of captions.
    """
    if matcher.limits.graphs:
        raise UsageError(
            "This matcher reads role graphs and no features of captions; bias correction and the alignment of features "
            "need these. Adapt it by pseudo-labels alone."
        )
    mapped = matcher.adapt_text(text) if isinstance(matcher, Adapted) else text
    return F.normalize(mapped.sentence, dim=-1)


def video_vectors(matcher: Matcher, video: VideoBatch) -> Tensor:
    """Compute a unit vector (V, D) for each video: the mean of its unit frames after the matcher's adapter."""
    mapped = matcher.adapt_video(video) if isinstance(matcher, Adapted) else video
    return F.normalize(masked_mean(F.normalize(mapped.frames, dim=-1), mapped.frame_mask), dim=-1)
