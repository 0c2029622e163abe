"""Systems beside each other on the same queries: paired differences, means of both directions, who is the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
import polars as pl

from evenreel.arrays import Column
from evenreel.config import check_kind, check_named, check_progress, check_settings_kind
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.intervals import (
    GroupedColumns,
    GroupedMean,
    Interval,
    degree_interval,
    difference_interval,
    holm,
    percentile_ends,
    randomisation_test,
    same,
    sampled_figures,
    shown_figure,
    wilcoxon_test,
)
from evenreel.evaluation.measure import DirectionResult, Evaluation
from evenreel.evaluation.metrics import Direction, EvaluationSettings, Metric, parse_metric
from evenreel.progress import Progress, part_of
from evenreel.types import Shown


@dataclass(frozen=True)
class Difference:
    """Difference between a system and the baseline in one metric.

    Attributes:
        system: name of the system.
        direction: `t2v` or `v2t`.
        metric: name of the metric.
        baseline: figure of the baseline.
        value: figure of the system.
        difference: value less baseline, with its interval over the same groups of queries.
        p_randomisation: p value of the paired randomisation test.
        p_wilcoxon: p value of Wilcoxon's signed ranks over clips.
        p_holm: p value of the randomisation test, adjusted for the number of systems compared.
        wins, ties, losses: number of queries on which the system is better than the baseline, equal, and worse; by the
            sum of columns where a metric has several.
    """

    system: str
    direction: Direction
    metric: str
    baseline: float
    value: float
    difference: Interval
    p_randomisation: float
    p_wilcoxon: float
    p_holm: float
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class Comparison(Shown):
    """Differences of several systems from a baseline, ordered by direction, then metric, then system.

    Attributes:
        rows: a difference for each system, direction and metric.
        confidence: confidence of the intervals.
        resamples: number of random arrangements of the tests, and of samples for medians.
        notices: sentences that belong beside the differences.
    """

    rows: tuple[Difference, ...]
    confidence: float
    resamples: int
    notices: tuple[str, ...] = ()

    def _shown(self) -> Iterable[Sequence[object]]:
        yield "direction", "metric", "system", "difference", f"{100 * self.confidence:g}% interval", "p (Holm)"
        for row in self.rows:
            value, ends = shown_figure(row.difference)
            yield row.direction, row.metric, row.system, value, ends, row.p_holm

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a dictionary that JSON can hold, as `--json` prints it."""
        return asdict(self) | {"rows": [asdict(row) for row in self.rows]}

    def to_frame(self) -> pl.DataFrame:
        """Return the differences as a table for a notebook, with the ends of their intervals as `low` and `high`."""
        return pl.DataFrame(
            [
                {name: value for name, value in asdict(row).items() if name != "difference"}
                | {"difference": row.difference.value, "low": row.difference.low, "high": row.difference.high}
                for row in self.rows
            ]
        )


_HOW = "give what evaluate(scores, corpus) returns"


def check_evaluations(given: object, name: str) -> None:
    """Refuse an argument that is no mapping from the names of systems to their evaluations; `name` is its own."""
    check_named(given, name, "evaluations by the names of their systems", "evaluation")
    for system, one in cast("Mapping[str, object]", given).items():
        check_kind(one, Evaluation, f"{name}[{system!r}]", _HOW)


def compare(
    baseline: Evaluation,
    others: Mapping[str, Evaluation],
    settings: EvaluationSettings | None = None,
    *,
    progress: Progress | None = None,
) -> Comparison:
    """Compare systems with a baseline: differences with intervals, and p values with Holm's adjustment.

    P values are adjusted for the number of systems compared in a direction and metric.

    Args:
        baseline: evaluation to compare with.
        others: evaluations by name, on the same queries and galleries with the same metrics and rules.
        settings: `resamples` and `seed` are used; the confidence is the baseline's.
        progress: called repeatedly with the share that is done, 0 to 1.

    Raises:
        ScoresError: the systems differ in queries, gallery or protocol.
        UsageError: an argument is of the wrong kind, there is nothing to compare, or `resamples` is 0.
    """
    check_kind(baseline, Evaluation, "baseline", _HOW)
    check_evaluations(others, "others")
    check_settings_kind(settings, EvaluationSettings)
    check_progress(progress)
    settings = settings or EvaluationSettings()
    if not others or settings.resamples < 1:
        raise UsageError("A comparison needs at least one other system and at least one resample.")
    aligned = {name: _aligned(baseline, other, name) for name, other in others.items()}
    settings = replace(settings, confidence=baseline.confidence)
    rows: list[Difference] = []
    for number, direction in enumerate(baseline.directions):
        part = part_of(progress, number, len(baseline.directions))
        results = {name: one[direction] for name, one in aligned.items()}
        rows += _differences(baseline.metrics, baseline.directions[direction], results, settings, part)
    return Comparison(tuple(rows), settings.confidence, settings.resamples, _unlike_uses(baseline, others))


