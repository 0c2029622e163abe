"""The result of an audit that edits captions or clips, and measures how far the clip of a caption moves by that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from evenreel.audits.edits.measures import PerturbedMeasures
from evenreel.audits.edits.tables import movement_table, perturbed_figures, standing_table
from evenreel.audits.edits.words import perturbed_notices, perturbed_sentence
from evenreel.report.result import AuditResult


class EditAudit(NamedTuple):
    """Words of an audit of edits.

    Attributes:
        name: name of the audit.
        title: question of the audit.
        when: under what the clip of a caption moves, such as `when it alone is edited`.
        no_control: advice on how to make a control, where there is none.
    """

    name: str
    title: str
    when: str
    no_control: str


def movement_result(
    audit: EditAudit,
    measured: PerturbedMeasures,
    notices: Iterable[str],
    method: tuple[str, ...],
    confidence: float,
) -> AuditResult:
    """Return the result of an audit of edits: how far clips move, what that costs, and what to know of the data.

    Args:
        audit: words of the audit.
        measured: measures of one system.
        notices: sentences on the scores, which come before those on the edits.
        method: paragraphs on how everything is computed.
        confidence: confidence of the intervals.
    """
    return AuditResult(
        name=audit.name,
        title=audit.title,
        sentence=perturbed_sentence(measured, confidence, audit.when),
        effect=measured.effect,
        tables=(
            movement_table(measured, f"How far the clip of a caption moves {audit.when}"),
            standing_table(measured),
        ),
        figures=perturbed_figures(measured),
        notices=(*notices, *perturbed_notices(measured, audit.no_control)),
        method=method,
        confidence=confidence,
    )
