"""Settings of test-time training; every ablation of TITAN is one of its settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from evenreel.adaptation.titan.counterfactuals import CounterfactualSettings
from evenreel.adaptation.titan.matching import MatchSettings
from evenreel.config import (
    ABOVE_0,
    ABOVE_0_TO_1,
    MOST_BITS,
    SHARE,
    TRUE_OR_FALSE,
    check_settings,
    one_of,
    whole,
)
from evenreel.errors import UsageError

Objective = Literal["pseudo_labels", "rotation", "ttt", "ttt_flow"]
Decides = Literal["correction", "ranks"]
"""Who chooses among candidates, see `AdaptSettings.decides`."""
Learns = Literal["all", "heads", "norms", "text", "auto"]


@dataclass(frozen=True)
class SafetySettings:
    """Settings of the safeguards against harm by adaptation; none of them is in the paper.

    Attributes:
        keep: share of the pseudo-labels that is trained on: those whose query and clip rank each other highest, by the
            sum of both ranks; `causal` may choose another clip for such a query. Above 0; 1 keeps all.
        teacher: share of the old average that stays in the moving average of the weights at each optimiser step (mean
            teacher, arXiv 1703.01780); the average labels and predicts. 0 for none: the trained weights do.
        held_out: offline, share of the queries that is never trained on, to measure quality on. Online, quality is
            measured on each batch before it is trained on.
        roll_back: serve the source's ranking as long as label-free quality has not risen significantly. Online it is
            measured over all batches so far, a model that gets worse after it was better is rolled back too, and
            training goes on from where it is.
        drift: leave the model as it is where captions and clips do not differ significantly from the stored statistics
            of the source.
        confidence: confidence of the interval of quality's rise, and of the test for drift. Online both are repeated
            for each batch, so that chance has more than one try.

    Raises:
        UsageError: a value is out of its range.
    """

    keep: float = 0.7
    teacher: float = 0.9
    held_out: float = 0.25
    roll_back: bool = True
    drift: bool = True
    confidence: float = 0.95

    def __post_init__(self) -> None:
        ranges = {
            "keep": ABOVE_0_TO_1,
            "teacher": SHARE,
            "held_out": SHARE,
            "roll_back": TRUE_OR_FALSE,
            "drift": TRUE_OR_FALSE,
            "confidence": SHARE,
        }
        check_settings("safety", self, ranges)
        if self.roll_back and not self.held_out:
            raise UsageError(
                "Whether quality rose is measured on queries that nothing was learned from, and held_out is 0; set it "
                "to a share above 0, or roll_back to false."
            )


UNSAFE = SafetySettings(keep=1.0, teacher=0.0, held_out=0.0, roll_back=False, drift=False)
"""Nothing, as in the paper."""


@dataclass(frozen=True)
class FitSettings:
    """Settings of training one stage of the bias correction (section 3.3); the paper gives none of these numbers.

    Attributes:
        steps: steps of Adam, in the target stage each time that pseudo-labels are made; 0 trains nothing.
        lr: learning rate of Adam.
        batch_size: number of matching pairs a step; as many unmatched pairs are added.
        seed: random seed of the stage, added to the seed of the settings that hold it.

    Raises:
        UsageError: a value is out of its range.
    """

    steps: int = 1000
    lr: float = 1e-3
    batch_size: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        ranges = {"steps": whole(0), "lr": ABOVE_0, "batch_size": whole(2), "seed": whole(0, MOST_BITS)}
        check_settings("causal_fit", self, ranges)


@dataclass(frozen=True)
class AdaptSettings:
    """Settings of test-time training on one stream.

    Attributes:
        objective: how to learn: `pseudo_labels`, symmetric InfoNCE on pseudo-labels (TITAN, and the naive baseline);
            `rotation`, a rotation of all captions towards the clips that an optimal transport assigns to them, once an
            epoch; or a baseline without labels of any kind, `ttt` (TTT++) or `ttt_flow` (TTTFlow).
        protocol: `offline`: train on all queries, then predict all; `online`: train and predict batch by batch, in the
            order in which queries came.
        predict: for `online`, whether a batch is predicted `after` the model was trained on it, as in the paper, or
            `before`, as for a user whose query is answered at once.
        learns: weights that may change: `all`; `heads`, the maps in front of the matcher; `norms`, scales and shifts of
            layer norms; `text`, the map of captions alone, so that a gallery need not be encoded again (unless a
            matcher reads on-screen text, which goes through this map too); `auto`, the heads where there are any, else
            all.
        lr: learning rate of Adam; the default is the paper's.
        batch_size: number of queries a batch; the default is the paper's.
        steps: number of optimiser steps for each batch, online.
        epochs: number of passes through all queries, offline, with new pseudo-labels each time.
        bank: number of latest queries that ranks are counted among (more where a batch is larger); it bounds memory to
            a few tables of `bank` x V.
        ranks: whether the rank of a query for a clip is counted among the latest queries (`bank`) or in its batch
            alone.
        matching: how a query gets its pseudo clip; `one_way` is the naive first clip. The objective `rotation` uses
            only its temperature.
        alike: for `rotation`, the least cosine of two queries, less the mean of all, that count as one.
        counterfactuals: settings of training on captions without their over-attended words too; None for none.
        causal: whether the bias correction of the source checkpoint chooses among the likeliest clips.
        causal_fit: for `causal`, settings of training the target stage of the correction.
        decides: for `causal`, what chooses: the `correction` alone, or the sum of its `ranks` and the matcher's.
        safety: safeguards, see `SafetySettings`.
        seed: seed of batches, of held-out queries, and of the views of `ttt`.

    Raises:
        UsageError: a value is out of its range.
    """

    objective: Objective = "pseudo_labels"
    protocol: Literal["offline", "online"] = "offline"
    predict: Literal["after", "before"] = "after"
    learns: Learns = "all"
    lr: float = 1e-5
    batch_size: int = 128
    steps: int = 1
    epochs: int = 1
    bank: int = 4096
    ranks: Literal["bank", "batch"] = "bank"
    matching: MatchSettings = field(default_factory=MatchSettings)
    alike: float = 0.75
    counterfactuals: CounterfactualSettings | None = field(default_factory=CounterfactualSettings)
    causal: bool = True
    causal_fit: FitSettings = field(default_factory=FitSettings)
    decides: Decides = "correction"
    safety: SafetySettings = field(default_factory=SafetySettings)
    seed: int = 0

    def __post_init__(self) -> None:
        ranges = {
            "objective": one_of("pseudo_labels", "rotation", "ttt", "ttt_flow"),
            "protocol": one_of("offline", "online"),
            "predict": one_of("after", "before"),
            "learns": one_of("all", "heads", "norms", "text", "auto"),
            "lr": ABOVE_0,
            "batch_size": whole(2),
            "steps": whole(1),
            "epochs": whole(1),
            "bank": whole(2),
            "ranks": one_of("bank", "batch"),
            "alike": ABOVE_0_TO_1,
            "causal": TRUE_OR_FALSE,
            "decides": one_of("correction", "ranks"),
            "seed": whole(0, MOST_BITS),
        }
        check_settings("adaptation", self, ranges)

    @property
    def online(self) -> bool:
        """Whether queries are answered batch by batch as they come."""
        return self.protocol == "online"


def naive(settings: AdaptSettings) -> AdaptSettings:
    """Return the settings changed to naive pseudo-labels: each query's first clip, without rematching or correction."""
    return replace(settings, matching=MatchSettings(match="one_way"), counterfactuals=None, causal=False)
