"""Label-free quality of a ranking, and comparison of two rankings by it.

None of it is accuracy. Agreement asks whether the first clip of a query has that query among its own best, coverage
whether queries are spread over clips, entropy how undecided the scores are. A model that collapses onto a few clips
loses the first two; one that forgets loses them or becomes undecided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from scipy.stats import t as student

from evenreel.arrays import Column

LEAST = 10
"""Queries of which an interval is given: of two that rise alike Student's t would say that it is sure."""


@dataclass(frozen=True, eq=False)
class Quality:
    """Label-free quality of a ranking, with a number for each of Q queries.

    Attributes:
        agreement: (Q,) 1 over the rank of the query for its first clip, above 0 and at most 1.
        coverage: (Q,) 1 over the number of queries with the same first clip; its sum is the number of first clips.
        entropy: (Q,) entropy of the softmax of the query's scores, in nats.
    """

    agreement: Column
    coverage: Column
    entropy: Column

    @property
    def means(self) -> dict[str, float]:
        """Mean over the queries of each measure, by its name."""
        return {name: float(values.mean()) for name, values in vars(self).items()}


class MeanChange(NamedTuple):
    """Mean difference of a measure between two models, with the ends of its interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class QualityVerdict:
    """Verdict on whether a model is better than another, by measures that need no labels.

    Attributes:
        better: whether agreement rose significantly, and neither coverage fell nor entropy rose significantly.
        changes: differences by the name of the measure.
    """

    better: bool
    changes: dict[str, MeanChange]


def quality(scores: NDArray[np.floating], scale: float, rows: slice = slice(None)) -> Quality:
    """Compute the label-free quality of scores: agreement, coverage and entropy of each query.

    Args:
        scores: (N, V) scores, finite.
        scale: factor on the scores in the softmax, the same for all models that are compared.
        rows: queries to measure; the rank of a query is counted among all N.

    >>> found = quality(np.array([[0.9, 0.1], [0.8, 0.2]]), scale=1.0)
    >>> found.agreement.tolist(), found.coverage.tolist()
    ([1.0, 0.5], [0.5, 0.5])
    """
    asked = scores[rows]
    first = asked.argmax(axis=1)
    columns, place = np.unique(first, return_inverse=True)
    ranks = rankdata(-scores[:, columns], method="average", axis=0)[rows]
    logits = scale * asked.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    weights = np.exp(logits)
    total = weights.sum(axis=1)
    entropy = np.log(total) - (weights * logits).sum(axis=1) / total
    return Quality(1 / ranks[np.arange(len(asked)), place], 1 / np.bincount(place)[place], entropy)


def compared(new: Quality, old: Quality, confidence: float) -> QualityVerdict:
    """Compare the label-free quality of two models query by query, with Student's intervals.

    Intervals have no ends for fewer than `LEAST` queries.
    """
    changes = {name: _change(getattr(new, name) - getattr(old, name), confidence) for name in vars(new)}
    fell = changes["coverage"].high < 0 or changes["entropy"].low > 0
    return QualityVerdict(changes["agreement"].low > 0 and not fell, changes)


def of_both(first: Quality, second: Quality) -> Quality:
    """Concatenate the qualities of two sets of queries."""
    return Quality(*(np.concatenate([getattr(first, name), getattr(second, name)]) for name in vars(first)))


def _change(values: Column, confidence: float) -> MeanChange:
    mean = float(values.mean())
    if len(values) < LEAST:
        return MeanChange(mean, -np.inf, np.inf)
    half = float(student.ppf(0.5 + confidence / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return MeanChange(mean, mean - half, mean + half)
