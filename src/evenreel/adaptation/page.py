"""The page of `evenreel adapt`: whether the adapted model was kept and why, each step, and how rankings changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

import plotly.graph_objects as go

from evenreel.adaptation.changes import Changes
from evenreel.adaptation.quality import MeanChange
from evenreel.adaptation.report import AdaptationStep, AdaptReport
from evenreel.report.figures import COLOURS, axes, panels, wrapped
from evenreel.report.page import Chart, Page, Picture, Section, Table, Text

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
