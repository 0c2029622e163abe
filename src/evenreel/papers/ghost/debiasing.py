"""Table 6: matchers trained against a preference, beside plain fine-tuning (Generative Ghost, section 5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from evenreel.debias.source.contrast import PRESETS
from evenreel.papers.engine.findings import (
    PREFERENCE,
    UNIT,
    Findings,
    effect_of,
    few_pairs,
    interval_cells,
    shown,
    verdict,
)
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.settings import GroupSettings
from evenreel.papers.engine.words import paragraph, paragraphs
from evenreel.papers.ghost.comparing import BEFORE, compared, kind_means, preference_change
from evenreel.papers.ghost.measures import (
    MAIN,
    Figures,
    notices_of,
    paper_table,
    preference_table,
)
from evenreel.progress import Progress
from evenreel.report.result.record import AuditFigure, AuditTable
from evenreel.training.recipe.recipe import Recipe

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from evenreel.evaluation import Interval

PLAIN = "plain"
"""Fine-tuning on the same real pairs without the term."""


def debiased_training(material: LearningInputs, settings: GroupSettings, progress: Progress) -> Findings:
    """Table 6: every preset beside plain fine-tuning, on every group of generated clips."""
    data = replace(settings.recipe.data, generated_group=settings.group)
    plain = replace(settings.recipe, data=data, debias=None)
    kinds: dict[str, Recipe] = {PLAIN: plain} | {
        name: replace(plain, debias=preset) for name, preset in PRESETS.items()
    }
    found, confidence = compared(kinds, material, settings, progress), settings.audit.confidence
    changes = {
        (group, name): preference_change(runs, PLAIN, name, confidence)
        for group, runs in found.items()
        for name in PRESETS
    }
    means = {group: kind_means(runs, confidence) for group, runs in found.items()}
    furthest = max(changes, key=lambda key: abs(changes[key].value))
    rows = [((group, kind), figures) for group, kinds in means.items() for kind, figures in kinds.items()]
    return Findings(
        " ".join(_kinds_told(means)),
        effect_of(changes[furthest], f"Change of {PREFERENCE} on {furthest[0]}: {furthest[1]} less {PLAIN}"),
        (
            preference_table(
                "What each training does",
                ("generated clips", "training"),
                rows,
                paragraph("ghost", "Intervals over seeds", seeds=settings.seeds),
            ),
            _changes_table(changes),
            *(
                paper_table(f"Real clips and {group}", ("training",), [((kind,), one) for kind, one in kinds.items()])
                for group, kinds in means.items()
            ),
        ),
        (AuditFigure("Preference after each training", partial(_bars, means)),),
        notices_of(figures for _, figures in rows),
        paragraphs("ghost", "Measures", "Debiased training"),
        few=few_pairs(material.test, found),
    )


def _kinds_told(means: Mapping[str, Mapping[str, Figures]]) -> Iterator[str]:
    """A sentence for each training, on the first group."""
    group, kinds = next(iter(means.items()))
    for kind, figures in kinds.items():
        if kind != BEFORE:
            figure, recall = figures[MAIN], figures["real", "R@1"].value
            yield (
                f"After {kind} training the matcher {verdict(figure)} on {group}: {PREFERENCE} {shown(figure)}, and "
                f"finds {recall:.1f} % of real clips first among real ones."
            )


def _changes_table(changes: Mapping[tuple[str, str], Interval]) -> AuditTable:
    rows = tuple((*key, *interval_cells(change)) for key, change in changes.items())
    columns = ("generated clips", "training", "change", "low", "high")
    return AuditTable(f"Change of {PREFERENCE} from {PLAIN} fine-tuning, seed by seed", columns, rows)


def _bars(means: Mapping[str, Mapping[str, Figures]]) -> go.Figure:
    from evenreel.report.result.figures import deltas_by_group

    kinds = next(iter(means.values()))
    return deltas_by_group({kind: {group: own[kind][MAIN] for group, own in means.items()} for kind in kinds}, UNIT)
