"""Every audit by its name, and the one call that runs some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from evenreel.arguments import one_or_more
from evenreel.audits.edits.overlay import audit_overlay
from evenreel.audits.edits.textual import audit_textual
from evenreel.audits.edits.visual import audit_visual
from evenreel.audits.hubness.audit import audit_hubness
from evenreel.audits.length.audit import audit_length
from evenreel.audits.settings import AuditSettings, checked_settings
from evenreel.audits.source.audit import audit_source
from evenreel.audits.source.confounds import audit_confounds
from evenreel.audits.statistics.permuted import BOTH
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.clusters import Clusters, clusters_of
from evenreel.report.result.record import AuditResult
from evenreel.types import Corpus, ScoreBlocks

Audit = Callable[[ScoreBlocks, Corpus, "AuditSettings | None"], AuditResult]

AUDITS: dict[str, Audit] = {
    "source": audit_source,
    "confounds": audit_confounds,
    "length": audit_length,
    "hubness": audit_hubness,
    "visual": audit_visual,
    "textual": audit_textual,
    "overlay": audit_overlay,
}

OF_SOURCE = frozenset({"source", "confounds"})
"""Audits that ask of each clip where it is from; the others do without."""

OF_EDITS = frozenset({"visual", "textual", "overlay"})
"""Audits that hold scores against those after an edit (`AuditSettings.edited`), one of them at a time."""


def audit(
    names: str | Sequence[str],
    scores: ScoreBlocks,
    corpus: Corpus,
    settings: AuditSettings | None = None,
    *,
    not_made: Callable[[str], None] | None = None,
) -> list[AuditResult]:
    """Ask some scores whether they favour clips for the wrong reason.

    Args:
        names: one key of `AUDITS`, or several.
        scores: of captions and clips, of any system.
        corpus: whose they are; select the split first.
        settings: samples, seed, confidence, how much is read at once, what was learned from, and edited scores.
        not_made: told, in a sentence, of each audit for which the corpus lacks something, and the others go on; None:
            the first such audit raises.

    Returns:
        A result for each name, in their order, without those of which `not_made` was told.

    Raises:
        UsageError: there is no such audit, or none is named; or one of edits has no edited scores.
        CorpusError: the corpus lacks what an audit is about, and there is no `not_made`.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.

    >>> import numpy as np, polars as pl
    >>> from evenreel.corpus import make_corpus
    >>> from evenreel.types import Scores
    >>> clips = pl.DataFrame({"clip_id": ["a", "b"], "source": ["camera", "sora"], "pair_id": [None, "a"]})
    >>> captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "text": ["a ball rolls"]})
    >>> scores = Scores(np.array([[0.2, 0.3]]), ["0"], ["a", "b"])
    >>> audit("source", scores, make_corpus(clips, captions))[0].sentence[:56]
    'Too few clips to conclude: 1 real and 1 generated. What '
    """
    names = one_or_more(names)
    settings = checked_settings(scores, corpus, settings)
    if not names:
        raise UsageError(f"No audit is named; there are: {', '.join(AUDITS)}.")
    for name in names:
        if name not in AUDITS:
            raise UsageError(f"{name!r} is no audit; there are: {', '.join(AUDITS)}.")
    drawn, results = clusters_of(corpus, settings.cluster), []
    for name in names:
        try:
            results.append(_drawn_by(AUDITS[name](scores, corpus, settings), drawn))
        except CorpusError as error:
            if not_made is None:
                raise
            not_made(f"The audit {name} was not made. {error}")
    return results


def _drawn_by(result: AuditResult, drawn: Clusters) -> AuditResult:
    """With what is drawn in the place of clips named in what the interval is over."""
    over = {"captions": f"captions by {drawn.word}", BOTH: f"captions and {drawn.word}"}.get(result.effect.over)
    if over is None or drawn.by_clip:
        return result
    return replace(result, effect=replace(result.effect, over=over))
