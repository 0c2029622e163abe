"""The ranking loss of HGR (Chen et al., CVPR 2020), and the choice of its positive and negative pairs in a batch.

A matching pair has to lead every other pair of its row and its column by a margin; the loss is what a lead lacks.
Relevance-aware mining (Falcon et al., arXiv 2203.08688) looks at how far a pair is relevant first: RAN takes no
relevant pair as a negative; RANP also has the lowest relevant pair lead the negatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from evenreel.config import ABOVE_0_TO_1, check_settings, number
from evenreel.errors import UsageError

_MARGIN = number("of 0 to 2", lambda value: 0 <= value <= 2)
"""Two cosines differ by no more."""
Mining = Literal["hardest", "all", "ran", "ranp"]
BY_RELEVANCE: tuple[Mining, ...] = ("ran", "ranp")
"""The kinds of mining that ask for degrees of relevance."""


@dataclass(frozen=True)
class RankingSettings:
    """Settings of the ranking loss; defaults are those of HGR, thresholds those that the frame-length paper prints.

    Attributes:
        margin: Delta, by how much a matching pair has to lead a negative, in the unit of the scores.
        mining: `hardest`: the negative with the highest score of each row and column; `all`: each of them; `ran`: the
            hardest of those that are not relevant; `ranp`: as `ran`, and the relevant pair with the lowest score has to
            lead the negatives too.
        tau_neg: least relevance with which `ran` and `ranp` do not take a pair as a negative.
        tau_pos: least relevance with which `ranp` takes a pair as one that has to lead the negatives.
        margin_pos: by how much such a pair of `ranp` has to lead.
        diagonal_only: spare the own pair of each row and column alone, as the published code of HGR and of RAN does, so
            that a clip which a caption describes as well (its text is equal, or the clip the same) is a negative; false
            spares that too.
    """

    margin: Annotated[float, _MARGIN] = 0.2
    mining: Mining = "hardest"
    tau_neg: Annotated[float, ABOVE_0_TO_1] = 0.75
    tau_pos: Annotated[float, ABOVE_0_TO_1] = 0.20
    margin_pos: Annotated[float, _MARGIN] = 0.2
    diagonal_only: bool = False

    def __post_init__(self) -> None:
        check_settings("the ranking loss", self)


RANKING_PRESETS: Mapping[str, RankingSettings] = {
    "paper": RankingSettings(mining="ranp", tau_neg=0.75, tau_pos=0.20),
    "paper_margin": RankingSettings(mining="ranp", tau_neg=0.75, tau_pos=0.75, margin_pos=0.20),
    "release_ran": RankingSettings(mining="ran", tau_neg=0.75),
    "release_ranp": RankingSettings(mining="ranp", tau_neg=0.40, tau_pos=0.40, margin_pos=0.20),
}
"""Relevance-aware mining on EPIC-KITCHENS-100; `dataclasses.asdict` makes settings of a recipe of one.

`paper`: RANP as the frame-length paper prints it, negatives by 0.75 and positives by 0.20.

`paper_margin`: the same, if its 0.20 is the margin of the positives, which is what it is in the code of RANP.