def _differences(
    metrics: Sequence[Metric],
    base: DirectionResult,
    others: Mapping[str, DirectionResult],
    settings: EvaluationSettings,
    progress: Progress,
) -> list[Difference]:
    """List the differences of one direction, by metric, then system."""
    rows: list[Difference] = []
    for number, metric in enumerate(metrics, 1):
        found = [_difference(metric, base, other, settings) for other in others.values()]
        adjusted = holm([one.p_randomisation for one in found])
        rows += [replace(one, system=name, p_holm=p) for one, name, p in zip(found, others, adjusted, strict=True)]
        progress(number / len(metrics))
    return rows


def _difference(
    metric: Metric, base: DirectionResult, other: DirectionResult, settings: EvaluationSettings
) -> Difference:
    """Still without the system's name and Holm's correction."""
    before, after = base.per_query, other.per_query
    values = [float(metric.summary(columns)[0]) for columns in (before, after)]
    totals = [np.sum([columns[word] for word in metric.columns], axis=0) for columns in (before, after)]
    tied = same(totals[0], totals[1])
    gains: Column = np.where(tied, 0.0, totals[1] - totals[0]) * (1 if metric.higher_is_better else -1)
    p = randomisation_test(metric, before, after, base.groups, settings)
    return Difference(
        "",
        base.direction,
        str(metric),
        values[0],
        values[1],
        _interval(metric, base, other, settings),
        p,
        wilcoxon_test(gains, base.groups),
        p,
        int((gains > 0).sum()),
        int(tied.sum()),
        int((gains < 0).sum()),
    )


def _interval(metric: Metric, base: DirectionResult, other: DirectionResult, settings: EvaluationSettings) -> Interval:
    """Compute the interval of the difference; of medians by samples of groups, the same for both systems."""
    if metric.is_of_means:
        return difference_interval(metric, base.per_query, other.per_query, base.groups, settings.confidence)
    systems = [GroupedColumns(one.per_query, base.groups) for one in (base, other)]
    before, after = sampled_figures([metric], systems, settings)[str(metric)]
    values = [float(metric.summary(one.per_query)[0]) for one in (base, other)]
    return Interval(values[1] - values[0], *percentile_ends(after - before, settings.confidence))


def _unlike_uses(baseline: Evaluation, others: Mapping[str, Evaluation]) -> tuple[str, ...]:
    """Yield who looks at more than caption and video, where not all look at the same."""
    return tuple(
        f"{name} uses {_words(other.uses)} and the baseline {_words(baseline.uses)}: part of the difference may be due "
        "to that."
        for name, other in others.items()
        if set(other.uses) != set(baseline.uses)
    )


def _words(uses: Sequence[str]) -> str:
    return " and ".join(uses) or "nothing but captions and videos"


def _aligned(baseline: Evaluation, other: Evaluation, name: str) -> dict[Direction, DirectionResult]:
    """The other system's results with its queries in the order of the baseline's."""
    for what, first, second in (
        ("list of metrics", [*map(str, baseline.metrics)], [*map(str, other.metrics)]),
        ("list of directions", [*baseline.directions], [*other.directions]),
        ("rule for ties", baseline.ties, other.ties),
        ("relevance", baseline.relevance, other.relevance),
    ):
        if first != second:
            raise ScoresError(
                f"{name} was evaluated with another {what} ({second}) than the baseline ({first}); evaluate both alike."
            )
    return {word: in_order_of(base, other.directions[word], name) for word, base in baseline.directions.items()}


def in_order_of(base: DirectionResult, other: DirectionResult, name: str) -> DirectionResult:
    """Reorder a system's result so that its queries are in the order of the baseline's."""
    place = {one: row for row, one in enumerate(other.query_ids)}
    missing = [one for one in base.query_ids if one not in place]
    if missing or len(place) != len(base.query_ids):
        known = set(base.query_ids)
        stray = missing[0] if missing else next(one for one in other.query_ids if one not in known)
        raise ScoresError(
            f"The baseline and {name} were not asked the same queries of {base.direction} ({len(base.query_ids):,} and "
            f"{len(place):,}; {stray!r} is in one of them only); score the same captions and clips with both."
        )
    if (base.protocol, base.gallery_size) != (other.protocol, other.gallery_size):
        raise ScoresError(
            f"The baseline and {name} were ranked differently in {base.direction} ({base.protocol} among "
            f"{base.gallery_size:,}, {other.protocol} among {other.gallery_size:,}); evaluate both alike."
        )
    if base.gallery_digest != other.gallery_digest:
        raise ScoresError(
            f"The baseline and {name} were ranked among different items in {base.direction}, though as many; score the "
            "same captions and clips with both."
        )
    order = np.array([place[one] for one in base.query_ids], dtype=np.intp)
    columns = {word: values[order] for word, values in other.per_query.items()}
    hits = other.hits.renumbered(np.argsort(order))
    return replace(other, query_ids=base.query_ids, groups=base.groups, per_query=columns, hits=hits)


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


