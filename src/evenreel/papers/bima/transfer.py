"""Table 3 of BiMa (arXiv 2506.03589): what was learned from one corpus, searched for in others.

A row is told apart from the baseline with the same seed. Rows of several calls, each with another corpus to learn from,
can be put under each other: they say what was learned from and what was searched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from evenreel.evaluation.intervals import over_seeds
from evenreel.matchers import build_matcher
from evenreel.papers.bima.measures import ENDS, MAIN, T2V
from evenreel.papers.bima.variants import BIMA, CLIP4CLIP, compared_with_others
from evenreel.papers.engine.findings import Findings, beside, effect_of
from evenreel.papers.engine.inputs import TransferInputs
from evenreel.papers.engine.material import CorpusPart, with_streams
from evenreel.papers.engine.recalls import recall_figures
from evenreel.papers.engine.seeds import SeededRuns
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.training_tables import changes_of, changes_table, means_table, measured_trainings
from evenreel.papers.engine.trainings import TrainingOutcome, few_seeds, training_told
from evenreel.papers.engine.variants import BASELINE
from evenreel.papers.engine.words import paragraph, paragraphs
from evenreel.progress import Progress
from evenreel.report.figures import deltas_by_group
from evenreel.report.result import AuditFigure, AuditTable, Cell

NOTHING = "nothing"
"""What the towers as they are have learned from, to a study."""
_PLACE = ("searched", "learned from", "system")


Place = tuple[str, str]
"""The corpus that is searched, and the metric."""


def on_other_corpora(material: TransferInputs, settings: TrainingSettings, progress: Progress) -> Findings:
    """Make table 3 of BiMa: train each system on one corpus, and measure it on others and on its own."""
    streams = settings.recipe.data.streams
    taken = {name: with_streams(part, material.streams, streams) for name, part in material.searched().items()}
    parts = {name: part.only(part.corpus) for name, part in taken.items()}
    kinds = compared_with_others(material, settings)
    untrained = {name: _untrained(part) for name, part in parts.items()}

    def measure(one: TrainingOutcome) -> dict[str, dict[Place, float]]:
        seen = {name: one.test if name == material.name else one.seen(part) for name, part in parts.items()}
        figures = {name: recall_figures(part.scores(one.matcher), part.corpus, T2V) for name, part in seen.items()}
        return {one.row: {(name, metric): own[metric] for name, own in figures.items() for metric in T2V}}

    ends = {(name, metric): ENDS[metric] for name in parts for metric in T2V if metric in ENDS}
    runs = measured_trainings(kinds, material, settings, progress, measure, ends)
    changes, own = changes_of(kinds, runs), material.name
    effect = over_seeds(_mean_changes(runs, list(material.others)), settings.audit.confidence)
    told = (
        f"in {name} {BIMA} has {MAIN} {runs.mean(BIMA, (name, MAIN)).value:.1f}, "
        f"{beside(changes[BIMA][name, MAIN], BASELINE)}"
        for name in parts
    )
    bars = {row: {name: figures[name, MAIN] for name in parts} for row, figures in changes.items()}
    return Findings(
        f"Learned from {own}: {'; '.join(told)}.",
        effect_of(effect, f"Mean change of {MAIN} on corpora not learned from: {BIMA} less {BASELINE}"),
        (
            _means(runs, untrained, own),
            changes_table(
                (
                    ((name, own, row, BASELINE), {metric: figures[name, metric] for metric in T2V})
                    for name in parts
                    for row, figures in changes.items()
                ),
                (*_PLACE, "less"),
                settings,
            ),
            means_table(
                (
                    ((name, own, row), {metric: runs.mean(row, (name, metric)) for metric in T2V})
                    for name in parts
                    for row in runs.rows
                ),
                _PLACE,
                settings,
            ),
            _galleries(parts),
        ),
        (
            AuditFigure(
                f"Change of {MAIN} beside {BASELINE}", partial(deltas_by_group, bars, f"change of {MAIN}, points")
            ),
        ),
        (*few_seeds(settings), *runs.notices),
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


def _mean_changes(runs: SeededRuns[str, Place], others: Sequence[str]) -> list[float]:
    """Return by how much BiMa finds more than the baseline with each seed, mean over corpora."""
    pairs = list(zip(runs.rows[BASELINE], runs.rows[BIMA], strict=True))
    changes = [[after[name, MAIN] - before[name, MAIN] for before, after in pairs] for name in others]
    return [float(value) for value in np.mean(changes, axis=0)]


def _means(runs: SeededRuns[str, Place], untrained: Mapping[str, Mapping[str, float]], own: str) -> AuditTable:
    """The paper's form, its groups of columns below each other."""
    rows: list[tuple[Cell, ...]] = []
    for name, before in untrained.items():
        rows.append((name, NOTHING, CLIP4CLIP, *(before[metric] for metric in T2V)))
        rows += [(name, own, row, *(runs.mean(row, (name, metric)).value for metric in T2V)) for row in runs.rows]
    return AuditTable("What is found where", (*_PLACE, *T2V), tuple(rows), "Means over seeds.")


def _galleries(parts: Mapping[str, CorpusPart]) -> AuditTable:
    rows = tuple(
        (name, part.corpus.captions.height, len(part.videos.ids), 100 / len(part.videos.ids))
        for name, part in parts.items()
    )
    return AuditTable("What is searched", ("searched", "captions", "clips", "R@1 by chance, %"), rows)
