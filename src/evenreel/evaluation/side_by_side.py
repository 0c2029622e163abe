"""Several systems side by side: each figure with its interval, and which are significantly the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenreel.config import check_progress, check_settings_kind
from evenreel.errors import UsageError
from evenreel.evaluation.both_ways import MEAN, means_of_directions
from evenreel.evaluation.comparison import check_evaluations, compare
from evenreel.evaluation.metrics import Metric, parse_metric
from evenreel.evaluation.results import Evaluation, Interval
from evenreel.evaluation.settings import EvaluationSettings
from evenreel.progress import Progress, part_of
from evenreel.types import Shown


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
