"""Tables of trainings: rows trained with the same seeds, measured on the test split, and compared seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from evenreel.checkpoint.architecture import Encodings
from evenreel.evaluation import Interval
from evenreel.papers.engine.findings import Findings, beside, change_bars, effect_of, figure_rows
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.seeds import changes_over_seeds, means_over_seeds
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.trainings import TrainingOutcome, each_outcome, few_seeds, training_told
from evenreel.papers.engine.variants import Variants
from evenreel.papers.engine.words import paragraph, paragraphs
from evenreel.progress import Progress
from evenreel.report.result.record import AuditFigure, AuditTable, Cell
from evenreel.types import Corpus, ScoreBlocks

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from evenreel.report.result.figures import Line

_WIDE = 100
"""Times the least value of a sweep that its most is where the axis is logarithmic."""


def _any_corpus(corpus: Corpus) -> None:
    """Nothing is asked of it."""


@dataclass(frozen=True)
class Measures:
    """What the tables of a paper measure.

    Attributes:
        paper: where `papers/words` says how they are calculated, below the heading Measures, and what else readers of
            a table have to know.
        figures: from scores of every caption and clip of a corpus to the figures of these names.
        main: the one that the effect of a study is about.
        ends: between which values a figure lies whatever is measured, where that is not 0 to 100.
        check: refuses a corpus that they say nothing of, before anything is trained.
    """

    paper: str
    figures: Callable[[ScoreBlocks, Corpus, tuple[str, ...]], dict[str, float]]
    main: str
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    check: Callable[[Corpus], None] = _any_corpus


Settings = TypeVar("Settings", bound=TrainingSettings)


@dataclass(frozen=True)
class TrainingComparison(Generic[Settings]):
    """A table of trainings.

    Attributes:
        variants: makes its rows.
        metrics: its columns.
        measures: where these come from.
        lead: the row whose change is the effect of the study; empty for the row with the largest change.
        notes: what else the reader should know of it.
        sweeps: numbers that rows differ in, by their names: the row of each value, of those that there may be.
        drawn: the metrics that are drawn over these.
    """

    variants: Callable[[LearningInputs, Settings], Variants]
    metrics: tuple[str, ...]
    measures: Measures
    lead: str = ""
    notes: tuple[str, ...] = ()
    sweeps: Mapping[str, Mapping[float, str]] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """What is kept of a training.

    Attributes:
        figures: by metric.
        clips: that were learned from.
        cost: how often a caption and a clip are encoded.
    """

    figures: Mapping[str, float]
    clips: int
    cost: Encodings


@dataclass(frozen=True)
class ComparedTrainings:
    """Rows of a table, trained and measured.

    Attributes:
        variants: the rows.
        runs: of each row, one a seed.
        notices: what has to be said of them.
    """

    variants: Variants
    runs: Mapping[str, Sequence[Run]]
    notices: tuple[str, ...]

    def mean(self, name: str, metric: str) -> float:
        """A figure of a row, over seeds."""
        return float(np.mean([run.figures[metric] for run in self.runs[name]]))

    def cost(self, name: str) -> Encodings:
        """Of a row; it is the same for all seeds."""
        return self.runs[name][0].cost

    def changes(self, confidence: float) -> dict[str, dict[str, Interval]]:
        """How each figure of a row differs from that of the row it is compared with, seed by seed."""
        return {
            name: changes_over_seeds(self.figures(variant.against), self.figures(name), confidence)
            for name, variant in self.variants.items()
            if variant.against is not None
        }

    def figures(self, name: str) -> list[Mapping[str, float]]:
        """The figures of a row, one mapping a seed."""
        return [run.figures for run in self.runs[name]]


def compared_trainings(
    comparison: TrainingComparison[Settings], material: LearningInputs, settings: Settings, progress: Progress
) -> Findings:
    """Train the rows of a table and measure each.

    Raises:
        CorpusError: the test split lacks what the measures ask for.
        UsageError: the recipe cannot make one of the rows.
    """
    _, test = material.learning()
    measures, main = comparison.measures, comparison.measures.main
    variants = comparison.variants(material, settings)
    measures.check(test.corpus)
    found = _compared(variants, comparison, each_outcome(variants, material, settings, progress))
    changes = found.changes(settings.audit.confidence)
    lead = comparison.lead or max(changes, key=lambda name: abs(changes[name][main].value))
    picked = () if comparison.lead else paragraphs("shared", "The largest change")
    return Findings(
        " ".join(_told(found, name, change[main], main) for name, change in changes.items()),
        effect_of(changes[lead][main], f"Change of {main}: {lead} less {variants[lead].against}"),
        (_means(found, comparison.metrics), _changes(found, changes, settings), _intervals(found, measures, settings)),
        (
            *(
                AuditFigure(name, partial(_sweep, found, comparison, name, settings.audit.confidence))
                for name in comparison.sweeps
            ),
            AuditFigure(f"Change of {main}", partial(change_bars, changes, main)),
        ),
        (*few_seeds(settings), *found.notices),
        (
            paragraph(measures.paper, "Measures"),
            training_told(settings.recipe, material),
            *paragraphs(measures.paper, *comparison.notes),
            *picked,
        ),
    )


def _compared(
    variants: Variants, comparison: TrainingComparison[Any], outcomes: Iterable[TrainingOutcome]
) -> ComparedTrainings:
    runs: dict[str, list[Run]] = {name: [] for name in variants}
    notices: dict[str, None] = {}
    for one in outcomes:
        figures = comparison.measures.figures(one.scores(), one.test.corpus, comparison.metrics)
        runs[one.row].append(Run(figures, one.clips, one.cost))
        notices |= dict.fromkeys(one.notices)
    return ComparedTrainings(variants, runs, tuple(notices))


def _means(found: ComparedTrainings, metrics: tuple[str, ...]) -> AuditTable:
    """The paper's form: a row for each training, its figures, what it learned from, and what it costs to search."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name,
            found.cost(name).videos,
            found.cost(name).captions,
            round(float(np.mean([run.clips for run in runs]))),
            *(found.mean(name, metric) for metric in metrics),
        )
        for name, runs in found.runs.items()
    )
    columns = ("training", "clip encodings", "of captions", "training clips", *metrics)
    note = "Means over seeds. As many galleries are kept as a clip is encoded times."
    return AuditTable("What each training gives", columns, rows, note)


