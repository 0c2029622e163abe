"""Differences of systems that answered the same queries with windows, query by query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evenreel.evaluation.intervals import GroupedMean, hits_interval, mean_interval
from evenreel.evaluation.moments.measured import MomentEvaluation
from evenreel.evaluation.moments.settings import parse_moment_metric
from evenreel.evaluation.results import Interval


@dataclass(frozen=True)
class MomentDifference:
    """By how much a system's figure is above the first one's.

    Attributes:
        system: name of the system.
        metric: its word.
        interval: difference in percentage points.
    """

    system: str
    metric: str
    interval: Interval


def compare_moments(systems: Mapping[str, MomentEvaluation], confidence: float = 0.95) -> list[MomentDifference]:
    """Compare systems with the first of them on the same queries, clips being drawn with all their queries.

    Args:
        systems: evaluations of the same queries by the names of the systems.
        confidence: confidence of the intervals.
    """
    (_, first), *others = systems.items()
    groups = np.unique(first.clip_ids, return_inverse=True)[1].astype(np.int64)
    found = []
    for name, other in others:
        for word in first.summary:
            if word in other.summary:
                gained = GroupedMean.of(other.per_query[word] - first.per_query[word], groups)
                interval = hits_interval if parse_moment_metric(word).is_hit else mean_interval
                found.append(MomentDifference(name, word, interval(gained, confidence)))
    return found
