"""Tables of trainings: rows trained with the same seeds, measured on the test split, and compared seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from evenreel.evaluation import Interval
from evenreel.papers.engine.findings import (
    FigureRows,
    Findings,
    beside,
    change_bars,
    effect_of,
    figure_table,
    furthest,
)
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.seeds import Figure, Row, SeededRuns, by_row
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.trainings import TrainingOutcome, each_outcome, few_seeds, training_told
from evenreel.papers.engine.variants import Variants
from evenreel.papers.engine.words import paragraph, paragraphs
from evenreel.progress import Progress
from evenreel.report.figures import Line, Panel, sweep
from evenreel.report.result import AuditFigure, AuditTable, Cell
from evenreel.types import Corpus, ScoreBlocks

if TYPE_CHECKING:
    import plotly.graph_objects as go

_WIDE = 100
"""Times the least value of a sweep that its most is where the axis is logarithmic."""


def _any_corpus(corpus: Corpus) -> None:
    """Nothing is asked of it."""


@dataclass(frozen=True)
class Measures:
    """The metrics of a paper's tables, and the function that measures them.

    Attributes:
        paper: file of `papers/words` that says how they are calculated, below the heading Measures.
        figures: measures metrics by their names, on scores of every caption and clip of a corpus.
        main: metric that the effect of a study is about.
        ends: least and greatest value that a metric can have, where these are not 0 and 100.
        check: refuses a corpus that cannot be measured, before anything is trained.
    """

    paper: str
    figures: Callable[[ScoreBlocks, Corpus, tuple[str, ...]], dict[str, float]]
    main: str
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    check: Callable[[Corpus], None] = _any_corpus


Settings = TypeVar("Settings", bound=TrainingSettings)


@dataclass(frozen=True)
class TrainingComparison(Generic[Settings]):
    """A table that compares trainings which differ in one setting: its rows, its metrics, and notes for readers.

    Attributes:
        variants: makes the recipes of the rows from the inputs and settings of the study.
        metrics: metrics that are measured, a column each.
        measures: how these metrics are measured.
        lead: row whose change is the effect of the study; empty for the row with the largest change.
        notes: headings of paragraphs of `papers/words` that readers have to know, beside that of the measures.
        sweeps: settings that are drawn, such as `kappa`, with the row of each of their values; rows that were not
            trained are left out.
        drawn: metrics that are drawn over the values of each sweep.
    """

    variants: Callable[[LearningInputs, Settings], Variants]
    metrics: tuple[str, ...]
    measures: Measures
    lead: str = ""
    notes: tuple[str, ...] = ()
    sweeps: Mapping[str, Mapping[float, str]] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ComparedTrainings:
    """The rows of a table with what was measured of each training: figures, training clips and encodings.

    Attributes:
        variants: the rows, and which row each is compared with.
        runs: figures of each row.
        clips: how many clips each row learned from, one number a seed.
        costs: how often the matcher of each row encodes a caption and a clip.
    """

    variants: Variants
    runs: SeededRuns[str, str]
    clips: Mapping[str, Sequence[int]]
    costs: Mapping[str, int]


def changes_of(variants: Variants, runs: SeededRuns[str, Figure]) -> dict[str, dict[Figure, Interval]]:
    """Return how each figure of each row differs from that of the row it is compared with, seed by seed."""
    compared = ((name, variant.against) for name, variant in variants.items())
    return {name: runs.changes(against, name) for name, against in compared if against is not None}


def measured_trainings(
    variants: Variants,
    material: LearningInputs,
    settings: TrainingSettings,
    progress: Progress,
    measure: Callable[[TrainingOutcome], Mapping[Row, Mapping[Figure, float]]],
    ends: Mapping[Figure, tuple[float, float]],
) -> SeededRuns[Row, Figure]:
    """Train each variant with each seed, and return its figures.

    Args:
        variants: rows to train, by name.
        material: splits that are learned from and searched.
        settings: seeds, confidence, and where runs are kept.
        progress: called with the share that is done.
        measure: function that returns the figures of a training, by the row of the table that they belong to; most
            return one row.
        ends: least and greatest value that a figure can have, where these are not 0 and 100.
    """
    notices: dict[str, None] = {}

    def each_measured() -> Iterator[tuple[Row, Mapping[Figure, float]]]:
        for one in each_outcome(variants, material, settings, progress):
            notices.update(dict.fromkeys(one.notices))
            yield from measure(one).items()

    return SeededRuns(by_row(each_measured()), settings.audit.confidence, ends, tuple(notices))


def compared_trainings(
    comparison: TrainingComparison[Settings], material: LearningInputs, settings: Settings, progress: Progress
) -> Findings:
    """Make a table of trainings: train and measure each row, and compare it with the row it names, seed by seed."""
    _, test = material.learning()
    measures, main = comparison.measures, comparison.measures.main
    variants = comparison.variants(material, settings)
    measures.check(test.corpus)
    clips: dict[str, list[int]] = {}
    costs: dict[str, int] = {}

    def measure(one: TrainingOutcome) -> dict[str, dict[str, float]]:
        clips.setdefault(one.row, []).append(one.clips)
        costs[one.row] = one.cost
        return {one.row: measures.figures(one.scores(), one.test.corpus, comparison.metrics)}

    runs = measured_trainings(variants, material, settings, progress, measure, measures.ends)
    found = ComparedTrainings(variants, runs, clips, costs)
    changes = changes_of(variants, runs)
    lead = comparison.lead or furthest({name: own[main] for name, own in changes.items()})
    picked = () if comparison.lead else paragraphs("shared", "The largest change")
    return Findings(
        " ".join(_told(found, name, change[main], main) for name, change in changes.items()),
        effect_of(changes[lead][main], f"Change of {main}: {lead} less {variants[lead].against}"),
        (
            _means(found, comparison.metrics),
            changes_table(
                (((name, variants[name].against, costs[name]), figures) for name, figures in changes.items()),
                ("training", "less", "clip encodings"),
                settings,
            ),
            means_table((((name,), runs.means(name)) for name in runs.rows), ("training",), settings),
        ),
        (
            *(AuditFigure(name, partial(_sweep, runs, comparison, name)) for name in comparison.sweeps),
            AuditFigure(f"Change of {main}", partial(change_bars, changes, main)),
        ),
        (*few_seeds(settings), *runs.notices),
        (
            paragraph(measures.paper, "Measures"),
            training_told(settings.recipe, material),
            *paragraphs(measures.paper, *comparison.notes),
            *picked,
        ),
    )


def _means(found: ComparedTrainings, metrics: tuple[str, ...]) -> AuditTable:
    """The paper's form: a row for each training, its figures, what it learned from, and what it costs to search."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name,
            cost,
            round(float(np.mean(found.clips[name]))),
            *(found.runs.mean(name, metric).value for metric in metrics),
        )
        for name, cost in found.costs.items()
    )
    columns = ("training", "clip encodings", "training clips", *metrics)
    note = "Means over seeds. As many galleries are kept as a clip is encoded times."
    return AuditTable("What each training gives", columns, rows, note)


