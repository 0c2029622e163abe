"""One model's rankings with one thing changed, on the same captions and clips, and how much the preference changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenreel.audits.settings import AuditSettings
from evenreel.audits.source.paired import measure_source
from evenreel.audits.statistics.inversion import inverted_interval
from evenreel.evaluation import Interval
from evenreel.papers.engine.findings import PREFERENCE, UNIT, interval_cells
from evenreel.papers.ghost.measures import MAIN, Figures, figures_of, notices_of, paper_table
from evenreel.report.result.record import AuditTable
from evenreel.types import Corpus, ScoreBlocks

if TYPE_CHECKING:
    import plotly.graph_objects as go

AS_IT_IS = "as it is"
"""The variant that others are compared with; it comes first."""


_FURTHEST = 800.0
"""How far a Normalized Δ can change."""


@dataclass(frozen=True, eq=False)
class VariantFigures:
    """One model with one group of generated clips.

    Attributes:
        figures: by variant.
        changes: of the Normalized Δ MixR from the first variant, by the others.
    """

    figures: dict[str, Figures]
    changes: dict[str, Interval]


Found = Mapping[tuple[str, str], VariantFigures]
"""By group of generated clips and model."""


def compare_variants(
    scored: Iterable[tuple[str, ScoreBlocks]], corpus: Corpus, group: str, audit: AuditSettings
) -> VariantFigures:
    """Measure each variant; all score the same captions and clips, and the first is what the others change."""
    figures: dict[str, Figures] = {}
    changes: dict[str, Interval] = {}
    first = None
    for name, scores in scored:
        measures = measure_source(scores, corpus, group, audit)
        figures[name] = figures_of(measures)
        if first is None:
            first = measures.swapped
        else:
            changes[name] = inverted_interval(measures.swapped - first, audit, ends=(-_FURTHEST, _FURTHEST))
    return VariantFigures(figures, changes)


def every_change(found: Found) -> dict[tuple[str, str, str], Interval]:
    """The changes by group, model and variant."""
    return {(*key, name): change for key, one in found.items() for name, change in one.changes.items()}


def left_out(found: Found) -> tuple[str, ...]:
    """What was left out of any of it."""
    return notices_of(figures for one in found.values() for figures in one.figures.values())


def changes_table(found: Found, what: str) -> AuditTable:
    """A row for each variant: the preference and its change, with intervals; `what` heads the variants."""
    rows = [
        (*key, name, *interval_cells(figures[MAIN]), *interval_cells(one.changes.get(name, Interval(0.0))))
        for key, one in found.items()
        for name, figures in one.figures.items()
    ]
    columns = ("generated clips", "model", what, PREFERENCE, "low", "high", "change", "low", "high")
    return AuditTable("The preference and how it changes", columns, tuple(rows))


def paper_tables(found: Found, what: str) -> Iterator[AuditTable]:
    """The paper's form for each model and group."""
    for (group, model), one in found.items():
        rows = [((name,), figures) for name, figures in one.figures.items()]
        yield paper_table(f"{model}: real clips and {group}", (what,), rows)


def bars(found: Found) -> go.Figure:
    """A bar for each variant, by model and group."""
    from evenreel.report.result.figures import deltas_by_group

    names = {key: f"{key[1]}, {key[0]}" for key in found}
    variants = next(iter(found.values())).figures
    return deltas_by_group(
        {name: {names[key]: one.figures[name][MAIN] for key, one in found.items()} for name in variants}, UNIT
    )
