"""The page of `evenreel train`: the result in a sentence, the curves of the run, and its recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go

from evenreel.evaluation.metrics import Metric, parse_metric
from evenreel.report.figures import COLOURS, axes, panels, plain
from evenreel.report.page import Chart, Page, Section, Text

Curve = Sequence[tuple[float, float]]

_VALIDATION = "validation/"
_GROUPS = (
    ("loss/", "Loss of the latest batch, by its terms", "loss"),
    ("bias/kl", "Divergence of a word's bias from the prior", "nats"),
    ("bias/active_units", "Numbers of the bias that vary over words", "numbers"),
    ("bias/sigma", "Deviation of the bias, 1 in the prior", "deviation"),
    ("rate/", "Rates by group of parameters", "rate"),
    ("logit_scale", "Factor on the similarities in the loss", "factor"),
)


def training_page(name: str, lead: str, curves: Mapping[str, Curve], recipe: str) -> Page:
    """Make the page of a training run."""
    sections = []
    if measured := _named(curves, _VALIDATION):
        figure = panel_figure(measured, lambda name: scale_of(parse_metric(name.split()[0])))
        sections.append(Section("On the validation split", [Chart(figure)]))
    for prefix, title, unit in _GROUPS:
        if chosen := _named(curves, prefix):
            sections.append(Section(title, [Chart(curve_figure(chosen, unit))]))
    return Page(f"Training of {name}", lead, [*sections, Section("Recipe", [Text(recipe, "code")])])


def _named(curves: Mapping[str, Curve], prefix: str) -> dict[str, Curve]:
    return {key.removeprefix(prefix) or key: curve for key, curve in curves.items() if key.startswith(prefix)}


def curve_figure(curves: Mapping[str, Curve], unit: str) -> go.Figure:
    """Draw a line for each figure over the steps of training; a line of few points shows them."""
    return go.Figure([_line(*curve, number) for number, curve in enumerate(curves.items())], axes("step", unit))


def panel_figure(curves: Mapping[str, Curve], scale: Callable[[str], str]) -> go.Figure:
    """Draw lines over the steps of training in a panel for each scale, as recalls and ranks need different ones."""
    scales: dict[str, list[str]] = {}
    for name in curves:
        scales.setdefault(scale(name), []).append(name)
    titles = [", ".join(dict.fromkeys(name.split()[0] for name in names)) for names in scales.values()]
    figure = go.Figure(layout=panels(titles, "step", list(scales)))
    places = {name: place for place, names in enumerate(scales.values(), start=1) for name in names}
    for number, (name, points) in enumerate(curves.items()):
        at = "" if places[name] == 1 else str(places[name])
        figure.add_trace(_line(name, points, number).update(xaxis=f"x{at}", yaxis=f"y{at}"))
    return figure


def _line(name: str, points: Curve, number: int) -> go.Scatter:
    return go.Scatter(
        x=[step for step, _ in points],
        y=[value for _, value in points],
        mode="lines+markers" if len(points) <= 50 else "lines",
        name=plain(name),
        line_color=COLOURS[number % len(COLOURS)],
    )


def scale_of(metric: Metric) -> str:
    """Return the axis title of a metric; metrics with the same title have one scale and can share a panel.

    >>> [scale_of(parse_metric(word)) for word in ("R@5", "mAP", "Rsum", "MedR")]
    ['%', '%', 'sum of three, %', 'rank, less is better']
    """
    if not metric.higher_is_better:
        return "rank, less is better"
    return "sum of three, %" if metric.name == "Rsum" else "%"
