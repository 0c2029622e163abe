"""What every retrieval model is."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch


@runtime_checkable
class Matcher(Protocol):
    """A `torch.nn.Module` with the methods below; states are named tuples of tensors (`evenreel.similarity.states`).

    In evaluation mode nothing is random: equal states give equal scores, whatever the tile they are scored in.
    """

    logit_scale: Tensor
    """Logarithm of the factor on similarities in the loss; training keeps it at most ln 100."""

    def encode_text(self, text: TextBatch) -> Any:
        """All that a caption needs, once: a state with Q rows."""

    def encode_video(self, video: VideoBatch) -> Any:
        """All that a video needs, once: a state with V rows."""

    def score(self, text: Any, video: Any) -> Tensor:
        """States of captions and videos -> (Q, V) similarities, higher is better, without the logit scale."""

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Named terms, each with its weight; training minimises their sum."""
