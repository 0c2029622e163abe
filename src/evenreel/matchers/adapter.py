"""Trainable maps of features in front of a matcher, so that one with few parameters can be trained on frozen features.

The map is residual and its last layer starts as zero (as in Houlsby et al., arXiv 1902.00751, and CLIP-Adapter, arXiv
2110.04544), so that training starts at the wrapped matcher.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.config import SHARE, check_settings
from evenreel.errors import UsageError
from evenreel.matchers.batches import TextBatch, VectorMap, VideoBatch, pretrained_mean_of
from evenreel.matchers.matcher import Matcher, Wrapper


@dataclass(frozen=True)
class AdapterSettings:
    """Settings of the residual maps in front of a matcher.

    Attributes:
        kind: `linear`, or `mlp` with one hidden layer of D units and GELU; `none` for no map, where only `windows` is
            wanted.
        shared: one map for both sides, instead of one for text features (words, sentences, on-screen windows) and one
            for frames.
        dropout: share of the hidden units of `mlp` that are dropped while training.
        windows: add on-screen windows to the frames, for matchers that do not read windows themselves.
    """

    kind: Literal["linear", "mlp", "none"] = "linear"
    shared: bool = False
    dropout: Annotated[float, SHARE] = 0.0
    windows: bool = False

    def __post_init__(self) -> None:
        check_settings("the adapter", self)
        if self.kind == "none" and not self.windows:
            raise UsageError(
                "The setting kind of the adapter is 'none', which changes nothing without windows; set windows to "
                "true, or leave the adapter out."
            )


class ResidualMap(nn.Module):
    """Residual map of unit vectors to unit vectors, x -> x + f(x); inside, they are scaled to entries of size one."""

    def __init__(self, dimension: int, settings: AdapterSettings) -> None:
        super().__init__()
        self.scale = math.sqrt(dimension)
        last = nn.Linear(dimension, dimension)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        before: list[nn.Module] = []
        if settings.kind == "mlp":
            before = [nn.Linear(dimension, dimension), nn.GELU(), nn.Dropout(settings.dropout)]
        self.change = nn.Sequential(*before, last)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Map vectors (..., D) of any length to unit length; zero where the mask (...) is False."""
        unit = self.scale * F.normalize(vectors, dim=-1)
        return F.normalize(unit + self.change(unit), dim=-1).masked_fill(~mask[..., None], 0.0)


class NoMap(nn.Module):
    """Map that returns vectors unchanged, in place of a `ResidualMap`."""

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Return (..., D) unchanged."""
        return vectors


def identity(dimension: int, *, bias: bool = True) -> nn.Linear:
    """Return a linear layer (D) -> (D) that starts as the identity."""
    linear = nn.Linear(dimension, dimension, bias)
    nn.init.eye_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


def _map(dimension: int, settings: AdapterSettings) -> nn.Module:
    return NoMap() if settings.kind == "none" else ResidualMap(dimension, settings)


class Adapted(Wrapper):
    """Matcher that maps features by trained residual maps and passes them to the matcher it wraps.

    Its states are those of the wrapped matcher.
    """

    def __init__(self, matcher: Matcher, dimension: int, settings: AdapterSettings) -> None:
        super().__init__(matcher)
        self.windows = settings.windows
        self.limits = matcher.limits._replace(windows=settings.windows or matcher.limits.windows)
        self.text_map = _map(dimension, settings)
        self.frame_map = self.text_map if settings.shared else _map(dimension, settings)

    def adapt_text(self, text: TextBatch) -> TextBatch:
        """Map the words and sentences of captions; those of a matcher that reads role graphs stay unchanged."""
        return text if self.limits.graphs else map_captions(text, self.text_map)

    def adapt_video(self, video: VideoBatch) -> VideoBatch:
        """Map the frames and windows of videos, and put the windows among the frames where the settings say so."""
        mean = pretrained_mean_of(video) if self.limits.pretrained_mean else None
        mapped = replace(video, frames=self.frame_map(video.frames, video.frame_mask), pretrained_mean=mean)
        if (read := video.on_screen) is not None:
            mapped = replace(mapped, on_screen=replace(read, windows=self.text_map(read.windows, read.mask)))
        return with_windows(mapped) if self.windows else mapped


def map_captions(text: TextBatch, change: VectorMap) -> TextBatch:
    """Apply one map to the word vectors (Q, W, D) and sentence vectors (Q, D) of captions."""
    real = torch.ones_like(text.sentence[..., 0], dtype=torch.bool)
    return replace(text, words=change(text.words, text.word_mask), sentence=change(text.sentence, real))


def with_windows(video: VideoBatch) -> VideoBatch:
    """Append the on-screen windows of videos to their frames, as frames at time 0.

    Text on screen then takes part in any matcher that compares frames with words. Each video's windows follow its own
    last frame, so that their positions, for which a matcher may have parameters, do not depend on the other videos.

    Raises:
        UsageError: the videos have no windows.
    """
    if video.on_screen is None:
        raise UsageError(
            "On-screen windows were asked for, but the features of these videos have none; "
            "calculate the features with on-screen text, or set windows=false."
        )
    frames = torch.cat([video.frames, video.on_screen.windows.to(video.frames.dtype)], dim=1)
    mask = torch.cat([video.frame_mask, video.on_screen.mask], dim=1)
    times_s = torch.cat([video.times_s, video.times_s.new_zeros(video.on_screen.mask.shape)], dim=1)
    rows = torch.arange(len(mask), device=mask.device)[:, None]
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(mask.sum(1).max())]
    return replace(
        video,
        frames=frames[rows, order],
        frame_mask=mask[rows, order],
        times_s=times_s[rows, order],
        on_screen=None,
    )