def changes_table(rows: FigureRows, labels: Sequence[str], settings: TrainingSettings) -> AuditTable:
    """Make a table of how each figure changes from one training to another, with intervals over seeds."""
    return figure_table("What each changes, seed by seed", labels, rows, "change", _seeds_note(settings))


def means_table(rows: FigureRows, labels: Sequence[str], settings: TrainingSettings) -> AuditTable:
    """Make a table of the mean of each figure of each training, with its interval over seeds."""
    return figure_table("Every figure with its interval", labels, rows, "mean", _seeds_note(settings))


def _seeds_note(settings: TrainingSettings) -> str:
    return paragraph("shared", "Intervals over seeds", seeds=settings.seeds)


def _told(found: ComparedTrainings, name: str, change: Interval, main: str) -> str:
    """A sentence for a row of the table: its change, whether it can be told, and its cost."""
    times = found.costs[name]
    cost = "once" if times == 1 else f"{times} times"
    changed = beside(change, str(found.variants[name].against))
    return f"{name}: {main} {found.runs.mean(name, main).value:.1f}, {changed}; each clip is encoded {cost}."


def _sweep(runs: SeededRuns[str, str], comparison: TrainingComparison[Any], name: str) -> go.Figure:
    """Each metric over one number that rows differ in."""
    rows = comparison.sweeps[name]
    means = {value: runs.means(row) for value, row in rows.items() if row in runs.rows}
    lines = {metric: [(value, own[metric]) for value, own in means.items()] for metric in comparison.drawn}
    parts: dict[str, dict[str, Line]] = {}
    for metric, line in lines.items():
        parts.setdefault("sum of recalls, %" if metric.startswith("Rsum") else "%", {})[metric] = line
    figure = sweep([Panel("", scale, own) for scale, own in parts.items()], name)
    if 0 < _WIDE * min(rows) <= max(rows):
        figure.update_xaxes(type="log", dtick=1)
    return figure
