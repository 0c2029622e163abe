"""Figures of groups of queries by a column, with the gap between the best and the worst group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import CorpusError
from evenreel.evaluation.gaps import Bands, Spread, bands_of
from evenreel.evaluation.intervals import around, figure_intervals
from evenreel.evaluation.metrics import Metric
from evenreel.evaluation.query_groups import QueryGroups, column_values, query_groups
from evenreel.evaluation.results import ColumnFigures, DirectionResult, GroupFigures, GroupGap, Interval
from evenreel.evaluation.settings import EvaluationSettings
from evenreel.types import Corpus

FEWEST_IN_GROUP = 30
"""Groups of fewer clips (or videos) than this are shown, but are in no gap."""


def check_columns(corpus: Corpus, columns: Iterable[str]) -> None:
    """Check that a corpus has columns to group by."""
    for column in columns:
        column_values(corpus, column)


def with_groups(result: DirectionResult, corpus: Corpus, settings: EvaluationSettings) -> DirectionResult:
    """Add figures of groups of queries to a result by each column of `settings.by`, or a notice why there are none."""
    return replace(result, by={column: _column(result, corpus, column, settings) for column in settings.by})


def _column(result: DirectionResult, corpus: Corpus, column: str, settings: EvaluationSettings) -> ColumnFigures:
    try:
        found = query_groups(corpus, column, result.query_ids, of_captions=result.protocol == "caption")
    except CorpusError as error:
        return ColumnFigures((), {}, (f"{result.direction} by {column}: {error}",))
    groups = [_figures(result, found, place, settings) for place in range(len(found.names))]
    large = [place for place, one in enumerate(groups) if one.drawn >= FEWEST_IN_GROUP]
    told = _notices(result, column, found, groups, len(large))
    if found.against and found.against not in {found.names[place] for place in large}:
        told += (f"{result.direction} by {column}: it is no large group, so nothing is compared with it.",)
    if len(large) < 2:
        return ColumnFigures(tuple(groups), {}, told)
    gaps = {str(metric): _gap(metric, result, found, large, settings) for metric in settings.metrics}
    return ColumnFigures(tuple(groups), {word: gap for word, gap in gaps.items() if gap}, told)


def _figures(result: DirectionResult, found: QueryGroups, place: int, settings: EvaluationSettings) -> GroupFigures:
    own = found.number == place
    columns = {name: values[own] for name, values in result.per_query.items()}
    metrics = tuple(one for one in settings.metrics if not any(np.isnan(columns[name]).all() for name in one.columns))
    drawn = len(np.unique(result.groups[own]))
    known = replace(settings, metrics=metrics) if metrics else None
    summary = figure_intervals(columns, result.groups[own], known, result.gallery_size) if known else {}
    return GroupFigures(found.names[place], int(own.sum()), drawn, summary)


def _notices(
    result: DirectionResult, column: str, found: QueryGroups, groups: list[GroupFigures], large: int
) -> tuple[str, ...]:
    where, told = f"{result.direction} by {column}:", []
    if missing := int((found.number < 0).sum()):
        told.append(f"{where} {missing:,} of {len(found.number):,} queries have no value there and are in no group.")
    if few := [one for one in groups if one.drawn < FEWEST_IN_GROUP]:
        named = ", ".join(f"{one.name} ({one.drawn})" for one in few[:5])
        rest = f" and {len(few) - 5} more" if len(few) > 5 else ""
        told.append(
            f"{where} {named}{rest}: fewer than {FEWEST_IN_GROUP} {result.drawn_by}, so do not rely on these figures; "
            "they are in no gap."
        )
    if large < 2:
        many = "no group has" if large == 0 else "only one group has"
        told.append(f"{where} {many} {FEWEST_IN_GROUP} {result.drawn_by}, so there is no gap to compute.")
    return tuple(told)


def _gap(
    metric: Metric, result: DirectionResult, found: QueryGroups, large: list[int], settings: EvaluationSettings
) -> GroupGap | None:
    """The gap of a metric among large groups; None where the metric has no value in one of them.

    Only the mean of values of queries has bands; of medians and geometric means there is the gap alone.
    """
    known = np.isin(found.number, large) & ~np.any([np.isnan(result.per_query[one]) for one in metric.columns], axis=0)
    number = np.searchsorted(large, found.number[known])
    if len(np.unique(number)) < len(large):
        return None
    columns = {name: result.per_query[name][known] for name in metric.columns}
    figures = [
        float(metric.summary({name: values[number == place] for name, values in columns.items()})[0])
        for place in range(len(large))
    ]
    order = np.argsort(figures, kind="stable")[:: -1 if metric.higher_is_better else 1]
    best, worst = int(order[0]), int(order[-1])
    names = found.names[large[best]], found.names[large[worst]]
    gap = abs(figures[best] - figures[worst])
    bands = _bands(metric, columns, number, result.groups[known], settings)
    if bands is None:
        return GroupGap(*names, Interval(gap), None, None)
    low, high = bands.ends
    most = np.inf if metric.is_rank else 100.0 * len(metric.columns)
    differences, every = {}, [found.names[place] for place in large]
    if found.against in every:
        base = every.index(found.against)
        for place, name in enumerate(every):
            apart, wide = figures[place] - figures[base], bands.reach * bands.errors[place, base]
            if place != base:
                differences[f"{name} - {found.against}"] = around(apart, apart - wide, apart + wide, (-most, most))
    p = min(1.0, bands.p * len(settings.by))
    return GroupGap(*names, around(gap, low, high, (0.0, most)), p, bands.chance, differences)


def _bands(
    metric: Metric,
    columns: dict[str, NDArray[np.float64]],
    number: NDArray[np.int64],
    clusters: NDArray[np.int64],
    settings: EvaluationSettings,
) -> Bands | None:
    if not settings.resamples or not metric.is_of_means or metric.name == "GeoR":
        return None
    spread = Spread.of(np.sum(list(columns.values()), axis=0), number, clusters)
    confidence = 1 - (1 - settings.confidence) / len(settings.by)
    return bands_of(spread, settings.resamples, settings.seed, confidence)
