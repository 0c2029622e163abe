"""Registry of all audits by name, and the function that runs some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import NoneType

from evenreel.audits.composition import audit_composition
from evenreel.audits.confounds import audit_confounds
from evenreel.audits.edits import audit_textual, audit_visual
from evenreel.audits.exchange import BOTH
from evenreel.audits.hubness import audit_hubness
from evenreel.audits.inputs import as_inputs
from evenreel.audits.length import audit_length
from evenreel.audits.order import audit_order
from evenreel.audits.overlay import audit_overlay
from evenreel.audits.settings import AuditInputs, AuditSettings
from evenreel.audits.source import audit_source
from evenreel.config import check_kind, one_or_more
from evenreel.corpus.folder import CorpusLike
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.intervals import Clusters, clusters_of
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import AuditResult
from evenreel.types import Shown


@dataclass(frozen=True)
class Audit(Shown):
    """Registry entry of an audit, with the inputs that it needs.

    Attributes:
        run: function that runs it on scores, their corpus and settings; further inputs are passed by name.
        takes: fields of `AuditInputs` that it reads.
        of_source: whether it needs the source of each clip.
        without_edits: whether it can be made without the edited scores that it reads.
        of_orders: whether it looks at the clips of a library in two orders.
    """

    run: Callable[..., AuditResult]
    takes: tuple[str, ...] = ()
    of_source: bool = False
    without_edits: bool = False
    of_orders: bool = False


AUDITS: dict[str, Audit] = {
    "source": Audit(audit_source, of_source=True),
    "confounds": Audit(audit_confounds, of_source=True),
    "length": Audit(audit_length, takes=("train", "tail")),
    "hubness": Audit(audit_hubness),
    "visual": Audit(audit_visual, takes=("edited",)),
    "textual": Audit(audit_textual, takes=("edited",)),
    "overlay": Audit(audit_overlay, takes=("edited",)),
    "composition": Audit(audit_composition, takes=("edited", "edited_texts")),
    "order": Audit(audit_order, takes=("edited", "kinds"), without_edits=True, of_orders=True),
}

OF_EDITS = tuple(name for name, one in AUDITS.items() if "edited" in one.takes)
"""Audits that hold scores against those after an edit, one of them at a time."""


def audit(
    names: str | Sequence[str],
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    inputs: AuditInputs | None = None,
    *,
    not_made: Callable[[str], None] | None = None,
) -> list[AuditResult]:
    """Run audits of scores, each of which tests whether rankings favour clips for one wrong reason.

    Args:
        names: name of an audit, a key of `AUDITS`, or several names.
        scores: scores of captions and clips, of any system.
        corpus: corpus of the scores; select the split first.
        settings: samples, seed, confidence, and how much is read at once.
        inputs: further inputs of some audits: training corpus, rare classes, edited scores.
        not_made: called with a sentence for each audit that the corpus lacks something for, while the others are run;
            None to raise an error.

    Returns:
        A result for each name, in order, without those that `not_made` was called for.

    Raises:
        UsageError: there is no such audit, or none is named; or one of edits has no edited scores.
        CorpusError: the corpus lacks something for an audit, and `not_made` is None.
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
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    check_kind(inputs, (AuditInputs, NoneType), "inputs", "give AuditInputs(...), or None")
    if not names:
        raise UsageError(f"No audit is named; there are: {', '.join(AUDITS)}.")
    for name in names:
        if name not in AUDITS:
            raise UsageError(f"{name!r} is no audit; there are: {', '.join(AUDITS)}.")
    drawn, results = clusters_of(corpus, settings.cluster), []
    for name in names:
        try:
            one = AUDITS[name]
            read = {field: getattr(inputs or AuditInputs(), field) for field in one.takes}
            results.append(_drawn_by(one.run(scores, corpus, settings, **read), drawn))
        except CorpusError as error:
            if not_made is None:
                raise
            not_made(f"The audit {name} was not made. {error}")
    return results


def _drawn_by(result: AuditResult, drawn: Clusters) -> AuditResult:
    """Name in the interval what is drawn in the place of clips."""
    over = {"captions": f"captions by {drawn.word}", BOTH: f"captions and {drawn.word}"}.get(result.effect.over)
    if over is None or drawn.by_clip:
        return result
    return replace(result, effect=replace(result.effect, over=over))
