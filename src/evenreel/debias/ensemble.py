"""Matchers for strata of length, fused to one: the backdoor adjustment of frame-length bias (equation 5).

    P(Y | do(V, Q)) = sum_k P(L_k) f_k(V, Q)

Clips are divided into M strata by their length (`evenreel.debias.frame_length`), f_k is trained on the pairs of stratum
k alone, where length says little of the content, and all f_k score every pair. `Ensemble` keeps M matchers, so that a
video is encoded and kept M times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from evenreel.debias.frame_length import Fusion
from evenreel.errors import UsageError
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch
from evenreel.matchers.matcher import Limits, Matcher
from evenreel.similarity.tiles import chunks_of, row_count


class Ensemble(nn.Module):
    """Matcher that fuses the scores of several matchers of the same features; its states are tuples of theirs.

    Args:
        members: M matchers of the same kind of input.
        dimension: dimension D of the features.
        settings: weight, mean and scale of each member's scores.

    Raises:
        UsageError: there is no member, members take different features, or there is not one weight for each.
    """

    def __init__(self, members: Sequence[Matcher], dimension: int, settings: Fusion) -> None:
        super().__init__()
        if not members or len(members) != len(settings.weights):
            raise UsageError(
                f"An ensemble of {len(members)} matchers has {len(settings.weights)} weights; give one for each, and "
                "at least one matcher."
            )
        self.limits = _tightest([member.limits for member in members], dimension)
        self.settings = settings
        modules: Any = members
        self.members: Any = nn.ModuleList(modules)

    @property
    def logit_scale(self) -> Tensor:
        """Logit scale of the first member."""
        scale: Tensor = self.members[0].logit_scale
        return scale

    def encode_text(self, text: TextBatch) -> tuple[Any, ...]:
        """Encode captions with every member: a tuple of their states."""
        return tuple(member.encode_text(text) for member in self.members)

    def encode_video(self, video: VideoBatch) -> tuple[Any, ...]:
        """Encode videos with every member: a tuple of their states."""
        return tuple(member.encode_video(video) for member in self.members)

    def score(self, text: tuple[Any, ...], video: tuple[Any, ...]) -> Tensor:
        """Compute the fused similarities (Q, V) of encoded captions and videos, in two halves where there are several.

        The sum so far stands beside what a member takes for a moment; in halves, both keep to what a pair may take
        (`Matcher`), however deep ensembles are nested.
        """
        step = -(-row_count(text) // min(2, len(self.members)))
        return torch.cat([fused(self._scores(captions, video), self.settings) for captions in chunks_of(text, step)])

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the loss terms of a batch, the mean over members of each."""
        terms: dict[str, Tensor] = {}
        for member in self.members:
            for name, term in member.loss(batch).items():
                terms[name] = terms.get(name, 0) + term / len(self.members)
        return terms

    def _scores(self, text: tuple[Any, ...], video: tuple[Any, ...]) -> Iterator[Tensor]:
        for member, own_text, own_video in zip(self.members, text, video, strict=True):
            yield member.score(own_text, own_video)


def fused(scores: Iterable[Tensor], settings: Fusion) -> Tensor:
    """Compute fused scores (Q, V), `sum_k w_k (s_k - mean_k) / scale_k`, with one member's in memory at a time.

    Args:
        scores: (Q, V) scores of each member.
        settings: weight, mean and scale of each member's scores.

    >>> fused([torch.tensor([[0.2, 0.6]]), torch.tensor([[0.8, 0.4]])], Fusion((0.75, 0.25)))
    tensor([[0.3500, 0.5500]])
    """
    terms = settings.terms()
    total: Any = -sum(constant for _, constant in terms)
    for score, (factor, _) in zip(scores, terms, strict=True):
        total = total + factor * score
    return cast("Tensor", total)


def _tightest(limits: Sequence[Limits], dimension: int) -> Limits:
    """What every one of them can take."""
    if others := sorted({limit.dimension for limit in limits} - {dimension}):
        raise UsageError(
            f"A member of the ensemble takes features of {others[0]} numbers and the ensemble those of {dimension}; "
            "all members need the features of one encoder."
        )
    if len({limit.graphs for limit in limits}) > 1:
        raise UsageError(
            "Some members of the ensemble read the role graphs of captions and others their features; all members need "
            "to read the same."
        )
    return Limits(
        dimension,
        words=min((limit.words for limit in limits if limit.words is not None), default=None),
        frames=min((limit.frames for limit in limits if limit.frames is not None), default=None),
        windows=any(limit.windows for limit in limits),
        graphs=limits[0].graphs,
        pretrained_mean=any(limit.pretrained_mean for limit in limits),
    )
