"""The mean of both directions, as the challenge of EPIC-KITCHENS-100 prints it beside each of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenreel.arrays import Column
from evenreel.config import check_kind
from evenreel.evaluation.intervals import GroupedMean, degree_interval
from evenreel.evaluation.metrics import Metric
from evenreel.evaluation.results import DirectionResult, Evaluation, Interval

MEAN = "mean"
"""Heading of the mean of both directions."""


def means_of_directions(evaluation: Evaluation) -> dict[str, Interval]:
    """Compute the mean of t2v and v2t for each metric that is a share, by the metric's name, with its interval.

    A direction counts half, however many queries it has. The interval is Hall's over groups, each with all queries of
    both directions, for what is easy one way often is the other way too.

    Returns:
        Nothing for ranks and GeoR, whose mean has no meaning, and nothing at all for a single direction.
    """
    check_kind(evaluation, Evaluation, "evaluation", "give what evaluate(scores, corpus) returns")
    if len(evaluation.directions) < 2:
        return {}
    results = list(evaluation.directions.values())
    intervals = any(one.low is not None for one in results[0].summary.values())
    found = {}
    for metric in evaluation.metrics:
        if metric.is_rank or metric.name == "GeoR":
            continue
        value = float(np.mean([one.summary[str(metric)].value for one in results]))
        found[str(metric)] = Interval(value)
        if intervals:
            mean = _grouped(value, metric, results)
            found[str(metric)] = degree_interval(mean, evaluation.confidence, 100.0 * len(metric.columns))
    return found


def _grouped(value: float, metric: Metric, results: Sequence[DirectionResult]) -> GroupedMean:
    """The mean of the directions with what each group adds to it, a group's size being its mean share of queries."""
    groups = np.unique(np.concatenate([one.groups for one in results]))
    parts, sizes = np.zeros(len(groups)), np.zeros(len(groups))
    for result in results:
        means = [GroupedMean.of(result.per_query[column], result.groups) for column in metric.columns]
        known = ~np.isnan(result.per_query[metric.columns[0]])
        place = np.searchsorted(groups, np.unique(result.groups[known]))
        parts[place] += _sum([mean.parts for mean in means]) / len(results)
        sizes[place] += means[0].sizes / means[0].sizes.sum() / len(results)
    kept = sizes > 0
    sizes, parts = sizes[kept] * kept.sum(), parts[kept] * kept.sum()
    return GroupedMean(value, parts + value * sizes, sizes)


def _sum(parts: Sequence[Column]) -> Column:
    return np.asarray(np.sum(parts, axis=0))
