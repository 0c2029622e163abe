"""Test-time training on one stream of queries, from the first query to the report."""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import torch

from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.changes import Changes, changes_of
from evenreel.adaptation.quality import LEAST, MeanChange, QualityVerdict
from evenreel.adaptation.report import AdaptReport
from evenreel.adaptation.stream import QueryStream, taken
from evenreel.errors import UsageError
from evenreel.language.tokens import Tagger
from evenreel.progress import Progress
from evenreel.types import FloatArray, Scores


class Adaptation(NamedTuple):
    """Result of test-time training on a stream.

    Attributes:
        matcher: the adapted matcher, or the source where the adapted one was not kept.
        report: report of the adaptation.
        scores: (Q, V) scores of each batch as it was answered, online and with `keep`; else None.
        changes: changes of rankings, offline; None online.
    """

    matcher: Any
    report: AdaptReport
    scores: Scores | None = None
    changes: Changes | None = None


def adapt(
    model: TestTimeMatcher,
    stream: QueryStream,
    progress: Progress = lambda share: None,
    *,
    keep: bool = False,
    tagger: Tagger | None = None,
) -> Adaptation:
    """Adapt a model to a stream of queries, beginning with the source's weights.

    Args:
        model: model of the source matcher and the stream's clips; it is reset first.
        stream: queries in the order in which they come.
        progress: called with the share that is done.
        keep: whether to keep the scores of each batch, Q x V numbers, online.
        tagger: tagger of the queries, to report over-attended words; None to report none.

    Raises:
        UsageError: the clips of the stream are not those that the model was made with.
    """
    if stream.videos.ids != model.clip_ids:
        raise UsageError(
            f"The {len(stream.videos.ids):,} clips of the stream are not the {len(model.clip_ids):,} that the model was"
            " made with, or in another order; make a TestTimeMatcher with the clips of the stream."
        )
    model.reset()
    if not model.settings.online:
        model.learn(stream, progress)
        changes = changes_of(model, stream, tagger)
        return Adaptation(model.served, _report(model, changes.first_changed), changes=changes)
    rows: list[FloatArray] = []
    changed = 0
    for batch in stream.batches(model.settings.batch_size):
        texts = taken(stream.texts, batch)
        found = model.see(texts, [stream.sentences[row] for row in batch])
        changed += int((found.argmax(axis=1) != model.ranked_by_source(texts).argmax(axis=1)).sum())
        if keep:
            rows.append(found)
        progress((batch[-1] + 1) / len(stream.sentences))
    scores = Scores(np.concatenate(rows), stream.texts.ids, stream.videos.ids) if rows else None
    return Adaptation(model.served, _report(model, changed / len(stream.sentences)), scores)


def _report(model: TestTimeMatcher, changed: float) -> AdaptReport:
    kept = model.served is not model.source
    return AdaptReport(kept, _sentence(model, kept), tuple(model.steps), model.drift, moved(model), changed)


def moved(model: TestTimeMatcher) -> float:
    """Compute how far the trained weights moved: the norm of their change over the norm of all weights at the start."""
    with torch.no_grad():
        pairs = list(zip(model.teacher.parameters(), model.source.parameters(), strict=True))
        far = sum(float((new - old).square().sum()) for new, old in pairs)
        length = sum(float(old.square().sum()) for _, old in pairs)
    return float((far / max(length, 1e-30)) ** 0.5)


def _sentence(model: TestTimeMatcher, kept: bool) -> str:
    if model.drift is not None and not model.drift.found:
        return (
            "Left as it was: captions and clips are like those that the model was trained on, as far as their means "
            f"tell (p = {min(model.drift.captions.p, model.drift.clips.p):.2f})."
        )
    if not model.learned:
        return "Left as it was: there was nothing to learn from."
    verdict = next((step.verdict for step in reversed(model.steps) if step.verdict is not None), None)
    if verdict is None:
        return (
            "Adapted; whether it is better was not asked." if kept else "Left as it was: no query was left to judge by."
        )
    decision = "Adapted" if kept else "Left as it was"
    return f"{decision}: on queries that it had not learned from, {_evidence(verdict)}."


def _evidence(verdict: QualityVerdict) -> str:
    """What became of agreement, and what speaks against the adapted model."""
    harm = ["coverage fell"] if verdict.changes["coverage"].high < 0 else []
    harm += ["entropy rose"] if verdict.changes["entropy"].low > 0 else []
    rise = verdict.changes["agreement"]
    more = f", {'but' if rise.low > 0 else 'and'} {' and '.join(harm)}" if harm else ""
    return f"agreement with their first clips {_change_words(rise)}{more}"


def _change_words(change: MeanChange) -> str:
    """Up, down, or not for sure, with the interval.

    >>> _change_words(MeanChange(0.02, 0.01, 0.03)), _change_words(MeanChange(-0.02, -0.03, -0.01))
    ('rose by 0.020 (0.010 to 0.030)', 'fell by 0.020 (0.010 to 0.030)')
    >>> _change_words(MeanChange(-0.01, -0.03, 0.01))
    'did not rise for sure: by -0.010 (-0.030 to +0.010)'
    """
    if change.low > 0:
        return f"rose by {change.mean:.3f} ({change.low:.3f} to {change.high:.3f})"
    if change.high < 0:
        return f"fell by {-change.mean:.3f} ({-change.high:.3f} to {-change.low:.3f})"
    ends = (
        f"{change.low:+.3f} to {change.high:+.3f}"
        if isfinite(change.low)
        else f"of fewer than {LEAST} queries, so no interval"
    )
    return f"did not rise for sure: by {change.mean:+.3f} ({ends})"
