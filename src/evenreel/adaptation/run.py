"""Test-time training on one stream of queries, from the first query to the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
import torch

from evenreel.adaptation.adapted import AdaptationStep, TestTimeMatcher
from evenreel.adaptation.safety import LEAST, Drift, MeanChange, QualityVerdict, quality
from evenreel.adaptation.stream import QueryStream, taken
from evenreel.adaptation.titan import AdaptSettings, CounterfactualSettings, over_attended
from evenreel.arrays import Indices
from evenreel.errors import UsageError
from evenreel.evaluation.concentration import skewness
from evenreel.language.tokens import Tagger
from evenreel.progress import Progress
from evenreel.report.figures import COLOURS, axes, panels, wrapped
from evenreel.report.page import Chart, Page, Picture, Section, Table, Text
from evenreel.types import FloatArray, Scores


@dataclass(frozen=True)
class AdaptReport:
    """Report of the adaptation to a whole stream.

    Attributes:
        kept: whether the final model is the adapted one, or the source.
        sentence: whether it was kept, and why.
        steps: steps of the adaptation, in order.
        drift: shift of captions and clips from the source's; None where not measured.
        moved: norm of the change of the trained weights, as a share of the norm of all weights.
        first_changed: share of the queries whose first clip is another than the source's: online as each batch was
            answered, offline by the final model.
    """

    kept: bool
    sentence: str
    steps: tuple[AdaptationStep, ...]
    drift: Drift | None = None
    moved: float = 0.0
    first_changed: float = 0.0

    def to_json(self, labels: bool = False) -> dict[str, Any]:
        """Return the report as a dictionary that JSON can hold; pseudo-labels only where `labels` is set."""
        found = asdict(self)
        if not labels:
            for step in found["steps"]:
                del step["labels"]
        return found


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


FIRST = 10
"""Places of a ranking that hubs are counted in, and at most a fifth of all: every clip is among the first V."""


LISTED = 6
"""Clips that most queries find, of each model."""


EXAMPLES = 20
"""Queries with another first clip, and over-attended words, that are listed."""


BAND = 1024
"""Queries that are ranked at a time, and most that quality is measured on."""


class QueryExample(NamedTuple):
    """A query, and the ids of its first clip before and after adaptation."""

    query: str
    before: str
    after: str


class HubChange(NamedTuple):
    """A hub clip, and the number of queries that rank it among their first clips, before and after adaptation."""

    clip: str
    before: int
    after: int


class HubWord(NamedTuple):
    """A word of a hub clip's queries: `sharing` of the `matched` queries that ranked the clip first have it."""

    clip: str
    word: str
    sharing: int
    matched: int


@dataclass(frozen=True)
class Changes:
    """Changes of rankings from the source to the final model, on all queries, those trained on included.

    Attributes:
        queries: number of queries.
        videos: number of clips.
        first_changed: share of the queries with another first clip.
        examples: some queries whose first clip changed.
        places: number of first places of a ranking in which hubs are counted.
        hubs: clips that most queries have in these places by either model.
        skewness: skewness of these counts over clips, before and after; NaN where all are equal.
        words: over-attended words of the clips that most queries ranked first before.
        measured: number of queries, the first ones, that quality was measured on.
        before: mean quality of the source by name (`evenreel.adaptation.quality`).
        after: mean quality of the final model by name.
    """

    queries: int
    videos: int
    first_changed: float
    examples: tuple[QueryExample, ...]
    places: int
    hubs: tuple[HubChange, ...]
    skewness: tuple[float, float]
    words: tuple[HubWord, ...]
    measured: int
    before: Mapping[str, float]
    after: Mapping[str, float]


