"""One vector for each caption and each video, for the parts of test-time training that compare whole items."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from evenreel.errors import UsageError
from evenreel.matchers.adapter import Adapted
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import Matcher
from evenreel.similarity.pooling import masked_mean


def text_vectors(matcher: Matcher, text: TextBatch) -> Tensor:
    """Compute sentence vectors (Q, D) after the matcher's adapter, of unit length.

    Whatever a matcher makes of words later, this is its feature of the whole caption, so it is there for every matcher
    that takes features of captions.

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
    """Compute means (V, D) of the unit frames after the matcher's adapter, of unit length."""
    mapped = matcher.adapt_video(video) if isinstance(matcher, Adapted) else video
    return F.normalize(masked_mean(F.normalize(mapped.frames, dim=-1), mapped.frame_mask), dim=-1)
