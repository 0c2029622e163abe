"""Figure 3: what a growing share of generated clips in the training split does (Generative Ghost, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from evenreel.audits.statistics.deltas import MIX_R
from evenreel.papers.engine.findings import PREFERENCE, Findings, direction, effect_of, few_pairs, furthest, shown
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.words import paragraph, paragraphs
from evenreel.papers.ghost.comparing import BEFORE, compared
from evenreel.papers.ghost.measures import MAIN, Figures, group_tables, notices_of, preference_table
from evenreel.papers.ghost.settings import ShareSettings
from evenreel.progress import Progress
from evenreel.report.figures import Line, Panel, share_sweep
from evenreel.report.result import AuditFigure
from evenreel.training.recipe import Recipe

if TYPE_CHECKING:
    import plotly.graph_objects as go

RECALLS = ("R@1", "R@5", "R@10")
DELTAS = ("R@1", "MedR", "MeanR", MIX_R)
PANELS = {
    "real": ("Real clips alone", RECALLS, "R@k, %"),
    "generated": ("Generated clips alone", RECALLS, "R@k, %"),
    "mixed real": ("Real clips among both", RECALLS, "R@k, %"),
    "mixed generated": ("Generated clips among both", RECALLS, "R@k, %"),
    "relative": ("Relative Δ", DELTAS, "Relative Δ, %"),
    "normalized": ("Normalized Δ", DELTAS, "Normalized Δ, %"),
}
"""The six panels of the figure: title, metrics and unit, by row."""


def training_share(material: LearningInputs, settings: ShareSettings, progress: Progress) -> Findings:
    """Make figure 3 of Generative Ghost: train with a growing share of generated clips, and measure the preference."""
    found = compared(
        {name_of(share): mixed(settings, share) for share in settings.shares}, material, settings, progress
    )
    means = found.means
    least, most = name_of(settings.shares[0]), name_of(settings.shares[-1])
    groups = list(dict.fromkeys(group for group, _ in means))
    changes = {group: found.runs.changes((group, least), (group, most))[MAIN] for group in groups}
    lead = furthest(changes)
    first, last = (means[lead, kind][MAIN].value for kind in (least, most))
    note = paragraph("ghost", "Intervals over seeds", seeds=settings.seeds)
    return Findings(
        f"Trained with {most} clips instead of {least} ones, the matcher {direction(changes[lead])} on "
        f"{lead}: {PREFERENCE} {first:+.1f} becomes {last:+.1f}, a "
        f"change of {shown(changes[lead])} over {settings.seeds} seeds.",
        effect_of(changes[lead], f"Change of {PREFERENCE} on {lead}"),
        (
            preference_table(
                "The preference by what was trained on", ("tested with", "trained with"), list(means.items()), note
            ),
            *group_tables("trained with", means, "Tested with {}"),
        ),
        tuple(AuditFigure(f"Tested with {group}", partial(_drawn, means, group, settings.shares)) for group in groups),
        notices_of(means.values()),
        paragraphs("ghost", "Measures", "A share of generated clips"),
        few=few_pairs(material.test, groups),
    )


def name_of(share: float) -> str:
    """Name a share of generated clips, for tables and folders.

    >>> name_of(0.2)
    '20 % generated'
    """
    return f"{100 * share:.0f} % generated"


def mixed(settings: ShareSettings, share: float) -> Recipe:
    """Return the study's recipe with a share of generated clips in training."""
    data = replace(settings.recipe.data, generated_share=share, generated_group=settings.group)
    return replace(settings.recipe, data=data)


def _drawn(means: Mapping[tuple[str, str], Figures], group: str, shares: Sequence[float]) -> go.Figure:
    """The six panels; what was there before training is a point at the left."""

    def lines(row: str, metrics: tuple[str, ...]) -> dict[str, Line]:
        trained: dict[str, Line] = {
            metric: [(100 * share, means[group, name_of(share)][row, metric]) for share in shares] for metric in metrics
        }
        if (group, BEFORE) not in means:
            return trained
        points: dict[str, Line] = {
            f"{metric}, {BEFORE}": [(0.0, means[group, BEFORE][row, metric])] for metric in metrics
        }
        return trained | points

    parts = [Panel(title, unit, lines(row, metrics)) for row, (title, metrics, unit) in PANELS.items()]
    return share_sweep(parts, "generated clips in training")
