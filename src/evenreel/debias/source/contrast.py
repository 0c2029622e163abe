"""Training against a preference for generated videos: Generative Ghost (arXiv 2502.07327), section 5.1.

    L = L_retrieval(V_R, C) + weight * sum_i m_i [r(G_i, C_i) - r(R_i, C_i)]_+

for triplets of a real video R_i, the generated video G_i that mirrors it, and the caption C_i of both. The published
term sets no limit to the lead of real videos: the model trained with it never ranks a generated video first (table 6),
the opposite bias. The form `neutral` has a cost for a gap on either side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from evenreel.debias.source.settings import SourceDebias
from evenreel.errors import UsageError
from evenreel.losses import source_hinge, source_neutral
from evenreel.matchers.batches import Counterparts, PairBatch
from evenreel.matchers.matcher import Matcher, Wrapper
from evenreel.similarity.tiles import State, chunks_of, evaluating

ROWS_AT_ONCE = 16
"""Pairs whose scores are calculated together: 16 x 16 scores for 16 that are wanted. Fewer make many small products, a
fifth slower with wti and x_pool; more take memory where a pair is a vector: t_mass holds 1.4 times what its own loss of
64 pairs does, and 1.7 times with 32."""


PRESETS: Mapping[str, SourceDebias] = {
    "paper": SourceDebias("hinge", weight=1.0, share=1.0, on="cosine", reduction="sum"),
    "release": SourceDebias("hinge", weight=0.002, share=0.5, on="logit", reduction="sum"),
    "neutral": SourceDebias(),
}
"""`paper`: what is printed. It has no weight and does not say how pairs add up; r is the score as the model gives it.

`release`: the code published with it, but for the logit scale, which there learns from the term too.

`neutral`: ours. A gap in logits is the logarithm of the odds that a softmax gives one video over the other, so the term
has the unit of the contrastive loss; and as a mean its slope by a pair's score is 1 over the batch size, the most that
the contrastive loss has. So at weight 1 neither outweighs the other, whatever the batch size and the temperature.
"""


class Debiased(Wrapper):
    """Matcher in training whose loss has a term against a preference for generated clips.

    Args:
        matcher: matcher to train, a `torch.nn.Module`; it encodes and scores as without this wrapper, which is not
            needed after training.
        settings: settings of the loss term.
    """

    def __init__(self, matcher: Matcher, settings: SourceDebias) -> None:
        super().__init__(matcher)
        self.settings = settings

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the wrapped matcher's loss terms, and the term `source` against a preference for generated clips.

        The pairs that the term is computed on are drawn from torch's global random state on the CPU, alike on all
        devices.

        Raises:
            UsageError: the batch has no counterparts.
        """
        if batch.counterpart is None:
            raise UsageError("Training with debias needs the counterparts of the videos, and the batch has none.")
        terms = self.matcher.loss(replace(batch, counterpart=None))
        real, generated = self._scores(batch, batch.counterpart)
        kept = self._sampled_pairs(batch.counterpart.present)
        return {**terms, "source": self.settings.weight * self._term(real, generated, kept)}

    def _scores(self, batch: PairBatch, other: Counterparts) -> tuple[Tensor, Tensor]:
        """Score each caption with the real and with the generated video of its pair, (B,) each.

        They are the scores that a search gives, in evaluation mode and in full precision: the gap is a small difference
        of two scores, and different dropout or rounding of the two is no preference.
        """
        with evaluating(self.matcher), torch.autocast(batch.text.sentence.device.type, enabled=False):
            text = self.matcher.encode_text(batch.text)
            own, counterpart = (
                paired_scores(self.matcher, text, self.matcher.encode_video(video))
                for video in (batch.video, other.video)
            )
        if self.settings.on == "logit":
            scale = self.logit_scale.detach().exp()
            own, counterpart = scale * own, scale * counterpart
        return torch.where(other.generated, counterpart, own), torch.where(other.generated, own, counterpart)

    def _sampled_pairs(self, present: Tensor) -> Tensor:
        """The pairs that take part in this step, (B,)."""
        if self.settings.share == 1:
            return present
        size = len(present)
        kept = torch.randperm(size) < max(1, round(self.settings.share * size))
        return present & kept.to(present.device)

    def _term(self, real: Tensor, generated: Tensor, kept: Tensor) -> Tensor:
        settings = self.settings
        if settings.form == "neutral":
            return source_neutral(real, generated, kept, settings.reduction)
        return source_hinge(real, generated, kept, settings.margin, settings.reduction)


def paired_scores(matcher: Matcher, text: State, video: State) -> Tensor:
    """Compute the score (B,) of each of B captions with the video of the same index.

    Args:
        matcher: matcher to score with.
        text: state of the B captions.
        video: state of the B videos.
    """
    pairs = zip(chunks_of(text, ROWS_AT_ONCE), chunks_of(video, ROWS_AT_ONCE), strict=True)
    return torch.cat([matcher.score(some, others).diagonal() for some, others in pairs])
