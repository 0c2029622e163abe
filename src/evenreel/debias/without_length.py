"""Removal, from frames, of what their clip's length explains beyond its caption.

It is the backdoor adjustment of frame-length bias (equation 5) without dividing the clips; not from the paper. Over the
training pairs, with the mean frame x_i of a clip, its caption's sentence y_i, its length l_i and the rank r_i of that
among the training clips,

    x_i = a + B y_i + sum over k = 1 to K of c_k T_k(2 r_i - 1) + e_i

is fitted by least squares, T_k the Chebyshev polynomials. The sum over k, less its mean, is subtracted from every
frame, in training and in search, and frames are scaled to unit length again. A regression on lengths alone would also
remove content, where lengths go with what happens; the captions in the regression keep it (Frisch and Waugh 1933). It
needs captions and lengths, no classes and no other split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.config import check_settings, whole
from evenreel.errors import UsageError
from evenreel.matchers.batches import TextBatch, VideoBatch, pretrained_mean_of
from evenreel.matchers.matcher import Matcher, Wrapper
from evenreel.similarity.interaction import masked_mean

KNOTS = 1_001
"""Quantiles of the training lengths that ranks are looked up among."""


@dataclass(frozen=True)
class LengthRemoval:
    """Settings of removing the effect of clips' lengths from frames."""

    # number K of polynomials of the rank of a length. More of them follow an effect that rises and falls more often
    terms: Annotated[int, whole(1, 64)] = 9

    def __post_init__(self) -> None:
        check_settings("without_length", self)


class WithoutLength(Wrapper):
    """Matcher that removes the effect of a clip's length from its frames (D numbers); before `fit_pairs`, nothing."""

    knots: Tensor
    effect: Tensor

    def __init__(self, matcher: Matcher, dimension: int, settings: LengthRemoval) -> None:
        super().__init__(matcher)
        self.register_buffer("knots", torch.zeros(KNOTS))
        self.register_buffer("effect", torch.zeros(1 + settings.terms, dimension))

    def fit_pairs(self, pairs: Callable[[], Iterable[tuple[TextBatch, VideoBatch]]]) -> None:
        """Fit the effect of lengths on frames to all captions with their videos, in batches; they are asked for twice.

        Raises:
            UsageError: all videos have one length, no text tower has read the captions, or there are too few pairs.
        """
        spans = torch.cat([spans_s(video) for _, video in pairs()]).double()
        if spans.min() == spans.max():
            raise UsageError("All training clips have one length, which explains nothing: set without_length to null.")
        self.knots.copy_(torch.quantile(spans, torch.linspace(0, 1, KNOTS, dtype=torch.float64)))
        self.effect.copy_(
            length_effect(
                (self._terms(spans_s(video)), text.sentence, masked_mean(video.frames, video.frame_mask))
                for text, video in pairs()
            )
        )

    def adapt_video(self, video: VideoBatch) -> VideoBatch:
        """Remove the effect of length from the frames of videos, which keep unit length."""
        explained = self._terms(spans_s(video)).to(self.effect.dtype) @ self.effect
        frames = F.normalize(video.frames - explained[:, None], dim=-1).masked_fill(~video.frame_mask[..., None], 0.0)
        mean = pretrained_mean_of(video) if self.limits.pretrained_mean else None
        return replace(video, frames=frames, pretrained_mean=mean)

    def _terms(self, spans: Tensor) -> Tensor:
        """(V, 1 + K) Chebyshev polynomials of the ranks of lengths (V,) among those of the training clips."""
        spans = spans.to(self.knots.dtype)
        places = sum(torch.searchsorted(self.knots, spans, right=right) for right in (False, True))
        angles = torch.arccos((torch.as_tensor(places) / KNOTS - 1).clamp(-1, 1).double())
        return torch.cos(angles[:, None] * torch.arange(len(self.effect), device=angles.device))


def spans_s(video: VideoBatch) -> Tensor:
    """Return the seconds between the first and the last frame of each video, (V,)."""
    first = video.times_s.masked_fill(~video.frame_mask, float("inf")).amin(1)
    return video.times_s.masked_fill(~video.frame_mask, float("-inf")).amax(1) - first


def length_effect(pairs: Iterable[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Fit the effect of length on mean frames beyond that of captions, by least squares.

    Args:
        pairs: for B pairs at a time, terms (B, 1 + K) of the length, the first of which is 1, the sentence vectors (B,
            C) of captions, and the mean frames (B, D) of clips.

    Returns:
        (1 + K, D) coefficients of the terms, in float64; the effect has a mean of 0 over all pairs.

    Raises:
        UsageError: sentences have no numbers, or there are not twice as many pairs as numbers to fit.
    """
    count, squares, products, terms = 0, torch.zeros(()), torch.zeros(()), 0
    for lengths, sentences, means in pairs:
        if not sentences.shape[1]:
            raise UsageError(
                "No text tower has read these captions (they are beside features that others computed), and "
                "without_length compares lengths with what captions say: set it to null."
            )
        known = torch.cat([lengths, sentences], dim=1).double()
        squares, products = squares + known.T @ known, products + known.T @ means.double()
        count, terms = count + len(known), lengths.shape[1]
    if count < 2 * len(squares):
        raise UsageError(
            f"There are {count:,} training pairs, too few to tell what lengths explain from what captions do; "
            f"without_length needs {2 * len(squares):,}."
        )
    found: Tensor = (torch.linalg.pinv(squares, rtol=1e-10, hermitian=True) @ products)[:terms]
    found[0] = -(squares[0, 1:terms] / count) @ found[1:]
    return found
