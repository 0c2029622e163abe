"""Training that knows neighbours and hubs: NeighborRetr (arXiv 2503.10526) around any matcher.

What is the paper's model, token clustering and a temporal transformer, is not here: the fine level of the paper is the
score of the matcher, and its coarse level is the cosine of the sentence and the mean frame, as the matcher is given
them. `evenreel.losses.neighbours` has the terms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.debias.without_habits import WithoutHabits
from evenreel.debias.without_length import WithoutLength
from evenreel.errors import UsageError
from evenreel.losses import (
    centrality_weighting,
    level_divergence,
    neighbour_adjusting,
    sample_centrality,
    transport_plan,
    uniform_regularisation,
)
from evenreel.matchers.adapter import Adapted
from evenreel.matchers.batches import PairBatch
from evenreel.matchers.matcher import Matcher
from evenreel.settings_checks import ABOVE_0, AT_LEAST_0, Allowed, check_settings, number, whole
from evenreel.similarity.pooling import masked_mean
from evenreel.similarity.states import mapped, row_count, take_rows, tensors_of

UP_TO_1: Allowed = number("between 0 and 1, both included", lambda value: 0 <= value <= 1)
MOST_REMEMBERED = 2**16


@dataclass(frozen=True)
class NeighbourSettings:
    """Settings of training that knows neighbours and hubs; the defaults are those of the published code.

    A term of weight 0 is not computed, and all of them at 0 are refused.

    Attributes:
        kappa: scale of the weights `exp(kappa * centrality)` of captions and videos in InfoNCE (section 4.2, equation
            3; `centrality_scale`); 0 leaves InfoNCE as it is.
        neighbour_weight: weight of the neighbour adjusting loss (section 4.3; `neighbor_weight`).
        neighbours: number of neighbours of each caption and video in a batch (`num_neighbors`).
        sharpness: factor before the softmax that weighs neighbours (equation 8; `temperature`).
        bank: most pairs of earlier batches, the newest, that centrality is measured with (`mb_batch`: 10 times 128).
        uniform_weight: weight of the uniform regularisation loss (section 4.4; `uniform_weight`).
        beta: share of the transport plan in its target (equation 10; `beta`).
        temperature: strength of the entropy of the plan, for cosines (`ot_temperature`).
        iterations: number of Sinkhorn's iterations (`num_iterations`).
        kl_weight: weight of the divergence of the coarse and the fine level (section 4.5; `kl_weight`); for `mean_pool`
            both are the same, and the term is 0.
    """

    kappa: float = 0.3
    neighbour_weight: float = 1.0
    neighbours: int = 20
    sharpness: float = 3.0
    bank: int = 1280
    uniform_weight: float = 1.0
    beta: float = 0.7
    temperature: float = 0.1
    iterations: int = 50
    kl_weight: float = 1.0

    def __post_init__(self) -> None:
        allowed = {
            **dict.fromkeys(("kappa", "neighbour_weight", "uniform_weight", "kl_weight"), AT_LEAST_0),
            "neighbours": whole(1),
            "sharpness": AT_LEAST_0,
            "bank": whole(1, MOST_REMEMBERED),
            "beta": UP_TO_1,
            "temperature": ABOVE_0,
            "iterations": whole(1, 10_000),
        }
        check_settings("neighbours", self, allowed)
        if not (self.kappa or self.neighbour_weight or self.uniform_weight or self.kl_weight):
            raise UsageError("All terms of neighbours have a weight of 0, which changes nothing; set it to null.")


class NeighbourBank:
    """States of the pairs of the latest batches, without gradients, the oldest first; bounded.

    Args:
        most: most pairs that are kept.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._batches: deque[tuple[list[Tensor], list[Tensor]]] = deque()

    def __len__(self) -> int:
        return sum(len(text[0]) for text, _ in self._batches)

    def add(self, text: Any, video: Any) -> None:
        """Add the states of a batch of pairs, and forget the oldest beyond the most."""
        newest = slice(max(0, row_count(text) - self.most), None)
        text, video = ([one.detach().clone() for one in tensors_of(take_rows(side, newest))] for side in (text, video))
        self._batches.append((text, video))
        while (spare := len(self) - self.most) > 0:
            oldest = self._batches.popleft()
            if spare < len(oldest[0][0]):
                self._batches.appendleft(([one[spare:] for one in oldest[0]], [one[spare:] for one in oldest[1]]))

    def states(self, text: Any, video: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the kept states, in batches; `text` and `video` are states of the same matcher that show their form."""
        for texts, videos in self._batches:
            yield _like(text, texts), _like(video, videos)

    def state_dict(self) -> list[tuple[list[Tensor], list[Tensor]]]:
        """Return what is kept, for a checkpoint."""
        return list(self._batches)

    def load_state_dict(self, state: list[tuple[list[Tensor], list[Tensor]]], device: torch.device | str) -> None:
        """Restore what a checkpoint has, on a device."""
        self._batches = deque(
            ([one.to(device) for one in text], [one.to(device) for one in video]) for text, video in state
        )


class Tables(NamedTuple):
    """What the terms of a batch of B pairs are computed from.

    Attributes:
        fine: (B, B) scores of the matcher.
        coarse: (B, B) cosines of whole captions and videos.
        captions: (B, D) unit vectors of whole captions.
        videos: (B, D) unit vectors of whole videos.
        scale: the matcher's factor on similarities, a constant here, or a flatter softmax would lower terms.
    """

    fine: Tensor
    coarse: Tensor
    captions: Tensor
    videos: Tensor
    scale: Tensor


class NeighbourTerms:
    """Loss terms that a matcher is trained with beside its own, and the memory bank that they need.

    The matcher's own loss stays; for one that is trained by InfoNCE the sum is the paper's loss. Nothing of this is
    needed after training.

    Args:
        matcher: matcher to train.
        settings: settings of the terms.
    """

    def __init__(self, matcher: Matcher, settings: NeighbourSettings) -> None:
        self.matcher, self.settings = matcher, settings
        self.bank = NeighbourBank(settings.bank)

    def terms(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the terms of a batch, and remember it in the bank if neighbours are adjusted.

        `centrality` is what the weights of section 4.2 add to InfoNCE; it is negative where they are mostly below 1.
        """
        text, video = self.matcher.encode_text(batch.text), self.matcher.encode_video(batch.video)
        fine = self.matcher.score(text, video).float()
        captions, videos = whole_vectors(self.matcher, batch)
        tables = Tables(fine, captions @ videos.T, captions, videos, self.matcher.logit_scale.detach().exp())
        settings, found = self.settings, dict[str, Tensor]()
        if settings.kappa:
            found["centrality"] = self._centrality(tables, batch.same)
        if settings.neighbour_weight:
            found["neighbours"] = settings.neighbour_weight * self._neighbours(fine, batch.same, text, video)
            self.bank.add(text, video)
        if settings.uniform_weight:
            found["uniform"] = settings.uniform_weight * self._uniform(tables, batch.same)
        if settings.kl_weight:
            found["levels"] = settings.kl_weight * _both(
                level_divergence(tables.scale * tables.coarse, tables.scale * fine, batch.same),
                level_divergence(tables.scale * tables.coarse.T, tables.scale * fine.T, batch.same.T),
            )
        return found

    def _centrality(self, tables: Tables, same: Tensor) -> Tensor:
        """What InfoNCE with weights is more than without, whose scale learns as that of InfoNCE does."""
        scale = self.matcher.logit_scale.exp()
        more = [
            (self.settings.kappa * sample_centrality(vectors, vectors)).expm1()
            for vectors in (tables.captions, tables.videos)
        ]
        return _both(
            centrality_weighting(tables.fine, same, more[0], scale),
            centrality_weighting(tables.fine.T, same.T, more[1], scale),
        )

    def _neighbours(self, fine: Tensor, same: Tensor, text: Any, video: Any) -> Tensor:
        """The items' centralities are their mean scores with the other side of the bank; of the batch, without one."""
        by_captions, by_videos = fine.mean(dim=0), fine.mean(dim=1)
        if len(self.bank):
            kept = list(self.bank.states(text, video))
            by_captions = torch.cat([self.matcher.score(one, video).float() for one, _ in kept]).mean(dim=0)
            by_videos = torch.cat([self.matcher.score(text, one).float() for _, one in kept], dim=1).mean(dim=1)
        count, sharpness = self.settings.neighbours, self.settings.sharpness
        return _both(
            neighbour_adjusting(fine, by_captions, same, count, sharpness),
            neighbour_adjusting(fine.T, by_videos, same.T, count, sharpness),
        )

    def _uniform(self, tables: Tables, same: Tensor) -> Tensor:
        settings, coarse = self.settings, tables.coarse
        others = same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)
        plan = transport_plan(coarse.masked_fill(others, float("-inf")), settings.temperature, settings.iterations)
        back = transport_plan(coarse.T.masked_fill(others.T, float("-inf")), settings.temperature, settings.iterations)
        return _both(
            uniform_regularisation(coarse, same, plan, settings.beta, tables.scale),
            uniform_regularisation(coarse.T, same.T, back, settings.beta, tables.scale),
        )


def whole_vectors(matcher: Matcher, batch: PairBatch) -> tuple[Tensor, Tensor]:
    """Compute a unit vector (B, D) of each caption, its sentence, and of each video, the mean of its unit frames.

    Adapters and removals of features before the matcher are applied, so that the vectors learn as these do.
    """
    text, video, inner = batch.text, batch.video, matcher
    while isinstance(inner, (Adapted, WithoutHabits, WithoutLength)):
        if isinstance(inner, Adapted):
            text, video = inner.adapt_text(text), inner.adapt_video(video)
        elif isinstance(inner, WithoutHabits):
            text = inner.cleared(text)
        else:
            video = inner.cleared(video)
        inner = inner.matcher
    frames = masked_mean(F.normalize(video.frames.float(), dim=-1), video.frame_mask)
    return F.normalize(text.sentence.float(), dim=-1), F.normalize(frames, dim=-1)


def _both(text_to_video: Tensor, video_to_text: Tensor) -> Tensor:
    return 0.5 * (text_to_video + video_to_text)


def _like(state: Any, tensors: list[Tensor]) -> Any:
    """Tensors in the form of a state."""
    rest = iter(tensors)
    return mapped(state, lambda _: next(rest))
