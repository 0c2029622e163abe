"""Settings of training against a preference for generated videos (`evenreel.debias.source.contrast`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenreel.config import AT_LEAST_0, check_settings, number, one_of
from evenreel.errors import UsageError


@dataclass(frozen=True)
class SourceDebias:
    """Settings of a loss term against a preference for generated clips; the defaults are the preset `neutral`.

    Attributes:
        form: `hinge`, generated videos may not score higher, as published; `neutral`, neither kind may.
        weight: weight lambda of the term.
        share: share of the batch that the term is computed on, drawn anew at each step.
        on: `logit`, scores times the logit scale, as in the contrastive loss; `cosine`, the scores themselves. The
            scale gets no gradient, or a flatter softmax would lower the term with the same ranking.
        reduction: `mean` over the pairs that count, or `sum`, which grows with the batch.
        margin: for `hinge`, by how much real videos have to lead, in the unit of `on`.
    """

    form: Literal["hinge", "neutral"] = "neutral"
    weight: float = 1.0
    share: float = 1.0
    on: Literal["logit", "cosine"] = "logit"
    reduction: Literal["sum", "mean"] = "mean"
    margin: float = 0.0

    def __post_init__(self) -> None:
        allowed = {
            "form": one_of("hinge", "neutral"),
            "weight": AT_LEAST_0,
            "share": number("above 0 and at most 1", lambda value: 0 < value <= 1),
            "on": one_of("logit", "cosine"),
            "reduction": one_of("sum", "mean"),
            "margin": AT_LEAST_0,
        }
        check_settings("debias", self, allowed)
        if self.margin and self.form == "neutral":
            raise UsageError("debias.margin is of the form hinge; set it to 0 for neutral, which lets neither lead.")
