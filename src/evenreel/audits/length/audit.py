"""Audit of length bias: does a ranking of any system or library depend on how long clips are?

According to the paper on frame-length bias, clips whose class was short in training and is long in test are missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from evenreel.audits.inputs import as_inputs, score_notices
from evenreel.audits.length.examples import STRIP_DEPTH, all_lengths, histogram_parts, strip_parts
from evenreel.audits.length.figures import discrepancy_bars, length_boxes, length_histograms, relevance_strips
from evenreel.audits.length.first_clips import MAIN
from evenreel.audits.length.measures import LengthMeasures, measure_length
from evenreel.audits.length.tables import length_tables
from evenreel.audits.length.tail import TailClasses
from evenreel.audits.length.words import length_method, length_notices, length_sentence, unit_of
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.accepted import CorpusLike
from evenreel.evaluation.ranking import CheckedScores
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import AuditFigure, AuditResult


def audit_length(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    train: CorpusLike | None = None,
    tail: TailClasses | None = None,
) -> AuditResult:
    """Test whether the first clips of rankings have the lengths of their classes in training, or just longer ones.

    With `train` and verb classes the effect is the length bias of `evenreel.audits.length.measures`; without, it is the
    ratio of the length of the first clips to that of others, which needs only lengths and any queries.

    Args:
        scores: scores of captions and clips.
        corpus: corpus of these captions and clips, with the clips' lengths.
        settings: samples, seed, confidence, and how much is read at once.
        train: corpus that the system was trained on; None where it is not known.
        tail: classes with few training clips; None to find them by their frequency.

    Raises:
        CorpusError: a clip of the scores is not in the corpus, or no length is known.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    measured = measure_length(scores, corpus, settings, train=train, tail=tail)
    return AuditResult(
        name="length",
        title="Does the ranking go by the length of clips?",
        sentence=length_sentence(measured, settings.confidence),
        effect=measured.effect,
        tables=tuple(length_tables(measured)),
        figures=tuple(_figures(measured, CheckedScores(scores))),
        notices=(
            *score_notices(scores, corpus, settings.cluster),
            *length_notices(measured, trained=train is not None),
        ),
        method=tuple(length_method(measured)),
        confidence=settings.confidence,
    )


def _figures(measured: LengthMeasures, scores: CheckedScores) -> Iterator[AuditFigure]:
    """What they show is read from the scores at once: whoever draws them may no longer have these."""
    unit, held = unit_of(measured.data), measured.data.classes
    yield AuditFigure(
        "Lengths of the clips that are returned first",
        partial(length_histograms, histogram_parts(measured, scores), unit),
        f"Returned first: each clip as often as it is among the first {MAIN}.",
    )
    if held is not None and len(held.common.classes):
        names = [held.names[one] for one in held.common.classes.tolist()]
        yield AuditFigure(
            "How much longer each class is in test",
            partial(discrepancy_bars, held.common.discrepancy, names, unit),
            "Point at a bar for its class.",
        )
    yield AuditFigure(
        "Spread of the lengths",
        partial(length_boxes, all_lengths(measured), unit),
        "Quartiles; whiskers reach to the last length within 1.5 times their range. Of many outliers some are shown.",
    )
    if strips := strip_parts(measured, scores):
        yield AuditFigure(
            f"How relevant the first {STRIP_DEPTH} are",
            partial(relevance_strips, strips),
            "Captions of the most affected classes, and the clips that they are of; equal scores in any order.",
        )
