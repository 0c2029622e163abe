"""Tables 1 to 3 and Figure 4 of TITAN (MM 2023): a stream without labels, answered in several ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from evenreel.audits.exchange import hits_interval
from evenreel.audits.settings import AuditSettings
from evenreel.errors import UsageError
from evenreel.evaluation import Interval
from evenreel.papers.engine.findings import (
    Findings,
    beside,
    change_bars,
    effect_of,
    few_clips,
    figure_table,
    furthest,
    may_be_chance,
)
from evenreel.papers.engine.inputs import StreamInputs
from evenreel.papers.engine.runs import each_seed
from evenreel.papers.engine.seeds import SeededRuns, by_row
from evenreel.papers.engine.words import paragraph, paragraphs
from evenreel.papers.titan.rows import SOURCE, Row, Rows, RowsOf, name_of_whole
from evenreel.papers.titan.settings import StreamSettings
from evenreel.papers.titan.streams import METRICS, Diagnosis, StreamOutcome, Target, answered
from evenreel.papers.titan.words import hub_table, no_crowd, sweep_figures, sweep_tables
from evenreel.progress import Progress, each_part
from evenreel.report.result import AuditFigure, AuditTable, Cell

MAIN = "R@1"
RECALLS = METRICS[:3]
_DIAGNOSED = {
    "labels": ("labels", 1), "right, %": ("right", 100), "coverage, %": ("coverage", 100), "Gini": ("gini", 1),
    "counterfactual captions": ("counterfactual", 1), "weights moved, %": ("moved", 100),
    "first clips changed, %": ("changed", 100), "rank before": ("rank_before", 1), "rank after": ("rank_after", 1),
}  # fmt: skip
"""Columns of the table of labels: a field of `Diagnosis` each, and what it is multiplied by."""
OVER_CAPTIONS = "Intervals over captions."
FEW_ROWS = 3
"""Rows that all have a sentence; of more, those have one that differ for sure."""


@dataclass(frozen=True)
class StreamComparison:
    """A table that compares ways to answer a stream of queries: its rows, and the row they are compared with.

    Attributes:
        rows: makes the rows of the table.
        against: name of the row that the others are compared with.
        lead: the row whose change is the effect of the study, empty for that of the settings as they are; where it is
            not there, the one with the largest change.
        notes: headings of paragraphs of `papers/words/titan.md` that readers have to know.
        sweeps: whether rows are points of the sweeps of Figure 4.
    """

    rows: RowsOf
    against: str
    lead: str = ""
    notes: tuple[str, ...] = ()
    sweeps: bool = False


@dataclass(frozen=True, eq=False)
class ComparedStreams:
    """One model's rows of a table of streams, measured with each seed.

    Attributes:
        target: the model and its split.
        against: the row that the others are compared with.
        outcomes: outcomes of each row by its name, one a seed.
        runs: metrics of the rows over all captions.
        left_out: why rows are missing, by the reason.
    """

    target: Target
    against: str
    outcomes: Mapping[str, Sequence[StreamOutcome]]
    runs: SeededRuns[str, str]
    left_out: Mapping[str, Sequence[str]]

    def mean(self, row: str, metric: str) -> float:
        """Return the mean of a metric of a row over the seeds."""
        return self.runs.mean(row, metric).value

    def changes(self, settings: AuditSettings) -> dict[str, dict[str, Interval]]:
        """Return how the recalls of each row differ from those of `against`, with intervals over captions."""
        before = self._hits(self.against)
        found = {}
        for row in self.outcomes:
            if row != self.against:
                changed = self._hits(row) - before
                intervals = [hits_interval(column, self.target.groups, settings) for column in changed]
                found[row] = dict(zip(RECALLS, intervals, strict=True))
        return found

    def seed_changes(self) -> dict[str, dict[str, Interval]]:
        """Return how the metrics of each row differ from those of `against`, with intervals over seeds."""
        return self.runs.changes_beside(self.against)

    def _hits(self, row: str) -> NDArray[np.float64]:
        """(3, Q) hits of each caption at each depth, in percent, their mean over seeds."""
        found: NDArray[np.float64] = np.mean(
            [[one.per_query[metric] for metric in RECALLS] for one in self.outcomes[row]], axis=0
        )
        return found


def compared_streams(
    comparison: StreamComparison, material: StreamInputs, settings: StreamSettings, progress: Progress
) -> Findings:
    """Make a table of streams: answer the test split by the method of each row, with each model and seed."""
    models = material.encoders()
    rows = comparison.rows(settings.adapt, material.bank is not None)
    targets = [Target(model, material.bank) for model in models]
    found = [
        _compared(target, rows, comparison.against, settings, share) for target, share in each_part(targets, progress)
    ]
    changes = {one.target.name: one.changes(settings.audit) for one in found}
    first = changes[found[0].target.name]
    lead = comparison.lead or name_of_whole(settings.adapt)
    lead = lead if lead in first else furthest({row: own[MAIN] for row, own in first.items()})
    return Findings(
        " ".join(_told(found, changes)),
        effect_of(first[lead][MAIN], f"Change of {MAIN}: {lead} less {found[0].against}"),
        (
            _means(found),
            _changes_table("What each changes", [changes[one.target.name] for one in found], found, OVER_CAPTIONS),
            *(() if settings.seeds == 1 else (_over_seeds(found, settings),)),
            _diagnoses(found),
            *(sweep_tables([one.target for one in found], settings.adapt) if comparison.sweeps else ()),
            hub_table([one.target for one in found], settings.adapt),
        ),
        tuple(_figures(comparison, found, changes, settings)),
        (*_left_out(found), *no_crowd([one.target for one in found], settings.adapt), *_one_seed(settings)),
        (
            *paragraphs("titan", "Measures", "Pseudo-labels"),
            settings_told(settings),
            paragraph("titan", "Seeds"),
            *paragraphs("titan", *comparison.notes),
        ),
        few=few_clips(len(set(found[0].target.own))),
    )


def settings_told(settings: StreamSettings) -> str:
    """Say by which settings models learn from a stream, which all rows of a table have in common."""
    own = settings.adapt
    step = f"{own.steps} step{'s' if own.steps > 1 else ''} a batch"
    rounds = step if own.online else f"{own.epochs} epoch{'s' if own.epochs > 1 else ''} of {step}"
    how = f"batches of {own.batch_size:,} queries, {rounds}"
    paper = " It is the paper's, for whole towers; a small adapter on fixed features moves little with it in one pass."
    fit = own.causal_fit
    stage = f" Target stage of the correction: {fit.steps:,} steps of {fit.lr:g} each time that labels are made."
    return (
        f"Adam with a learning rate of {own.lr:g}, {how}, what learns: {own.learns}."
        f"{paper if own.lr <= 1e-5 else ''}{stage if own.causal else ''} "
        "Change these with --set lr=0.001, --set epochs=5, --set causal_fit.steps=200 and so on."
    )


def _compared(
    target: Target, rows: Rows, against: str, settings: StreamSettings, progress: Progress
) -> ComparedStreams:
    reasons: dict[str, list[str]] = {}
    able: Rows = {}
    for name, row in rows.items():
        reason = _reason(target, row)
        if reason:
            reasons.setdefault(reason, []).append(name)
        else:
            able[name] = row
    learning = [name for name, row in able.items() if row.settings is not None]
    if not learning:
        raise UsageError(f"{target.name} cannot learn at test time: {next(iter(reasons))}")
    if against not in able:
        against = SOURCE
    seeds = range(settings.adapt.seed, settings.adapt.seed + settings.seeds)
    outcomes = by_row(
        (name, answered(target, able[name], seed, share, settings=settings.adapt))
        for name, seed, share in each_seed(able, seeds, progress)
    )
    figures = {
        name: [{metric: one.figure(metric) for metric in METRICS} for one in own] for name, own in outcomes.items()
    }
    return ComparedStreams(target, against, outcomes, SeededRuns(figures, settings.audit.confidence), reasons)


def _reason(target: Target, row: Row) -> str:
    """Why a model cannot be asked in the way of a row; empty where it can."""
    try:
        target.check(row)
    except UsageError as error:
        return str(error)
    return ""


def _told(
    found: Sequence[ComparedStreams], changes: Mapping[str, Mapping[str, Mapping[str, Interval]]]
) -> Iterator[str]:
    """A sentence for the row that others are compared with, for each that can be told from it, and for the rest."""
    for one in found:
        of = f"{one.target.name}, " if len(found) > 1 else ""
        main = {row: own[MAIN] for row, own in changes[one.target.name].items()}
        yield f"{of}{one.against}: {MAIN} {one.mean(one.against, MAIN):.1f}."
        for row, change in main.items():
            if len(main) <= FEW_ROWS or not may_be_chance(change):
                yield f"{of}{row}: {MAIN} {one.mean(row, MAIN):.1f}, {beside(change, one.against)}."
        rest = sum(may_be_chance(change) for change in main.values())
        if rest and len(main) > FEW_ROWS:
            others = "the other row is" if rest == 1 else f"the other {rest} rows are"
            yield f"{of}{others if of else others.capitalize()} within chance of {one.against}."


def _means(found: Sequence[ComparedStreams]) -> AuditTable:
    """The paper's form."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (one.target.name, row, *(one.mean(row, metric) for metric in METRICS)) for one in found for row in one.outcomes
    )
    return AuditTable("What each finds", ("model", "row", *METRICS), rows, "Recall in percent; means over seeds.")