`release_ran`, `release_ranp`: the published code of RAN, with which the paper agrees, and that of RANP, which has one
threshold for both.
"""


def ranking_hinge(
    scores: Tensor, same: Tensor, settings: RankingSettings = RankingSettings(), relevance: Tensor | None = None
) -> dict[str, Tensor]:
    """Compute the ranking loss of a batch: hinges by which matching pairs fail to lead negatives, in float32.

    A video that a caption also describes is no negative of it, unless `diagonal_only` is set.

    A row without a negative costs nothing, and one without another relevant pair has no positive; both still count as
    rows. Pairs with equal scores share the gradient.

    Args:
        scores: (B, B) similarities, a caption a row and a video a column, the matching pairs on the diagonal.
        same: (B, B) True where caption i describes video j; the diagonal is taken as True.
        settings: margins, and which pairs are positives and negatives.
        relevance: (B, B) degrees, 0 to 1, to which video j answers caption i; only `ran` and `ranp` look at them.

    Returns:
        The terms `text_to_video` and `video_to_text`; of `ranp` also `text_to_video_positive` and
        `video_to_text_positive`. The loss is their sum.

    Raises:
        UsageError: the mining needs degrees of relevance, and there are none.

    >>> import torch
    >>> scores = torch.tensor([[0.6, 0.5, 0.1], [0.2, 0.7, 0.3], [0.9, 0.0, 0.8]])
    >>> terms = ranking_hinge(scores, torch.eye(3, dtype=torch.bool))
    >>> # rows: 0.2 + 0.5 - 0.6, nothing, 0.2 + 0.9 - 0.8; columns: 0.2 + 0.9 - 0.6, 0.2 + 0.5 - 0.7, nothing
    >>> {name: round(3 * term.item(), 4) for name, term in terms.items()}
    {'text_to_video': 0.4, 'video_to_text': 0.5}
    """
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    values, negatives, positives = scores.float(), ~own if settings.diagonal_only else ~(same | own), None
    if settings.mining in BY_RELEVANCE:
        if relevance is None:
            raise UsageError(
                f"The mining {settings.mining} needs degrees of relevance, and the batch has none; give the corpus "
                "verb and noun classes, or choose the mining hardest."
            )
        negatives = negatives & (relevance < settings.tau_neg)
        positives = ~own & (relevance >= settings.tau_pos)
    cost = lead_all if settings.mining == "all" else lead_hardest
    terms = {
        "text_to_video": cost(values.diagonal(), values, negatives, settings.margin),
        "video_to_text": cost(values.diagonal(), values.T, negatives.T, settings.margin),
    }
    if positives is not None and settings.mining == "ranp":
        terms["text_to_video_positive"] = lowest_leads(values, negatives, positives, settings.margin_pos)
        terms["video_to_text_positive"] = lowest_leads(values.T, negatives.T, positives.T, settings.margin_pos)
    return terms


def lead_hardest(leading: Tensor, scores: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """Compute the hinge `mean_i [margin + max_j scores_ij - leading_i]_+` over rows, j the negatives of row i.

    Args:
        leading: (B,) scores that have to lead, infinite where nothing has to.
        scores: (B, B) similarities.
        negatives: (B, B) True = negative; a row without any costs 0.
        margin: by how much `leading` has to lead, in the unit of the scores.
    """
    hardest = scores.masked_fill(~negatives, -torch.inf).amax(dim=1)
    return (margin + hardest - leading).relu().mean()


def lead_all(leading: Tensor, scores: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """Compute the hinge `mean_i mean_j [margin + scores_ij - leading_i]_+` over rows, j the negatives of row i.

    Where all other pairs are negatives it is the published sum over B(B - 1). Every row has the same weight, however
    many negatives it has.

    Args:
        leading: (B,) scores that have to lead, infinite where nothing has to.
        scores: (B, B) similarities.
        negatives: (B, B) True = negative; a row without any costs 0.
        margin: by how much `leading` has to lead, in the unit of the scores.
    """
    costs = (margin + scores - leading[:, None]).relu().masked_fill(~negatives, 0.0)
    return (costs.sum(1) / negatives.sum(1).clamp(min=1)).mean()


def lowest_leads(scores: Tensor, negatives: Tensor, positives: Tensor, margin: float) -> Tensor:
    """Compute by how much the lowest positive of each row fails to lead the hardest negative (RANP's second term).

    A pair that is positive and negative, as the printed thresholds allow, is no negative here, for no pair can lead
    itself.

    Args:
        scores: (B, B) similarities.
        negatives: (B, B) True = negative.
        positives: (B, B) True = relevant, without the diagonal.
        margin: by how much a positive has to lead, in the unit of the scores.

    Returns:
        The mean over rows of the hinges.
    """
    lowest = scores.masked_fill(~positives, torch.inf).amin(dim=1)
    return lead_hardest(lowest, scores, negatives & ~positives, margin)
