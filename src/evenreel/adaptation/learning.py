"""Weights that may change at test time, and the optimiser that changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from evenreel.adaptation.settings import AdaptSettings, Learns, Objective
from evenreel.arrays import Indices
from evenreel.errors import UsageError
from evenreel.matchers.adapter import Adapted
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch, text_batch, to_device, video_batch
from evenreel.matchers.matcher import Matcher, contrastive
from evenreel.similarity.tiles import device_of, evaluating
from evenreel.types import TextFeatures, VideoFeatures


class UnpairedLoss(Protocol):
    """Loss of captions and clips that needs no pairs (TTT++, TTTFlow)."""

    def __call__(self, matcher: Matcher, text: TextBatch, video: VideoBatch) -> dict[str, Tensor]:
        """Compute named terms, each with its weight."""


def learnable(matcher: Any, learns: Learns, objective: Objective = "pseudo_labels") -> list[nn.Parameter]:
    """Return the weights of a matcher that may change at test time, in a fixed order, without the temperature.

    Raises:
        UsageError: the matcher has none of this kind, or none that the objective depends on.
    """
    named = {name: weight for name, weight in matcher.named_parameters() if name.split(".")[-1] != "logit_scale"}
    kept = _names(matcher, learns, set(named))
    if not kept:
        raise UsageError(_NOTHING[learns])
    if objective != "pseudo_labels" and not kept & _names(matcher, "heads", set(named)):
        raise UsageError(
            f"The objective {objective} moves nothing but the adapter in front of the matcher, and here that is not "
            "there or may not learn; train the matcher with an adapter, let that learn (learns: heads), or adapt by "
            "pseudo-labels."
        )
    return [weight for name, weight in named.items() if name in kept]


_NO_WEIGHTS = "The matcher has no weights that could learn; put an adapter in front of it."
_NOTHING: dict[Learns, str] = {
    "all": _NO_WEIGHTS,
    "auto": _NO_WEIGHTS,
    "heads": "The matcher has no adapter, whose maps are to learn; choose all, or train one with an adapter.",
    "norms": "The matcher has no layer norm that could learn; choose all or heads.",
    "text": (
        "The matcher has no map of captions apart from that of frames; only with an adapter that is not shared can a "
        "gallery stay as it is encoded."
    ),
}


def _names(matcher: Any, learns: Learns, names: set[str]) -> set[str]:
    if learns == "auto":
        return _names(matcher, "heads", names) or names
    if learns == "all":
        return names
    if learns == "norms":
        norms = [name for name, part in matcher.named_modules() if isinstance(part, nn.LayerNorm)]
        return {name for name in names if name.rpartition(".")[0] in norms}
    if not isinstance(matcher, Adapted):
        return set()
    shared = matcher.text_map is matcher.frame_map
    maps = ("text_map.",) if learns == "text" else ("text_map.", "frame_map.")
    return set() if learns == "text" and shared else {name for name in names if name.startswith(maps)}


class Learner:
    """Adam for the weights of a matcher, which is trained in evaluation mode, without dropout.

    Args:
        matcher: matcher whose weights change.
        settings: weights to change, learning rate and batch size.
        unpaired: loss that the method `unpaired` minimises.
        stepped: called after each optimiser step.

    Raises:
        UsageError: no weight may change (`learnable`), or weights are not finite after a step.
    """

    def __init__(
        self,
        matcher: Any,
        settings: AdaptSettings,
        unpaired: UnpairedLoss | None = None,
        stepped: Callable[[], None] = lambda: None,
    ) -> None:
        self._matcher, self._settings, self._unpaired, self._after = matcher, settings, unpaired, stepped
        self._weights = learnable(matcher, settings.learns, settings.objective)
        for weight in matcher.parameters():
            weight.requires_grad_(False)
        for weight in self._weights:
            weight.requires_grad_(True)
        self._optimiser = torch.optim.Adam(self._weights, lr=settings.lr)
        self._rng = np.random.default_rng(settings.seed)

    def paired(self, texts: TextFeatures, columns: Indices, videos: VideoFeatures) -> dict[str, float]:
        """Train on captions with pseudo clips by symmetric InfoNCE; captions of one clip are no negatives.

        The paper does not name its loss; this is the one that most matchers are trained with.

        Args:
            texts: features of N captions.
            columns: (N,) column of each caption's clip.
            videos: features of the gallery.

        Returns:
            Mean loss over the batches, by the name of the term.
        """
        terms = [self._pair_step(texts, columns, videos, rows) for rows in self._rounds(len(columns))]
        return _means(terms)

    def unpaired(self, texts: TextFeatures, videos: VideoFeatures) -> dict[str, float]:
        """Train by a loss without labels: each batch of captions with as many clips drawn at random."""
        assert self._unpaired is not None
        terms = []
        for rows in self._rounds(len(texts.ids)):
            size = min(len(rows), len(videos.ids))
            columns = np.sort(self._rng.choice(len(videos.ids), size, replace=False))
            with evaluating(self._matcher):
                found = self._unpaired(self._matcher, self._text(texts, rows), self._video(videos, columns))
                terms.append(self._optimiser_step(found))
        return _means(terms)

    def _rounds(self, count: int) -> Iterator[Indices]:
        """Rows of batches, `steps` times all of them in another order."""
        size = self._settings.batch_size
        for _ in range(self._settings.steps):
            order = self._rng.permutation(count)
            for start in range(0, count, size):
                if len(rows := order[start : start + size]) > 1:
                    yield rows

    def _pair_step(
        self, texts: TextFeatures, columns: Indices, videos: VideoFeatures, rows: Indices
    ) -> dict[str, float]:
        clips = columns[rows]
        same = torch.from_numpy(clips[:, None] == clips)
        batch = PairBatch(self._text(texts, rows), self._video(videos, clips), same.to(device_of(self._matcher)))
        with evaluating(self._matcher):
            return self._optimiser_step(contrastive(self._matcher, batch))

    def _text(self, texts: TextFeatures, rows: Indices) -> TextBatch:
        return to_device(text_batch(texts, rows), device_of(self._matcher))

    def _video(self, videos: VideoFeatures, rows: Indices) -> VideoBatch:
        return to_device(video_batch(videos, rows), device_of(self._matcher))

    def _optimiser_step(self, terms: dict[str, Tensor]) -> dict[str, float]:
        self._optimiser.zero_grad()
        torch.stack([term.float() for term in terms.values()]).sum().backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        if not all(bool(weight.isfinite().all()) for weight in self._weights):
            raise UsageError(
                f"Some weights are no finite numbers after a step with the learning rate {self._settings.lr:g}; choose "
                "a smaller one (lr)."
            )
        self._after()
        return {name: float(term.detach()) for name, term in terms.items()}


def _means(terms: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in terms])) for name in (terms[0] if terms else {})}
