"""One stream from its first query to the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.report import AdaptReport
from evenreel.adaptation.stream import Stream, taken
from evenreel.types import FloatArray, Scores

BAND = 1024
"""Queries that are ranked at a time where first clips are compared."""


class Adaptation(NamedTuple):
    """What test-time training of a stream ends with.

    Attributes:
        matcher: the adapted one, or the source where nothing better was found; a plain matcher of the source's kind.
        report: what was done.
        scores: (Q, V) as they were given when each batch came, of the online protocol where they were asked for; None
            elsewhere, where the matcher scores.
    """

    matcher: Any
    report: AdaptReport
    scores: Scores | None = None


def adapt(
    model: TestTimeMatcher,
    stream: Stream,
    progress: Callable[[float], None] = lambda share: None,
    *,
    keep: bool = False,
) -> Adaptation:
    """Let a model learn from a stream, from the source's weights on.

    Args:
        model: around the source matcher and the stream's clips; it is reset first.
        stream: queries in their order.
        progress: called with the share that is done.
        keep: online, keep the scores of each batch, Q x V numbers.
    """
    model.reset()
    rows: list[FloatArray] = []
    changed = 0
    if model.settings.online:
        for batch in stream.batches(model.settings.batch_size):
            texts = taken(stream.texts, batch)
            found = model.see(texts, [stream.sentences[row] for row in batch])
            changed += _differ(found, model.ranked_by_source(texts))
            if keep:
                rows.append(found)
            progress((batch[-1] + 1) / len(stream.sentences))
    else:
        model.learn(stream, progress)
        for batch in stream.batches(BAND):
            texts = taken(stream.texts, batch)
            changed += _differ(model.ranked(texts), model.ranked_by_source(texts))
    report = _report(model, changed / len(stream.sentences))
    scores = Scores(np.concatenate(rows), stream.texts.ids, stream.videos.ids) if rows else None
    return Adaptation(model.served, report, scores)


def _differ(found: FloatArray, other: FloatArray) -> int:
    """Queries whose first clip is another."""
    return int((found.argmax(axis=1) != other.argmax(axis=1)).sum())


def _report(model: TestTimeMatcher, changed: float) -> AdaptReport:
    kept = model.served is not model.source
    return AdaptReport(kept, _sentence(model, kept), tuple(model.steps), model.drift, moved(model), changed)


def moved(model: TestTimeMatcher) -> float:
    """How far the weights went that may change, as a share of their length at the start."""
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
    rise = verdict.changes["agreement"]
    shown = f"agreement of queries with their first clip rose by {rise.mean:.3f} ({rise.low:.3f} to {rise.high:.3f})"
    if kept:
        return f"Adapted: on queries that it had not learned from, {shown}."
    fell = [name for name in ("coverage",) if verdict.changes[name].high < 0]
    fell += ["decidedness"] if verdict.changes["entropy"].low > 0 else []
    why = f", and {' and '.join(fell)} fell" if fell else ""
    return f"Left as it was: on queries that it had not learned from, {shown}{why}."
