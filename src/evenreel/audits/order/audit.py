"""Audit of order: does a ranking see in which order things happen?

A caption of a door that opens is wrong for the same video played backwards, in which it closes. A ranking that sees
frames but not their order puts both equally high (Du et al. 2024, Reversed in Time).
"""

from __future__ import annotations

from collections.abc import Mapping

from evenreel.audits.inputs import as_edited, as_inputs, score_notices
from evenreel.audits.order.kinds import action_kinds
from evenreel.audits.order.measures import measure_order
from evenreel.audits.order.tables import order_figures, order_tables
from evenreel.audits.order.words import order_method, order_notices, order_sentence
from evenreel.audits.settings import NO_EDITS, AuditSettings
from evenreel.corpus.accepted import CorpusLike
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import AuditResult


def audit_order(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoresLike] = NO_EDITS,
    kinds: str | None = None,
) -> AuditResult:
    """Test whether captions prefer their clips to the same frames in another order, beyond a control.

    The control are the captions of the other order where there are some, as in Reversed in Time; elsewhere the captions
    of other clips. Either leaves out how much a clip or its twin is liked whatever a caption says.

    Args:
        scores: scores of captions with clips, and with their twins where these are clips of the corpus.
        corpus: corpus, whose column `order_of` says which clip is the twin of which; it may have no caption.
        settings: confidence, what is resampled together, and how much is read at once; 0 resamples for no interval.
        edited: scores of the same captions and clips with their frames in another order, by the name of that order.
        kinds: column of clips or captions that says the kind of action; None for the verbs of the captions.

    Raises:
        CorpusError: no pair of a clip and its twin can be measured, or there is no such column.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
        UsageError: there are scores of several other orders.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    edited = as_edited(edited, corpus)
    measured = measure_order(scores, corpus, settings, edited=edited)
    actions = action_kinds(measured, scores, corpus, settings, kinds)
    uses = (
        f"The scores of {name!r} use {' and '.join(one.about.uses)}." for name, one in edited.items() if one.about.uses
    )
    return AuditResult(
        name="order",
        title="Does the ranking see the order of what happens?",
        sentence=order_sentence(measured, settings.confidence),
        effect=measured.effect,
        tables=tuple(order_tables(measured, actions)),
        figures=tuple(order_figures(measured, actions)),
        notices=(*score_notices(scores, corpus, settings.cluster), *uses, *order_notices(measured, actions)),
        method=tuple(order_method(measured, actions)),
        confidence=settings.confidence,
    )
