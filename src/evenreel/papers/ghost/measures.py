"""Source measures of Generative Ghost, of one system's scores or over several seeds, and tables of them in its form."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from evenreel.audits.exchange import DELTA_METRICS, MIX_R
from evenreel.audits.settings import AuditSettings
from evenreel.audits.source import SourceMeasures, measure_source
from evenreel.evaluation import Interval
from evenreel.papers.engine.findings import PREFERENCE, UNIT
from evenreel.papers.engine.seeds import PERCENT, SeededRuns
from evenreel.papers.engine.words import paragraph
from evenreel.report.figures import deltas_by_group
from evenreel.report.result import AuditTable, interval_cells, interval_columns
from evenreel.types import Corpus, ScoreBlocks

if TYPE_CHECKING:
    import plotly.graph_objects as go

Key = TypeVar("Key", bound=Hashable)

METRICS = tuple(map(str, DELTA_METRICS))
ROWS = {
    "real": "REAL",
    "generated": "AI",
    "mixed real": "mixed-REAL",
    "mixed generated": "mixed-AI",
    "relative": "Relative Δ",
    "location": "Location Δ",
    "normalized": "Normalized Δ",
}
"""Rows of the tables of Generative Ghost by their key, in the paper's words."""

MAIN = ("normalized", MIX_R)
"""The figure that a study's effect is about."""

WIN_RATE = ("win rate", "%")


@dataclass(frozen=True, eq=False)
class Figures:
    """Source measures of one system with one group of generated clips.

    Attributes:
        values: figures with their intervals, by row (a key of `ROWS`, or `WIN_RATE`) and metric.
        notices: sentences on what was left out.
    """

    values: Mapping[tuple[str, str], Interval]
    notices: tuple[str, ...] = ()

    def __getitem__(self, key: tuple[str, str]) -> Interval:
        return self.values[key]

    @property
    def numbers(self) -> dict[tuple[str, str], float]:
        """Return the figures without their intervals, by row of the table and metric."""
        return {key: figure.value for key, figure in self.values.items()}


Rows = Sequence[tuple[tuple[str, ...], Figures]]
"""Words that say whose figures they are, and the figures."""

_FURTHEST = {"relative": 200.0, "location": 200.0, "normalized": 400.0}
"""How far from 0 a Δ can be."""


def measured(scores: ScoreBlocks, corpus: Corpus, group: str, audit: AuditSettings) -> Figures:
    """Measure how one system ranks real clips and the generated clips of one group that mirror them."""
    return figures_of(measure_source(scores, corpus, group, audit))


def figures_of(measures: SourceMeasures) -> Figures:
    """Return the figures of a source audit by row and metric of Generative Ghost's tables, with its win rate."""
    rows = {**measures.figures, **measures.deltas}
    found = {(row, metric): figure for row, metrics in rows.items() for metric, figure in metrics.items()}
    return Figures({**found, WIN_RATE: measures.win_rate}, measures.notices)


@dataclass(frozen=True, eq=False)
class SeededFigures(Generic[Key]):
    """Source measures of the rows of a table, each row measured once with each seed.

    Attributes:
        rows: measures of each row, one a seed.
        confidence: confidence of the intervals over seeds.
    """

    rows: Mapping[Key, Sequence[Figures]]
    confidence: float

    @cached_property
    def runs(self) -> SeededRuns[Key, tuple[str, str]]:
        """Return the figures without the intervals of one ranking, for means and changes over seeds."""
        ends = {key: _ends(*key) for runs in self.rows.values() for key in runs[0].values}
        return SeededRuns({row: [one.numbers for one in own] for row, own in self.rows.items()}, self.confidence, ends)

    @cached_property
    def means(self) -> dict[Key, Figures]:
        """Return the mean of each figure of each row over its seeds, with its interval."""
        return {row: Figures(self.runs.means(row), notices_of(own)) for row, own in self.rows.items()}


def _ends(row: str, metric: str) -> tuple[float, float]:
    """Between which values a figure lies whatever is measured."""
    if row in _FURTHEST:
        return -_FURTHEST[row], _FURTHEST[row]
    return (1.0, np.inf) if metric in ("MedR", "MeanR") else PERCENT


def notices_of(every: Iterable[Figures]) -> tuple[str, ...]:
    """Return the notices of all figures, each sentence once."""
    return tuple(dict.fromkeys(notice for figures in every for notice in figures.notices))


def paper_table(title: str, labels: Sequence[str], rows: Rows) -> AuditTable:
    """Make a table with seven rows for each system, as Generative Ghost prints them."""
    columns = (*METRICS, MIX_R)
    cells = [
        (*label, name, *(_value(figures.values.get((row, metric))) for metric in columns))
        for label, figures in rows
        for row, name in ROWS.items()
    ]
    return AuditTable(title, (*labels, "row", *columns), tuple(cells), paragraph("ghost", "The paper's form"))


def _value(figure: Interval | None) -> float | None:
    return None if figure is None else figure.value


def preference_table(title: str, labels: Sequence[str], rows: Rows, note: str = "") -> AuditTable:
    """Make a table of preferences: Normalized Δ, win rate and recall among real clips alone, with intervals.

    Args:
        title: title of the table.
        labels: heads of the columns that say whose figures they are.
        rows: the cells of these columns, and the figures.
        note: explanation for its readers; empty for that of intervals of one ranking.
    """
    shown = {
        MAIN: PREFERENCE,
        ("normalized", "R@1"): "Normalized Δ R@1",
        WIN_RATE: "real above its mirror, %",
        ("real", "R@1"): "REAL R@1",
    }
    cells = tuple((*label, *interval_cells(*(figures[key] for key in shown))) for label, figures in rows)
    columns = (*labels, *interval_columns(*shown.values()))
    return AuditTable(title, columns, cells, note or paragraph("ghost", "Intervals of one ranking"))


def group_tables(
    label: str, found: Mapping[tuple[str, str], Figures], title: str = "Real clips and {}"
) -> list[AuditTable]:
    """Make a table as Generative Ghost prints it for each group of generated clips."""
    tables: dict[str, list[tuple[tuple[str, ...], Figures]]] = {}
    for (group, name), figures in found.items():
        tables.setdefault(group, []).append(((name,), figures))
    return [paper_table(title.format(group), (label,), rows) for group, rows in tables.items()]


def group_bars(found: Mapping[tuple[str, str], Figures], metric: str = MIX_R) -> go.Figure:
    """Draw the Normalized Δ of one metric, by group of generated clips and a second name, each with bars of its own."""
    bars: dict[str, dict[str, Interval]] = {}
    for (group, name), figures in found.items():
        bars.setdefault(name, {})[group] = figures["normalized", metric]
    return deltas_by_group(bars, UNIT)
