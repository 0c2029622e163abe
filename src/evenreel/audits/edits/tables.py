"""Tables and charts of audits that compare scores with those after an edit."""

from __future__ import annotations

from functools import partial

from evenreel.audits.edits.measures import RECALLS, EditChange, PerturbedMeasures, means
from evenreel.audits.edits.perturbed import AS_IS
from evenreel.evaluation.intervals import Interval
from evenreel.report.figures import deltas_by_group
from evenreel.report.result import AuditFigure, AuditTable, Cell, interval_cells, interval_columns


def movement_table(measured: PerturbedMeasures, title: str) -> AuditTable:
    """Tabulate how far captions' own clips move and fall under each edit, in the placing of the effect."""
    controlled, placing = measured.controlled, measured.main[1]
    figures = ("moves by, SD", *(["beyond the control"] if controlled else []), "falls by, SD")
    changes = [measured.changes[edit, placing] for edit in measured.perturbed.edits]
    return AuditTable(
        title,
        ("edit", *interval_columns(*figures)),
        tuple(_movement_row(one, controlled=controlled) for one in changes),
        f"SD: standard deviations of the scores of the other clips. {len(measured.perturbed.own):,} captions of "
        f"{measured.clips:,} clips, in a gallery of {len(measured.perturbed.clip_ids):,}.",
    )


def standing_table(measured: PerturbedMeasures) -> AuditTable:
    """Tabulate the percentile and recall of captions' own clips, without an edit and under each edit."""
    rows: list[tuple[Cell, ...]] = [
        ("none", "nothing", *means(measured.standings[AS_IS, AS_IS]), *interval_cells(None))
    ]
    for key, change in measured.changes.items():
        rows.append((*key, *means(measured.standings[key]), *interval_cells(change.recalls[str(RECALLS[0])])))
    return AuditTable(
        "Where the clip of a caption stands",
        ("edit", "edited", "percentile", *map(str, RECALLS), *interval_columns(f"{RECALLS[0]} lost")),
        tuple(rows),
        "The percentile is the share of the other clips that it stands above. R@k in percent, what is lost in points.",
    )


def perturbed_figures(measured: PerturbedMeasures) -> tuple[AuditFigure, ...]:
    """Return charts of how far own clips move under each edit, and of how much recall is lost."""
    placing, first = measured.main[1], str(RECALLS[0])
    moves = {"moves by": {edit: measured.changes[edit, placing].moved for edit in measured.perturbed.edits}}
    losses: dict[str, dict[str, Interval]] = {}
    for (edit, edited), change in measured.changes.items():
        losses.setdefault(f"edited: {edited}", {})[edit] = change.recalls[first]
    return (
        AuditFigure(
            "How far the clip of a caption moves",
            partial(deltas_by_group, moves, "standard deviations of the other clips' scores"),
            f"Edited: {placing}. What an edit does beyond the control is due to what it edits.",
        ),
        AuditFigure(f"What that costs in {first}", partial(deltas_by_group, losses, f"{first} lost, points")),
    )


def _movement_row(change: EditChange, *, controlled: bool) -> tuple[Cell, ...]:
    figures = (change.moved, *([change.beyond] if controlled else []), change.fell)
    return (change.edit, *interval_cells(*figures))