def _over_seeds(found: Sequence[ComparedStreams], settings: StreamSettings) -> AuditTable:
    note = f"Student's t over {settings.seeds} seeds, so of the order of the queries and not of which they are."
    return _changes_table("What each changes, seed by seed", [one.seed_changes() for one in found], found, note)


def _changes_table(
    title: str, changes: Sequence[Mapping[str, Mapping[str, Interval]]], found: Sequence[ComparedStreams], note: str
) -> AuditTable:
    """Changes of each row, model by model."""
    rows = (
        ((one.target.name, row, one.against), figures)
        for one, own in zip(found, changes, strict=True)
        for row, figures in own.items()
    )
    return figure_table(title, ["model", "row", "less"], rows, "change", note)


def _diagnoses(found: Sequence[ComparedStreams]) -> AuditTable:
    """How right and how even the labels were, and how far the weights went."""
    rows = [
        (one.target.name, row, *_diagnosis([own.diagnosis for own in outcomes if own.diagnosis is not None]))
        for one in found
        for row, outcomes in one.outcomes.items()
        if outcomes[0].diagnosis is not None
    ]
    columns = ("model", "row", *_DIAGNOSED, "in the end")
    return AuditTable(
        "How good the pseudo-labels were", columns, tuple(rows), "Means over seeds; the end of the first."
    )


