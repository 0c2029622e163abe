"""Test-time training on one stream of queries, from the first query to the report: what was decided, what changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import torch

from evenreel.adaptation.adapted import AdaptationStep, TestTimeMatcher
from evenreel.adaptation.safety import LEAST, Drift, MeanChange, QualityVerdict, quality
from evenreel.adaptation.stream import QueryStream, taken
from evenreel.adaptation.titan import AdaptSettings, CounterfactualSettings, over_attended
from evenreel.arrays import Indices
from evenreel.errors import UsageError
from evenreel.evaluation.concentration import skewness
from evenreel.evaluation.intervals import Interval
from evenreel.language.tokens import Tagger
from evenreel.progress import Progress
from evenreel.report.figures import table_bars, table_lines
from evenreel.report.page import Page, Picture, Section, Table, Text, audit_page
from evenreel.report.result import AuditFigure, AuditResult, AuditTable, Cell, Effect, cell
from evenreel.types import FloatArray, Scores

FIRST = 10
"""Places of a ranking that hubs are counted in, and at most a fifth of all: every clip is among the first V."""
LISTED = 6
"""Clips that most queries find, of each model."""
EXAMPLES = 20
"""Queries with another first clip, and over-attended words, that are listed."""
BAND = 1024
"""Queries that are ranked at a time, and most that quality is measured on."""
MOST_STEPS = 50
"""Rows of the table of steps, the last; the chart has all."""

_MEASURES = {
    "agreement": ("agreement", "1 over the rank of the query for its first clip, on average"),
    "coverage": ("coverage", "first clips there are, as a share of the queries"),
    "entropy": ("indecision", "entropy of the scores of a query, in nats"),
}


@dataclass(frozen=True)
class AdaptReport:
    """Report of the adaptation to a whole stream."""

    kept: bool  # whether the final model is the adapted one, or the source
    sentence: str  # whether it was kept, and why
    steps: tuple[AdaptationStep, ...]
    drift: Drift | None = None  # None where not measured
    moved: float = 0.0  # norm of the change of the trained weights, as a share of the norm of all weights
    # share of the queries whose first clip is another than the source's: online as each batch was answered, offline by
    # the final model
    first_changed: float = 0.0

    @property
    def verdict(self) -> QualityVerdict | None:
        """The last verdict on the adapted model; None where quality was not measured."""
        return next((step.verdict for step in reversed(self.steps) if step.verdict is not None), None)


@dataclass(frozen=True)
class Changes:
    """Changes of rankings from the source to the final model, on all queries, those trained on included."""

    queries: int
    videos: int
    first_changed: float  # share of the queries with another first clip
    examples: tuple[dict[str, str], ...]  # some of these, `query` with the ids of its first clip `before` and `after`
    places: int  # number of first places of a ranking in which hubs are counted
    hubs: tuple[dict[str, Any], ...]  # clips that most queries have there: `clip`, and how many `before` and `after`
    skewness: tuple[float, float]  # of these counts over clips, before and after; NaN where all are equal
    # over-attended words of the clips that most queries ranked first before: `sharing` of the `matched` queries of a
    # `clip` have the `word`
    words: tuple[dict[str, Any], ...]
    measured: int  # number of queries, the first ones, that quality was measured on
    before: Mapping[str, float]  # mean quality of the source by name (`evenreel.adaptation.safety`)
    after: Mapping[str, float]  # that of the final model


class Adaptation(NamedTuple):
    """Result of test-time training on a stream."""

    matcher: Any  # the adapted matcher, or the source where the adapted one was not kept
    report: AdaptReport
    scores: Scores | None = None  # (Q, V) of each batch as it was answered, online and with `keep`; else None
    changes: Changes | None = None  # offline; None online


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
    report = AdaptReport(kept, "", tuple(model.steps), model.drift, moved(model), changed)
    return replace(report, sentence=_sentence(report, learned=model.learned))


def moved(model: TestTimeMatcher) -> float:
    """Compute how far the trained weights moved: the norm of their change over the norm of all weights at the start."""
    with torch.no_grad():
        pairs = list(zip(model.teacher.parameters(), model.source.parameters(), strict=True))
        far = sum(float((new - old).square().sum()) for new, old in pairs)
        length = sum(float(old.square().sum()) for _, old in pairs)
    return float((far / max(length, 1e-30)) ** 0.5)


def _sentence(report: AdaptReport, *, learned: bool) -> str:
    drift, verdict = report.drift, report.verdict
    if drift is not None and not drift.found:
        return (
            "Left as it was: captions and clips are like those that the model was trained on, as far as their means "
            f"tell (p = {min(drift.captions.p, drift.clips.p):.2f})."
        )
    if not learned:
        return "Left as it was: there was nothing to learn from."
    decision = "Adapted" if report.kept else "Left as it was"
    if verdict is None:
        return (
            f"{decision}; whether it is better was not asked."
            if report.kept
            else f"{decision}: no query was left to judge by."
        )
    rise = verdict.changes["agreement"]
    harm = ["coverage fell"] if verdict.changes["coverage"].high < 0 else []
    harm += ["entropy rose"] if verdict.changes["entropy"].low > 0 else []
    more = f", {'but' if rise.low > 0 else 'and'} {' and '.join(harm)}" if harm else ""
    words = f"agreement with their first clips {_change_words(rise)}{more}"
    return f"{decision}: on queries that it had not learned from, {words}."


def _change_words(change: MeanChange) -> str:
    """Up, down, or not for sure, with the interval."""
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


# what changed, without labels --------------------------------------------------------------------------------------


def changes_of(model: TestTimeMatcher, stream: QueryStream, tagger: Tagger | None = None) -> Changes:
    """Compare the rankings of the final model with the source's; over-attended words are found with a tagger."""
    ids, places = stream.videos.ids, max(1, min(FIRST, len(stream.videos.ids) // 5))
    firsts: tuple[list[Indices], list[Indices]] = ([], [])
    counts = np.zeros((2, len(ids)), np.int64)
    qualities: list[Mapping[str, float]] = []
    measured = 0
    scale = float(model.source.logit_scale.detach().exp())
    for rows in stream.batches(BAND):
        texts = taken(stream.texts, rows)
        by_source = model.ranked_by_source(texts)
        given = by_source if model.served is model.source else model.ranked(texts)
        for which, scores in enumerate((by_source, given)):
            firsts[which].append(scores.argmax(axis=1))
            best = np.argpartition(-scores, places - 1, axis=1)[:, :places]
            counts[which] += np.bincount(best.ravel(), minlength=len(ids))
            if len(qualities) < 2:
                qualities.append(quality(scores, scale).means)
                measured = len(rows)
    before, after = (np.concatenate(found) for found in firsts)
    other = np.flatnonzero(before != after)
    even = np.linspace(0, len(other) - 1, min(EXAMPLES, len(other))).round().astype(np.int64)  # from first to last
    listed = {int(place) for row in counts for place in np.argsort(-row, kind="stable")[:LISTED]}
    hubs = sorted(listed, key=lambda place: (-counts[0, place], -counts[1, place], place))
    words: list[dict[str, Any]] = []
    if tagger is not None:
        how = model.settings.counterfactuals or CounterfactualSettings()
        found = over_attended(tagger.tag(stream.sentences), before, how)
        for one in sorted(found, key=lambda one: (-one.matched, one.video, -one.count, one.word))[:EXAMPLES]:
            words.append({"clip": ids[one.video], "word": one.word, "sharing": one.count, "matched": one.matched})
    return Changes(
        queries=len(before),
        videos=len(ids),
        first_changed=float((before != after).mean()),
        examples=tuple(
            {"query": stream.sentences[row], "before": ids[before[row]], "after": ids[after[row]]}
            for row in other[even]
        ),
        places=places,
        hubs=tuple(
            {"clip": ids[place], "before": int(counts[0, place]), "after": int(counts[1, place])} for place in hubs
        ),
        skewness=(skewness(counts[0]), skewness(counts[1])),
        words=tuple(words),
        measured=measured,
        before=qualities[0],
        after=qualities[1],
    )


def record(
    report: AdaptReport, changes: Changes, settings: AdaptSettings, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Convert report, changes and settings to a dictionary that JSON can hold; numbers that are not finite become null.

    Pseudo-labels are left out; of the names of clips by id it has those of clips that it mentions.
    """
    told = {one["clip"] for one in (*changes.hubs, *changes.words)}
    told |= {one[side] for one in changes.examples for side in ("before", "after")}
    found = asdict(report) | {
        "steps": [{name: value for name, value in asdict(step).items() if name != "labels"} for step in report.steps],
        "changes": asdict(changes),
        "names": {clip: name for clip, name in sorted((names or {}).items()) if clip in told},
        "settings": asdict(settings),
    }
    plain: dict[str, Any] = _finite(found)
    return plain


def _finite(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


# the result and its page -------------------------------------------------------------------------------------------


def adaptation_result(
    title: str, report: AdaptReport, changes: Changes, names: Mapping[str, str] | None = None
) -> AuditResult:
    """Make the result of an adaptation to one stream: the decision, tables, and charts of them."""
    named = names or {}
    tables, figures = list[AuditTable](), list[AuditFigure]()
    rows: list[dict[str, Cell | Interval]] = [
        {"measure": word, "what it is": meaning, "source": changes.before[name], "given model": changes.after[name]}
        for name, (word, meaning) in _MEASURES.items()
    ]
    note = (
        f"Measured without labels, so none of it is accuracy: on {changes.measured:,} queries, those that were learned "
        "from included. The decision above rests on others."
    )
    tables.append(AuditTable.of("Quality, as far as it shows", rows, note, digits=3))
    before, after = (cell(value, 3) for value in changes.skewness)
    first = "as their first" if changes.places == 1 else f"among their first {changes.places}"
    fair = changes.queries * changes.places / changes.videos
    note = (
        f"Were queries spread evenly, each clip would have {fair:,.1f}. The skewness of these counts is {before} "
        f"before and {after} after; the larger it is, the fewer clips crowd the rankings."
    )
    hubs = AuditTable.of(
        f"Hubs: how many queries have a clip {first}",
        [
            {"clip": f"{number}. {_shown(named, hub['clip'])}", "before": hub["before"], "after": hub["after"]}
            for number, hub in enumerate(changes.hubs, start=1)
        ],
        note,
    )
    tables.append(hubs)
    figures.append(AuditFigure(hubs.title, partial(table_bars, hubs, "clip", ("before", "after"), "queries")))
    if changes.words:
        rows = [
            {
                "word": one["word"],
                "first clip before": _shown(named, one["clip"]),
                "queries with the word": one["sharing"],
                "queries in all": one["matched"],
            }
            for one in changes.words
        ]
        tables.append(AuditTable.of("Words that queries of one first clip share", rows))
    for steps, heads in _steps_tables(report.steps):
        left = "" if len(steps.rows) <= MOST_STEPS else f"The last {MOST_STEPS:,} of {len(steps.rows):,} steps."
        tables.append(replace(steps, rows=steps.rows[-MOST_STEPS:], note=left))
        if len(steps.rows) > 1 and set(heads) <= set(steps.columns):
            figures.append(AuditFigure(steps.title, partial(table_lines, steps, "step", heads)))
    tables += _label_ranks(report.steps)
    if report.drift is not None:
        shifts = {"captions": report.drift.captions, "clips": report.drift.clips}
        rows = [
            {"of": name, "distance of the means, in deviations of the source": shift.distance, "p": shift.p}
            for name, shift in shifts.items()
        ]
        note = "They differ." if report.drift.found else "They do not differ for sure."
        note += " p is of Hotelling's test."
        tables.append(AuditTable.of("How far captions and clips are from those of the source", rows, note))
    change = None if report.verdict is None else change_interval(report.verdict.changes["agreement"])
    effect = Effect(
        "change of agreement", *((float("nan"),) if change is None else (change.value, change.low, change.high))
    )
    return AuditResult("adapt", title, report.sentence, effect, tuple(tables), tuple(figures))


def adaptation_page(
    title: str,
    report: AdaptReport,
    changes: Changes,
    settings: str,
    names: Mapping[str, str] | None = None,
    pictures: Mapping[str, bytes] | None = None,
) -> Page:
    """Make the page of an adaptation: queries that find another clip first, its result, and the settings (YAML).

    Names and small JPEG pictures of clips are given by id; a clip without a name is shown by its id.
    """
    named, jpegs = names or {}, pictures or {}
    said = (
        f"{changes.first_changed:.1%} of the {changes.queries:,} queries have another first clip among the "
        f"{changes.videos:,}; the weights moved by {report.moved:.2%} of their length."
    )
    if not report.kept:
        said = "The weights are those of the source, so no ranking of the model changed."
    parts: list[Text | Table] = [Text(said)]
    if changes.examples:
        shown = {clip: Picture(jpeg, _shown(named, clip)) for clip, jpeg in jpegs.items()}
        rows = [
            [one["query"], *(shown.get(one[side], _shown(named, one[side])) for side in ("before", "after"))]
            for one in changes.examples
        ]
        parts.append(Table(["query", "first clip before", "after"], rows, left=3))
        parts += [Text("Each picture is from the middle of its clip.", "note")] if shown else []
    page = audit_page([adaptation_result(title, report, changes, names)])
    found = [section for section in page.sections if section.parts]
    examples = Section("Queries with another first clip", parts)
    return replace(page, sections=[examples, *found, Section("Settings", [Text(settings, "code")])])


def _steps_tables(steps: Sequence[AdaptationStep]) -> Iterator[tuple[AuditTable, dict[str, str]]]:
    """What was learned in each step, and what was measured before it, each with the figures that are drawn of it."""
    rows: list[dict[str, Cell | Interval]] = []
    for step in steps:
        row: dict[str, Cell | Interval] = {
            "step": step.number, "answered by": step.served, "queries": step.queries, "learned from": step.pairs,
            "counterfactual": step.counterfactual,
        }  # fmt: skip
        if step.coverage is not None:
            row |= {"coverage": step.coverage, "Gini": step.gini}
        if step.loss:
            row["loss"] = sum(step.loss.values())
        rows.append(row)
    if rows:
        drawn = {"coverage": "share of the clips", "Gini": "0 equal, 1 all in one"}
        yield AuditTable.of("Pseudo-labels, step by step", rows, digits=3), drawn
    rows = [
        {"step": step.number, **{name: change_interval(change) for name, change in step.verdict.changes.items()}}
        for step in steps
        if step.verdict is not None
    ]
    if rows:
        title = "Changes of quality on queries not yet learned from, step by step"
        yield AuditTable.of(title, rows, digits=3), dict.fromkeys(_MEASURES, "difference")


def _label_ranks(steps: Sequence[AdaptationStep]) -> Iterator[AuditTable]:
    """Whether the target stage of the bias correction learned its labels; nothing where there was none."""
    rows: list[dict[str, Cell | Interval]] = [
        {
            "step": step.number, "candidates": rank.candidates, "rank before": rank.before, "rank after": rank.after,
            "captions with another clip, %": 100 * rank.relabelled,
        }
        for step in steps[-MOST_STEPS:]
        if (rank := step.label_rank) is not None
    ]  # fmt: skip
    if rows:
        note = (
            "The mean rank of a caption's pseudo clip among its candidates, by the correction before it trained on the "
            "pseudo clips and after; 1 is first, and by chance it is in the middle. Where both are "
            "alike and above 1 it learned nothing: causal_fit.steps and causal_fit.lr say how long and how fast it "
            "trains."
        )
        yield AuditTable.of("What the bias correction made of its labels", rows, note)


def change_interval(change: MeanChange) -> Interval:
    """Return a change with its interval; without one where there are too few queries."""
    return Interval(change.mean, change.low, change.high) if isfinite(change.low) else Interval(change.mean)


def _shown(names: Mapping[str, str], clip: str) -> str:
    """What a clip is called, in words that fit a table."""
    name = names.get(clip, clip)
    return name if len(name) <= 48 else f"{name[:24]} ... {name[-20:]}"
