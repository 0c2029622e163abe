"""One model's rankings with one thing changed, on the same captions and clips, and how much the preference changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from evenreel.audits.exchange import inverted_interval
from evenreel.audits.source import measure_source
from evenreel.evaluation import Interval
from evenreel.papers.engine.findings import PREFERENCE
from evenreel.papers.engine.inputs import ModelInputs
from evenreel.papers.engine.material import Model, groups_in
from evenreel.papers.engine.settings import StudySettings
from evenreel.papers.ghost.measures import MAIN, Figures, figures_of, group_bars, group_tables
from evenreel.progress import Progress, each_part
from evenreel.report.result import AuditTable, interval_cells, interval_columns
from evenreel.types import ScoreBlocks

if TYPE_CHECKING:
    import plotly.graph_objects as go

AS_IT_IS = "as it is"
"""The variant that others are compared with; it comes first."""

_FURTHEST = 800.0
"""How far a Normalized Δ can change."""

ScoredVariants = Callable[[Model, str, Progress], Iterable[tuple[str, ScoreBlocks]]]
"""From a model and a group of generated clips to the scores of each variant, by its name."""

VariantKey = tuple[str, str, str]
"""Group of generated clips, model and variant."""


@dataclass(frozen=True, eq=False)
class VariantFigures:
    """Source preferences of models with one thing changed, and how much each change does.

    Attributes:
        figures: figures of every variant.
        changes: change of the Normalized Δ MixR from the first variant of its model, of the others.
    """

    figures: dict[VariantKey, Figures]
    changes: dict[VariantKey, Interval]


def compare_variants(
    variants: ScoredVariants, material: ModelInputs, settings: StudySettings, progress: Progress
) -> VariantFigures:
    """Measure every variant of every model with every group of generated clips.

    Args:
        variants: makes the scores; all are of the same captions and clips, and the first is what the others change.
        material: models, and the clips that they rank.
        settings: samples and confidence of the intervals.
        progress: called with the share that is done.
    """
    found = VariantFigures({}, {})
    pairs = list(product(material.encoders(), groups_in(material.test)))
    for (model, group), share in each_part(pairs, progress):
        first = None
        for name, scores in variants(model, group, share):
            measures = measure_source(scores, material.test, group, settings.audit)
            found.figures[group, model.name, name] = figures_of(measures)
            if first is None:
                first = measures.swapped
            else:
                change = inverted_interval(measures.swapped - first, settings.audit, ends=(-_FURTHEST, _FURTHEST))
                found.changes[group, model.name, name] = change
    return found


def changes_table(found: VariantFigures, what: str) -> AuditTable:
    """Make a table with a row for each variant: its preference, and how that changes, with intervals."""
    rows = [
        (*key, *interval_cells(figures[MAIN], found.changes.get(key, Interval(0.0))))
        for key, figures in found.figures.items()
    ]
    columns = ("generated clips", "model", what, *interval_columns(PREFERENCE, "change"))
    return AuditTable("The preference and how it changes", columns, tuple(rows))


def variant_tables(found: VariantFigures, what: str) -> list[AuditTable]:
    """Make a table in the form of Generative Ghost's table 2 for each model and group of generated clips."""
    named = {(f"{model}: real clips and {group}", name): one for (group, model, name), one in found.figures.items()}
    return group_tables(what, named, "{}")


def variant_bars(found: VariantFigures) -> go.Figure:
    """Draw the Normalized Δ MixR of each variant as a bar, by model and group of generated clips."""
    return group_bars({(f"{model}, {group}", name): one for (group, model, name), one in found.figures.items()})