def _diagnosis(own: Sequence[Diagnosis]) -> tuple[Cell, ...]:
    def mean(values: Sequence[float | None], factor: float = 1.0) -> float | None:
        known = [value for value in values if value is not None]
        return factor * float(np.mean(known)) if known else None

    means = (mean([getattr(one, name) for one in own], factor) for name, factor in _DIAGNOSED.values())
    return (*means, own[0].sentence)


def _left_out(found: Sequence[ComparedStreams]) -> Iterator[str]:
    for one in found:
        for reason, rows in one.left_out.items():
            yield f"{one.target.name}, left out: {', '.join(rows)}. {reason}"


def _one_seed(settings: StreamSettings) -> tuple[str, ...]:
    if settings.seeds > 1:
        return ()
    return ("One seed: intervals do not count the order of the queries; give --seeds 3 or more.",)


def _figures(
    comparison: StreamComparison,
    found: Sequence[ComparedStreams],
    changes: Mapping[str, Mapping[str, Mapping[str, Interval]]],
    settings: StreamSettings,
) -> Iterator[AuditFigure]:
    for one in found:
        name = one.target.name
        if comparison.sweeps:
            yield from sweep_figures(one.target, one.runs, settings.adapt)
        yield AuditFigure(f"{name}: change of {MAIN}", partial(change_bars, changes[name], MAIN))
