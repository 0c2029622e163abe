"""Comparison of systems that predicted windows for the same queries, query by query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evenreel.config import check_kind, check_named
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.intervals import GroupedMean, hits_interval, mean_interval
from evenreel.evaluation.moments.measured import MomentEvaluation
from evenreel.evaluation.moments.settings import parse_moment_metric
from evenreel.evaluation.results import Interval
from evenreel.evaluation.stats import holm, wilcoxon_test


@dataclass(frozen=True)
class MomentDifference:
    """Difference between a system and the first one in a metric of moments.

    Attributes:
        system: name of the system.
        metric: name of the metric.
        interval: difference in percentage points, with its interval.
        p_wilcoxon: p value of Wilcoxon's signed ranks over clips.
        p_holm: the same, adjusted for the number of systems compared.
    """

    system: str
    metric: str
    interval: Interval
    p_wilcoxon: float
    p_holm: float


def compare_moments(systems: Mapping[str, MomentEvaluation], confidence: float = 0.95) -> list[MomentDifference]:
    """Compare systems with the first of them on the same queries; intervals draw clips with all their queries.

    Args:
        systems: evaluations of the same queries by the names of the systems.
        confidence: confidence of the intervals.

    Raises:
        ScoresError: some searched all clips and others each query's own.
    """
    check_named(systems, "systems", "evaluations of moments by the names of their systems", "evaluation")
    for name, one in systems.items():
        check_kind(
            one, MomentEvaluation, f"systems[{name!r}]", "give what evaluate_moments(predictions, truth) returns"
        )
    if not systems:
        raise UsageError("No system is given; give one evaluation at least.")
    (_, first), *others = systems.items()
    if len({one.all_clips for one in systems.values()}) > 1:
        raise ScoresError("Some systems searched all clips and others each query's own; compare systems of one kind.")
    groups = np.unique(first.clip_ids, return_inverse=True)[1].astype(np.int64)
    found = []
    for word in first.summary:
        gains = {name: one.per_query[word] - first.per_query[word] for name, one in others if word in one.summary}
        p_values = [wilcoxon_test(gained, groups) for gained in gains.values()]
        interval = hits_interval if parse_moment_metric(word).is_hit else mean_interval
        found += [
            MomentDifference(name, word, interval(GroupedMean.of(gained, groups), confidence), p, adjusted)
            for (name, gained), p, adjusted in zip(gains.items(), p_values, holm(p_values), strict=True)
        ]
    return found