def changes_of(model: TestTimeMatcher, stream: QueryStream, tagger: Tagger | None = None) -> Changes:
    """Compare the rankings of the final model with the source's.

    Args:
        model: matcher after adaptation.
        stream: stream whose queries are ranked.
        tagger: tagger of the queries, to find over-attended words; None to find none.
    """
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
            counts[which] += np.bincount(_first(scores, places).ravel(), minlength=len(ids))
            if len(qualities) < 2:
                qualities.append(quality(scores, scale).means)
                measured = len(rows)
    before, after = (np.concatenate(found) for found in firsts)
    other = np.flatnonzero(before != after)
    return Changes(
        queries=len(before),
        videos=len(ids),
        first_changed=float((before != after).mean()),
        examples=tuple(
            QueryExample(stream.sentences[row], ids[before[row]], ids[after[row]]) for row in _spread(other)
        ),
        places=places,
        hubs=tuple(_hubs(counts, ids)),
        skewness=(skewness(counts[0]), skewness(counts[1])),
        words=() if tagger is None else _words(stream, before, tagger, model.settings),
        measured=measured,
        before=qualities[0],
        after=qualities[1],
    )


def record(
    report: AdaptReport, changes: Changes, settings: AdaptSettings, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Convert report, changes and settings to a dictionary that JSON can hold; numbers that are not finite become null.

    Args:
        report: report of the adaptation.
        changes: changes of the rankings.
        settings: settings of the adaptation.
        names: names of clips by id; the record has those that it mentions.
    """
    told = {hub.clip for hub in changes.hubs} | {word.clip for word in changes.words}
    told |= {clip for one in changes.examples for clip in (one.before, one.after)}
    found = {
        **report.to_json(),
        "changes": asdict(changes)
        | {
            "examples": [one._asdict() for one in changes.examples],
            "hubs": [one._asdict() for one in changes.hubs],
            "words": [one._asdict() for one in changes.words],
        },
        "names": {clip: name for clip, name in sorted((names or {}).items()) if clip in told},
        "settings": asdict(settings),
    }
    plain: dict[str, Any] = _finite(found)
    return plain


def _first(scores: FloatArray, count: int) -> Indices:
    """(Q, count) columns of the best, in no order."""
    found: Indices = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    return found


def _spread(rows: Indices) -> Indices:
    """Select at most `EXAMPLES` rows, evenly from first to last."""
    if len(rows) <= EXAMPLES:
        return rows
    kept: Indices = rows[np.linspace(0, len(rows) - 1, EXAMPLES).round().astype(np.int64)]
    return kept


def _hubs(counts: Indices, ids: Sequence[str]) -> Iterator[HubChange]:
    listed = {int(place) for row in counts for place in np.argsort(-row, kind="stable")[:LISTED]}
    for place in sorted(listed, key=lambda place: (-counts[0, place], -counts[1, place], place)):
        yield HubChange(ids[place], int(counts[0, place]), int(counts[1, place]))


def _words(stream: QueryStream, firsts: Indices, tagger: Tagger, settings: AdaptSettings) -> tuple[HubWord, ...]:
    how = settings.counterfactuals or CounterfactualSettings()
    found = over_attended(tagger.tag(stream.sentences), firsts, how)
    most = sorted(found, key=lambda one: (-one.matched, one.video, -one.count, one.word))[:EXAMPLES]
    return tuple(HubWord(stream.videos.ids[one.video], one.word, one.count, one.matched) for one in most)


def _finite(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


MOST_STEPS = 50
"""Rows of the table of steps, the last; the chart has all."""


_MEASURES = {
    "agreement": ("agreement", "1 over the rank of the query for its first clip, on average"),
    "coverage": ("coverage", "first clips there are, as a share of the queries"),
    "entropy": ("indecision", "entropy of the scores of a query, in nats"),
}


def adaptation_page(
    title: str,
    report: AdaptReport,
    changes: Changes,
    settings: str,
    names: Mapping[str, str] | None = None,
    pictures: Mapping[str, bytes] | None = None,
) -> Page:
    """Make the page of an adaptation to one stream.

    Args:
        title: title that names the matcher and what it was adapted to.
        report: report of the adaptation.
        changes: changes of the rankings.
        settings: the settings in YAML.
        names: names of clips by id; clips without a name are shown by their ids.
        pictures: small JPEG pictures of clips by id; clips without one are only named.
    """
    called = _Names(names or {})
    sections = [
        Section("What changed", list(_changed(report, changes, called, pictures or {}))),
        Section("Hubs: clips that many queries find", list(_hubs(changes, called))),
        Section("Step by step", list(_steps(report.steps))),
        Section("How far captions and clips are from those of the source", [_drift(report)]),
        Section("Settings", [Text(settings, "code")]),
    ]
    return Page(title, report.sentence, sections)


class _Names:
    """What clips are called, in words that fit a table."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def __getitem__(self, clip: str) -> str:
        name = self._names.get(clip, clip)
        return name if len(name) <= 48 else f"{name[:24]} ... {name[-20:]}"


def _changed(
    report: AdaptReport, changes: Changes, names: _Names, pictures: Mapping[str, bytes]
) -> Iterator[Text | Table]:
    if not report.kept:
        yield Text("The weights are those of the source, so no ranking of the model changed.")
    else:
        yield Text(
            f"{changes.first_changed:.1%} of the {changes.queries:,} queries have another first clip among the "
            f"{changes.videos:,}; the weights moved by {report.moved:.2%} of their length."
        )
    rows = [
        [word, meaning, _figure(changes.before[name]), _figure(changes.after[name])]
        for name, (word, meaning) in _MEASURES.items()
    ]
    note = (
        f"Measured without labels, so none of it is accuracy: on {changes.measured:,} queries, those that were learned "
        "from included. The decision above rests on others."
    )
    yield Table(["measure", "what it is", "source", "given model"], rows, title="Quality, as far as it shows", left=2)
    yield Text(note, "note")
    if changes.examples:
        shown = {clip: Picture(jpeg, names[clip]) for clip, jpeg in pictures.items()}
        pictured = [
            [one.query, *(shown.get(clip, names[clip]) for clip in (one.before, one.after))] for one in changes.examples
        ]
        yield Table(["query", "first clip before", "after"], pictured, title="Queries with another first clip", left=3)
        if shown:
            yield Text("Each picture is from the middle of its clip.", "note")


def _hubs(changes: Changes, names: _Names) -> Iterator[Text | Table | Chart]:
    fair = changes.queries * changes.places / changes.videos
    before, after = (_figure(value) or "undefined" for value in changes.skewness)
    first = "as their first" if changes.places == 1 else f"among their first {changes.places}"
    yield Text(
        f"How many queries have a clip {first}; were queries spread evenly, each clip would have {fair:,.1f}. The "
        f"skewness of these counts is {before} before and {after} after; the larger it is, the fewer clips crowd the "
        "rankings."
    )
    figure = go.Figure(layout=axes("queries", ""))
    labels = [f"{number}. {names[hub.clip]}" for number, hub in enumerate(changes.hubs, start=1)]
    for name, values, colour in (
        ("before", [hub.before for hub in changes.hubs], COLOURS[-1]),
        ("after", [hub.after for hub in changes.hubs], COLOURS[0]),
    ):
        figure.add_bar(
            y=[wrapped(label) for label in labels], x=values, name=name, orientation="h", marker_color=colour,
            hovertemplate="%{y}: %{x} queries",
        )  # fmt: skip
    figure.update_layout(barmode="group")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.add_vline(x=fair, line_dash="dot", line_color=COLOURS[-1])
    yield Chart(figure, "Queries that have the clip among their first; the dotted line is an even share")
    if changes.words:
        rows = [[word.word, names[word.clip], f"{word.sharing:,}", f"{word.matched:,}"] for word in changes.words]
        yield Table(
            ["word", "first clip before", "queries with the word", "queries in all"],
            rows,
            title="Words that queries of one first clip share",
            left=2,
        )


def _steps(steps: Sequence[AdaptationStep]) -> Iterator[Text | Table | Chart]:
    if not steps:
        yield Text("No step was taken.")
        return
    if len(steps) > 1:
        yield Chart(_progress(steps), "Pseudo-labels, and agreement with queries not yet learned from")
    shown = steps[-MOST_STEPS:]
    if len(shown) < len(steps):
        yield Text(f"The last {len(shown):,} of {len(steps):,} steps:", "note")
    columns = ["step, answered by", "queries", "learned from", "counterfactual", "coverage", "Gini", "loss"]
    yield Table([*columns, "change of agreement"], [_row(step) for step in shown])
    yield from _label_ranks(shown)


def _row(step: AdaptationStep) -> list[str]:
    loss = sum(step.loss.values()) if step.loss else None
    numbers = [step.queries, step.pairs, step.counterfactual]
    change = None if step.verdict is None else step.verdict.changes["agreement"]
    return [
        f"{step.number}, {step.served}",
        *(f"{number:,}" for number in numbers),
        *(_figure(value) for value in (step.coverage, step.gini, loss)),
        "" if change is None else interval_text(change),
    ]


def _label_ranks(steps: Sequence[AdaptationStep]) -> Iterator[Text | Table]:
    """Whether the target stage of the bias correction learned its labels; nothing where there was none."""
    rows = [
        [str(step.number), f"{rank.candidates}", f"{rank.before:.2f}", f"{rank.after:.2f}", f"{rank.relabelled:.1%}"]
        for step in steps
        if (rank := step.label_rank) is not None
    ]
    if rows:
        columns = ["step", "candidates", "rank before", "rank after", "captions with another clip"]
        yield Table(columns, rows, title="What the bias correction made of its labels")
        yield Text(
            "The mean rank of a caption's pseudo clip among its candidates, by the correction before it trained on the "
            "pseudo clips and after; 1 is first, and by chance it is in the middle. Where both are "
            "alike and above 1 it learned nothing: causal_fit.steps and causal_fit.lr say how long and how fast it "
            "trains.",
            "note",
        )


def interval_text(change: MeanChange) -> str:
    """Format a mean difference with its interval, where there is one.

    >>> interval_text(MeanChange(0.0125, -0.01, 0.035)), interval_text(MeanChange(0.5, float("-inf"), float("inf")))
    ('+0.013 (-0.010 to +0.035)', '+0.500')
    """
    ends = f" ({change.low:+.3f} to {change.high:+.3f})" if isfinite(change.low) and isfinite(change.high) else ""
    return f"{change.mean:+.3f}{ends}"


def _progress(steps: Sequence[AdaptationStep]) -> go.Figure:
    """Coverage and Gini of the pseudo-labels, and agreement of the learned model over the source's, by step."""
    judged = [(step.number, step.verdict.changes["agreement"]) for step in steps if step.verdict is not None]
    titles = ["coverage of pseudo-labels", "Gini of pseudo-labels"] + ["change of agreement"] * bool(judged)
    units = ["share of the clips", "0 equal, 1 all in one"] + ["difference"] * bool(judged)
    figure = go.Figure(layout=panels(titles, "step", units))
    figure.update_layout(showlegend=False)
    for number, name in enumerate(("coverage", "gini")):
        known = [(step.number, getattr(step, name)) for step in steps if getattr(step, name) is not None]
        figure.add_scatter(
            x=[at for at, _ in known], y=[value for _, value in known], mode="lines+markers", line_color=COLOURS[0],
            xaxis=f"x{number + 1 if number else ''}", yaxis=f"y{number + 1 if number else ''}",
        )  # fmt: skip
    if judged:
        means = [change.mean for _, change in judged]
        reach = [change.high - change.mean if isfinite(change.high) else 0.0 for _, change in judged]
        figure.add_scatter(
            x=[at for at, _ in judged], y=means, error_y={"array": reach}, mode="lines+markers",
            line_color=COLOURS[0], xaxis="x3", yaxis="y3",
        )  # fmt: skip
    figure.update_xaxes(range=[steps[0].number - 0.5, steps[-1].number + 0.5])
    figure.update_yaxes(rangemode="tozero")  # else noise fills the panels
    return figure


def _drift(report: AdaptReport) -> Text | Table:
    if report.drift is None:
        return Text(
            "Nobody measured: it takes the moments of the source, which `evenreel prepare` keeps with a checkpoint."
        )
    found = {"captions": report.drift.captions, "clips": report.drift.clips}
    rows = [[name, f"{shift.distance:.2f}", _p(shift.p)] for name, shift in found.items()]
    return Table(
        ["of", "distance of the means, in deviations of the source", "p of Hotelling's test"],
        rows,
        caption="They differ." if report.drift.found else "They do not differ for sure.",
    )


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.3f}"


def _figure(value: float | None) -> str:
    return "" if value is None or not isfinite(value) else f"{value:.3f}"