@dataclass(frozen=True)
class FigureColumn:
    """Column of a table of systems: a metric in one direction.

    Attributes:
        direction: `t2v`, `v2t`, or `mean` for the mean of both.
        metric: name of the metric.
    """

    direction: str
    metric: str

    def __str__(self) -> str:
        return f"{self.metric} {self.direction}"

    @property
    def measured(self) -> Metric:
        """The metric itself."""
        return parse_metric(self.metric)


@dataclass(frozen=True, eq=False)
class SideBySide(Shown):
    """Figures of several systems on the same queries.

    Attributes:
        columns: metrics by direction, in the order of the settings; the means of both directions last.
        figures: figures of each system, in the order of `columns`, by the system's name.
        best: for each column, the system that is significantly better than every other; None where there is none. Means
            of both directions are not tested.
        confidence: confidence of the intervals, and of the tests.
    """

    columns: tuple[FigureColumn, ...]
    figures: dict[str, list[Interval]]
    best: dict[FigureColumn, str | None]
    confidence: float

    def _shown(self) -> Iterable[Sequence[object]]:
        yield ("", *self.figures)
        for place, column in enumerate(self.columns):
            yield str(column), *(f"{figures[place].value:.2f}" for figures in self.figures.values())

    def to_json(self) -> list[dict[str, Any]]:
        """List the figures as a dictionary for each system and column, as a csv holds them."""
        return [
            {
                "system": name,
                "direction": column.direction,
                "metric": column.metric,
                "value": figure.value,
                "low": figure.low,
                "high": figure.high,
                "best": self.best[column] == name,
            }
            for name, figures in self.figures.items()
            for column, figure in zip(self.columns, figures, strict=True)
        ]


def side_by_side(
    evaluations: Mapping[str, Evaluation],
    settings: EvaluationSettings | None = None,
    *,
    mean: bool = False,
    progress: Progress | None = None,
) -> SideBySide:
    """Put the figures of systems beside each other, and test the best of each column against all the others.

    A system is the best of a column where the paired randomisation test, adjusted by Holm for the number of other
    systems, is significant for each of them.
    """
    check_evaluations(evaluations, "evaluations")
    check_settings_kind(settings, EvaluationSettings)
    check_progress(progress)
    if not evaluations:
        raise UsageError("No system is given; give one evaluation at least.")
    settings = settings or EvaluationSettings()
    first = next(iter(evaluations.values()))
    asked = [(direction, str(metric)) for direction in first.directions for metric in first.metrics]
    columns = [FigureColumn(direction, word) for direction, word in asked]
    figures = {
        name: [one.directions[direction].summary[word] for direction, word in asked]
        for name, one in evaluations.items()
    }
    best = _significant_best(evaluations, columns, figures, settings, progress)
    if mean:
        means = {name: means_of_directions(one) for name, one in evaluations.items()}
        added = [FigureColumn(MEAN, word) for word in next(iter(means.values()))]
        figures = {name: [*row, *(means[name][column.metric] for column in added)] for name, row in figures.items()}
        columns, best = [*columns, *added], best | dict.fromkeys(added)
    return SideBySide(tuple(columns), figures, best, first.confidence)


def _significant_best(
    evaluations: Mapping[str, Evaluation],
    columns: list[FigureColumn],
    figures: Mapping[str, list[Interval]],
    settings: EvaluationSettings,
    progress: Progress | None,
) -> dict[FigureColumn, str | None]:
    """The best of each column where it is significantly better than every other system."""
    leaders = {column: _leader(figures, place, column.measured) for place, column in enumerate(columns)}
    found: dict[FigureColumn, str | None] = dict.fromkeys(columns)
    if len(evaluations) < 2 or not settings.resamples:
        return found
    names = list(dict.fromkeys(leaders.values()))
    for number, name in enumerate(names):
        others = {other: one for other, one in evaluations.items() if other != name}
        compared = compare(evaluations[name], others, settings, progress=part_of(progress, number, len(names)))
        unlike: dict[FigureColumn, bool] = {}
        for row in compared.rows:
            column = FigureColumn(row.direction, row.metric)
            unlike[column] = unlike.get(column, True) and row.p_holm <= 1 - compared.confidence
        found |= {column: name for column, leader in leaders.items() if leader == name and unlike[column]}
    return found


def _leader(figures: Mapping[str, list[Interval]], place: int, metric: Metric) -> str:
    sign = 1 if metric.higher_is_better else -1
    return max(figures, key=lambda name: sign * figures[name][place].value)
