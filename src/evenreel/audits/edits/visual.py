"""Audit of edited clips: does a ranking depend on the background, or on something else in the picture?

BiMa, section 1: retrievers look at the dominant background and miss the small thing that a caption names. Here one
thing in a clip is replaced or taken out, the clip is scored anew, and its place among the others is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

from evenreel.audits.edits.measures import measure_perturbed
from evenreel.audits.edits.result import EditAudit, movement_result
from evenreel.audits.edits.words import edited_notices
from evenreel.audits.inputs import as_edited, as_inputs, paragraphs
from evenreel.audits.settings import NO_EDITS, AuditSettings
from evenreel.corpus.accepted import CorpusLike
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import AuditResult

VISUAL = EditAudit(
    "visual",
    "What in the picture does the ranking hang on?",
    "when it alone is edited",
    "Score the clips also with an edit that leaves alone what is asked about, another take of the same scene or as "
    "many patches painted over elsewhere (`evenreel corpus edit --control`), and name it control.",
)


def audit_visual(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoresLike] = NO_EDITS,
) -> AuditResult:
    """Test whether clips move in their captions' rankings when something in the picture is edited, beyond a control.

    Args:
        scores: scores of captions and clips as they are.
        corpus: corpus that names each caption's own clip.
        settings: samples, seed, confidence, and how much is read at once.
        edited: scores of the same captions with edited clips of the same ids, by the name of the edit.

    Raises:
        CorpusError: the scores share no caption with its clip and another.
        ScoresError: a score is NaN, or scores are no table of captions and videos.
        UsageError: there are no edited scores.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    edited = as_edited(edited, corpus)
    measured = measure_perturbed(scores, corpus, edited, settings)
    notices = edited_notices(scores, corpus, settings, edited)
    method = paragraphs("edits", "Distance", "Effect", "What is edited", "Percentile and recall")
    return movement_result(VISUAL, measured, notices, method, settings.confidence)
