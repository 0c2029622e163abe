"""Table 6: matchers trained against a preference, beside plain fine-tuning (Generative Ghost, section 5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from evenreel.debias.source.contrast import PRESETS
from evenreel.evaluation import Interval
from evenreel.papers.engine.findings import (
    PREFERENCE,
    Findings,
    effect_of,
    few_pairs,
    furthest,
    shown,
    verdict,
)
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.settings import GroupSettings
from evenreel.papers.engine.words import paragraph, paragraphs
from evenreel.papers.ghost.comparing import BEFORE, compared
from evenreel.papers.ghost.measures import (
    MAIN,
    Figures,
    group_bars,
    group_tables,
    notices_of,
    preference_table,
)
from evenreel.progress import Progress
from evenreel.report.result import AuditFigure, AuditTable, interval_cells, interval_columns
from evenreel.training.recipe import Recipe

PLAIN = "plain"
"""Fine-tuning on the same real pairs without the term."""


def debiased_training(material: LearningInputs, settings: GroupSettings, progress: Progress) -> Findings:
    """Make table 6 of Generative Ghost: each debiasing preset beside plain fine-tuning, on each group of clips."""
    data = replace(settings.recipe.data, generated_group=settings.group)
    plain = replace(settings.recipe, data=data, debias=None)
    kinds: dict[str, Recipe] = {PLAIN: plain} | {
        name: replace(plain, debias=preset) for name, preset in PRESETS.items()
    }
    found = compared(kinds, material, settings, progress)
    runs, means = found.runs, found.means
    groups = list(dict.fromkeys(group for group, _ in means))
    changes = {(group, name): runs.changes((group, PLAIN), (group, name))[MAIN] for group in groups for name in PRESETS}
    lead = furthest(changes)
    note = paragraph("ghost", "Intervals over seeds", seeds=settings.seeds)
    return Findings(
        " ".join(_kinds_told(means)),
        effect_of(changes[lead], f"Change of {PREFERENCE} on {lead[0]}: {lead[1]} less {PLAIN}"),
        (
            preference_table("What each training does", ("generated clips", "training"), list(means.items()), note),
            _changes_table(changes),
            *group_tables("training", means),
        ),
        (AuditFigure("Preference after each training", partial(group_bars, means)),),
        notices_of(means.values()),
        paragraphs("ghost", "Measures", "Debiased training"),
        few=few_pairs(material.test, groups),
    )


def _kinds_told(means: Mapping[tuple[str, str], Figures]) -> Iterator[str]:
    """A sentence for each training, on the first group."""
    first, _ = next(iter(means))
    for (group, kind), figures in means.items():
        if group == first and kind != BEFORE:
            figure, recall = figures[MAIN], figures["real", "R@1"].value
            yield (
                f"After {kind} training the matcher {verdict(figure)} on {group}: {PREFERENCE} {shown(figure)}, and "
                f"finds {recall:.1f} % of real clips first among real ones."
            )


def _changes_table(changes: Mapping[tuple[str, str], Interval]) -> AuditTable:
    rows = tuple((*key, *interval_cells(change)) for key, change in changes.items())
    columns = ("generated clips", "training", *interval_columns("change"))
    return AuditTable(f"Change of {PREFERENCE} from {PLAIN} fine-tuning, seed by seed", columns, rows)
