"""Settings of test-time training; every ablation of TITAN is one of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from evenreel.adaptation.titan.counterfactuals import CounterfactualSettings
from evenreel.adaptation.titan.matching import MatchSettings
from evenreel.errors import UsageError
from evenreel.settings_checks import (
    ABOVE_0,
    ABOVE_0_TO_1,
    MOST_BITS,
    SHARE,
    TRUE_OR_FALSE,
    check_settings,
    one_of,
    whole,
)

Objective = Literal["pseudo_labels", "rotation", "ttt", "ttt_flow"]
Decides = Literal["correction", "ranks"]
"""Who chooses among candidates, see `AdaptSettings.decides`."""
Learns = Literal["all", "heads", "norms", "text", "auto"]


@dataclass(frozen=True)
class SafetySettings:
    """Safeguards against harm from an unhelpful stream; nothing of it is in the paper.

    Attributes:
        keep: share of the pseudo-labels that is learned from: those whose query and clip rank each other highest, by
            the sum of both ranks; `causal` may choose another clip for such a query. Above 0; 1 keeps all.
        teacher: how much of the old weights stays in their moving average at each step of the optimiser (mean
            teacher, arXiv 1703.01780); the average labels and predicts. 0 for none: the learned weights do.
        held_out: offline, share of the queries that is never learned from; on these quality is measured. Online it is
            measured on each batch before that is learned from.
        roll_back: give the source's ranking for as long as quality, as far as it shows without labels, has not risen.
            Online it is measured over all batches until now, a model that falls after it was better is rolled back
            too, and learning goes on from where it is.
        drift: leave the model as it is where captions and clips are like those of the source, as far as its stored
            statistics tell.
        confidence: of the interval that quality has to rise beyond, and of the test for drift. Online each batch asks
            anew, so that chance has more than one try at either.

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
        steps: steps of Adam, in the target stage each time that labels are made; 0 trains nothing.
        lr: learning rate of Adam.
        batch_size: matching pairs of a step; as many other pairs come on top.
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
        objective: what is learned: by symmetric InfoNCE on pseudo-labels (TITAN, and the naive baseline); `rotation`,
            one turn of all captions towards the clips that a transport assigns to them, each time that all is gone
            through; or a baseline without labels of any kind, `ttt` (TTT++) or `ttt_flow` (TTTFlow).
        protocol: `offline`: learn from all queries, then predict all; `online`: batch by batch, in the order in which
            queries came.
        predict: of `online`, whether a batch is predicted after the model has learned from it, as in the paper, or
            before, which is what a user sees who asks the first question.
        learns: which weights may change: `all`; `heads`, the maps in front of the matcher; `norms`, scales and shifts
            of layer norms; `text`, the map of captions alone, so that a gallery need not be encoded again (but where a
            matcher reads on-screen text, which this maps too); `auto`, the heads where there are any, else all.
        lr: of Adam; the paper's.
        batch_size: queries of a batch; the paper's.
        steps: of the optimiser, online for each batch.
        epochs: offline, how often all is gone through, with new pseudo-labels each time.
        bank: most queries that ranks are counted among, the latest (more where a batch is larger); it bounds memory to
            a few tables of `bank` x V.
        ranks: whether the rank of a query for a clip is counted among all that were seen so far or in its batch alone.
        matching: how a query gets its pseudo clip; `one_way` is the naive first clip. Of `rotation` only the
            temperature counts.
        alike: of `rotation`: cosine of two queries, less the mean of all, from which on they count once.
        counterfactuals: captions without their over-attended words are learned from too; None for none.
        causal: whether candidates are chosen among by the bias correction of the source checkpoint.
        causal_fit: of `causal`: how the target stage of the correction trains.
        decides: of `causal`: the correction alone, or its ranks of the candidates plus the matcher's.
        safety: safeguards, see `SafetySettings`.
        seed: of batches, of what is held out, and of the views of `ttt`.

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
        """Whether queries come one batch after the other."""
        return self.protocol == "online"


def naive(settings: AdaptSettings) -> AdaptSettings:
    """Return the settings with each query's first clip as its label: no rebalancing and no correction of bias."""
    return replace(settings, matching=MatchSettings(match="one_way"), counterfactuals=None, causal=False)
