"""Report of test-time training: each step, and whether the adapted model was kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from evenreel.adaptation.drift import Drift
from evenreel.adaptation.quality import QualityVerdict


class LabelRank(NamedTuple):
    """Mean rank of pseudo-labels by the bias correction, before and after its target stage.

    Attributes:
        before: mean rank, from 1, of the pseudo clip among the candidates of its caption, by the correction before it
            trained on them; ties share their mean rank.
        after: the same after it trained; 1 where every label has been learned.
        candidates: number n of candidates of each caption; the mean rank by chance is (n + 1) / 2.
        relabelled: share of the captions that got another clip than the one rematching gave them.
    """

    before: float
    after: float
    candidates: int
    relabelled: float

    @property
    def sentence(self) -> str:
        """Sentence on the mean ranks before and after training.

        >>> LabelRank(5.5, 1.25, 10, 0.04).sentence.split("; ")
        ['pseudo clips rank 5.50 of 10 before it trained on them, 1.25 after (chance 5.5)', '4.0 % got another clip']
        """
        return (
            f"pseudo clips rank {self.before:.2f} of {self.candidates} before it trained on them, {self.after:.2f} "
            f"after (chance {(self.candidates + 1) / 2:g}); {100 * self.relabelled:.1f} % got another clip"
        )


@dataclass(frozen=True)
class AdaptationStep:
    """One step of adaptation: a batch of a stream (online), or a pass through all of it (offline).

    Attributes:
        number: number of the step, from 1.
        queries: number of queries labelled.
        pairs: number of pseudo-labels that were trained on, counterfactual captions included.
        counterfactual: number of captions from which an over-attended word was removed.
        coverage: share of the gallery's clips, 0 to 1, that are the pseudo clip of a query.
        gini: Gini coefficient of the number of matches a clip, 0 where all have as many.
        loss: mean loss over the batches, by the name of the term.
        labels: (id of a query, id of its pseudo clip) before any was left out, without counterfactual captions.
        verdict: adapted model against the source, on queries that it was not trained on; None where not measured.
        served: `adapted` or `source`, the model that is served from here on.
        label_rank: rank of the pseudo-labels among their candidates before and after the target stage of the bias
            correction, counterfactual captions included; None without it.
    """

    number: int
    queries: int
    pairs: int = 0
    counterfactual: int = 0
    coverage: float | None = None
    gini: float | None = None
    loss: dict[str, float] = field(default_factory=dict)
    labels: tuple[tuple[str, str], ...] = ()
    verdict: QualityVerdict | None = None
    served: str = "adapted"
    label_rank: LabelRank | None = None


@dataclass(frozen=True)
class AdaptReport:
    """Report of the adaptation to a whole stream.

    Attributes:
        kept: whether the final model is the adapted one, or the source.
        sentence: whether it was kept, and why.
        steps: steps of the adaptation, in order.
        drift: shift of captions and clips from the source's; None where not measured.
        moved: norm of the change of the trained weights, as a share of the norm of all weights.
        first_changed: share of the queries whose first clip is another than the source's: online as each batch was
            answered, offline by the final model.
    """

    kept: bool
    sentence: str
    steps: tuple[AdaptationStep, ...]
    drift: Drift | None = None
    moved: float = 0.0
    first_changed: float = 0.0

    def to_json(self, labels: bool = False) -> dict[str, Any]:
        """Return the report as a dictionary that JSON can hold; pseudo-labels only where `labels` is set."""
        found = asdict(self)
        if not labels:
            for step in found["steps"]:
                del step["labels"]
        return found
