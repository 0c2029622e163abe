"""Table 3 of BiMa (arXiv 2506.03589): what was learned from one corpus, searched for in others.

A row is told apart from the baseline with the same seed. Rows of several calls, each with another corpus to learn from,
can be put under each other: they say what was learned from and what was searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evenreel.evaluation import Interval
from evenreel.matchers import build_matcher
from evenreel.papers.bima.measures import ENDS, MAIN, T2V
from evenreel.papers.bima.variants import BIMA, CLIP4CLIP, compared_with_others
from evenreel.papers.engine.findings import Findings, beside, effect_of, figure_rows
from evenreel.papers.engine.inputs import TransferInputs
from evenreel.papers.engine.material import CorpusPart
from evenreel.papers.engine.recalls import recall_figures
from evenreel.papers.engine.seeds import means_over_seeds, over_seeds
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.streams import with_streams
from evenreel.papers.engine.training_tables import ComparedTrainings, Run
from evenreel.papers.engine.trainings import TrainingOutcome, each_outcome, few_seeds, training_told
from evenreel.papers.engine.variants import BASELINE, Variants
from evenreel.papers.engine.words import paragraph, paragraphs
from evenreel.progress import Progress
from evenreel.report.result.record import AuditFigure, AuditTable, Cell

if TYPE_CHECKING:
    import plotly.graph_objects as go

NOTHING = "nothing"
"""What the towers as they are have learned from, to a study."""
_PLACE = ("searched", "learned from", "system")


Searched = Mapping[str, ComparedTrainings]
"""Rows of the table by the corpus that is searched, the one that is learned from last."""


def on_other_corpora(material: TransferInputs, settings: TrainingSettings, progress: Progress) -> Findings:
    """Train each system on one corpus, and measure it on others and on its own.

    Raises:
        UsageError: there is no other corpus, or the recipe trains another matcher than bima.
        EvenreelError: the dictionary cannot be used with these features.
    """
    streams = settings.recipe.data.streams
    taken = {name: with_streams(part, material.streams, streams) for name, part in material.searched().items()}
    parts = {name: part.only(part.corpus) for name, part in taken.items()}
    kinds = compared_with_others(material, settings)
    untrained = {name: _untrained(part) for name, part in parts.items()}
    found = _compared(kinds, parts, each_outcome(kinds, material, settings, progress))
    confidence, own = settings.audit.confidence, material.name
    changes = {name: one.changes(confidence) for name, one in found.items()}
    effect = over_seeds(_mean_changes([found[name] for name in material.others]), confidence)
    told = (
        f"in {name} {BIMA} has {MAIN} {found[name].mean(BIMA, MAIN):.1f}, {beside(changes[name][BIMA][MAIN], BASELINE)}"
        for name in found
    )
    return Findings(
        f"Learned from {own}: {'; '.join(told)}.",
        effect_of(effect, f"Mean change of {MAIN} on corpora not learned from: {BIMA} less {BASELINE}"),
        (
            _means(found, untrained, own),
            _changes(found, changes, settings, own),
            _intervals(found, settings, own),
            _galleries(parts),
        ),
        (AuditFigure(f"Change of {MAIN} beside {BASELINE}", partial(_bars, changes)),),
        (*few_seeds(settings), *found[own].notices),
        (
            paragraph("bima", "Measures"),
            training_told(settings.recipe, material),
            *paragraphs("bima", "Systems of table 3", "Other corpora", "Table 3 in the paper"),
        ),
    )


def _untrained(part: CorpusPart) -> dict[str, float]:
    """Figures of the towers as they are."""
    scores = part.scores(build_matcher(CLIP4CLIP, part.videos.frames.shape[-1]))
    return recall_figures(scores, part.corpus, T2V)


def _compared(kinds: Variants, parts: Mapping[str, CorpusPart], outcomes: Iterable[TrainingOutcome]) -> Searched:
    runs: dict[str, dict[str, list[Run]]] = {name: {kind: [] for kind in kinds} for name in parts}
    notices: dict[str, None] = {}
    for one in outcomes:
        for name, part in parts.items():
            figures = recall_figures(part.scores(one.matcher), part.corpus, T2V)
            runs[name][one.row].append(Run(figures, one.clips, one.cost))
        notices |= dict.fromkeys(one.notices)
    return {name: ComparedTrainings(kinds, own, tuple(notices)) for name, own in runs.items()}


def _mean_changes(others: Iterable[ComparedTrainings]) -> list[float]:
    """Of each seed, how much more than the baseline finds, mean over corpora."""
    changes = [
        [after.figures[MAIN] - before.figures[MAIN] for before, after in zip(runs[BASELINE], runs[BIMA], strict=True)]
        for runs in (one.runs for one in others)
    ]
    return [float(value) for value in np.mean(changes, axis=0)]


def _means(found: Searched, untrained: Mapping[str, Mapping[str, float]], own: str) -> AuditTable:
    """The paper's form, its groups of columns below each other."""
    rows: list[tuple[Cell, ...]] = []
    for name, one in found.items():
        rows.append((name, NOTHING, CLIP4CLIP, *(untrained[name][metric] for metric in T2V)))
        rows += [(name, own, kind, *(one.mean(kind, metric) for metric in T2V)) for kind in one.variants]
    return AuditTable("What is found where", (*_PLACE, *T2V), tuple(rows), "Means over seeds.")


def _changes(
    found: Searched, changes: Mapping[str, Mapping[str, Mapping[str, Interval]]], settings: TrainingSettings, own: str
) -> AuditTable:
    rows = figure_rows(
        ((name, own, row, found[name].variants[row].against), figures)
        for name, by_row in changes.items()
        for row, figures in by_row.items()
    )
    columns = (*_PLACE, "less", "figure", "change", "low", "high")
    return AuditTable(
        "What each changes, seed by seed",
        columns,
        rows,
        paragraph("shared", "Intervals over seeds", seeds=settings.seeds),
    )


def _intervals(found: Searched, settings: TrainingSettings, own: str) -> AuditTable:
    confidence = settings.audit.confidence
    rows = figure_rows(
        ((name, own, row), means_over_seeds(one.figures(row), confidence, ENDS))
        for name, one in found.items()
        for row in one.runs
    )
    columns = (*_PLACE, "figure", "mean", "low", "high")
    return AuditTable(
        "Every figure with its interval",
        columns,
        rows,
        paragraph("shared", "Intervals over seeds", seeds=settings.seeds),
    )


def _galleries(parts: Mapping[str, CorpusPart]) -> AuditTable:
    rows = tuple(
        (name, part.corpus.captions.height, len(part.videos.ids), 100 / len(part.videos.ids))
        for name, part in parts.items()
    )
    return AuditTable("What is searched", ("searched", "captions", "clips", "R@1 by chance, %"), rows)


def _bars(changes: Mapping[str, Mapping[str, Mapping[str, Interval]]]) -> go.Figure:
    from evenreel.report.result.figures import deltas_by_group

    kinds = next(iter(changes.values()))
    bars = {kind: {name: by_kind[kind][MAIN] for name, by_kind in changes.items()} for kind in kinds}
    return deltas_by_group(bars, f"change of {MAIN}, points")