def _changes(
    found: ComparedTrainings, changes: Mapping[str, Mapping[str, Interval]], settings: TrainingSettings
) -> AuditTable:
    """A row for each figure that changes."""
    rows = figure_rows(
        ((name, found.variants[name].against, found.cost(name).videos), figures) for name, figures in changes.items()
    )
    columns = ("training", "less", "clip encodings", "figure", "change", "low", "high")
    return AuditTable(
        "What each changes, seed by seed",
        columns,
        rows,
        paragraph("shared", "Intervals over seeds", seeds=settings.seeds),
    )


def _intervals(found: ComparedTrainings, measures: Measures, settings: TrainingSettings) -> AuditTable:
    """Every figure with its interval."""
    confidence = settings.audit.confidence
    rows = figure_rows(
        ((name,), means_over_seeds(found.figures(name), confidence, measures.ends)) for name in found.runs
    )
    columns = ("training", "figure", "mean", "low", "high")
    return AuditTable(
        "Every figure with its interval",
        columns,
        rows,
        paragraph("shared", "Intervals over seeds", seeds=settings.seeds),
    )


def _told(found: ComparedTrainings, name: str, change: Interval, main: str) -> str:
    """A sentence for a row of the table: its change, whether it can be told, and its cost."""
    times = found.cost(name).videos
    cost = "once" if times == 1 else f"{times} times"
    changed = beside(change, str(found.variants[name].against))
    return f"{name}: {main} {found.mean(name, main):.1f}, {changed}; each clip is encoded {cost}."


def _sweep(found: ComparedTrainings, comparison: TrainingComparison[Any], name: str, confidence: float) -> go.Figure:
    """Each metric over one number that rows differ in."""
    from evenreel.report.result.figures import Panel, sweep

    rows, ends = comparison.sweeps[name], comparison.measures.ends
    means = {
        value: means_over_seeds(found.figures(row), confidence, ends)
        for value, row in rows.items()
        if row in found.runs
    }
    lines = {metric: [(value, own[metric]) for value, own in means.items()] for metric in comparison.drawn}
    parts: dict[str, dict[str, Line]] = {}
    for metric, line in lines.items():
        parts.setdefault(_scale(metric), {})[metric] = line
    figure = sweep([Panel("", scale, own) for scale, own in parts.items()], name)
    if 0 < _WIDE * min(rows) <= max(rows):
        figure.update_xaxes(type="log", dtick=1)
    return figure


def _scale(metric: str) -> str:
    return "sum of recalls, %" if metric.startswith("Rsum") else "%"
