"""The page of `evenreel train`: the result in a sentence, the curves of the run, and its recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from evenreel.report.figures import COLOURS, axes, plain
from evenreel.report.page import Chart, Page, Section, Text

Curve = Sequence[tuple[float, float]]

_GROUPS = (
    ("validation/", "On the validation split", "value"),
    ("loss/", "Loss of the latest batch, by its terms", "loss"),
    ("bias/kl", "Divergence of a word's bias from the prior", "nats"),
    ("bias/active_units", "Numbers of the bias that vary over words", "numbers"),
    ("bias/sigma", "Deviation of the bias, 1 in the prior", "deviation"),
    ("rate/", "Rates by group of parameters", "rate"),
    ("logit_scale", "Factor on the similarities in the loss", "factor"),
)


def training_page(name: str, lead: str, curves: Mapping[str, Curve], recipe: str) -> Page:
    """The page of a run.

    Args:
        name: of the run.
        lead: its result in a sentence.
        curves: (step, value) points by the name of the figure, as metrics.csv has them.
        recipe: in YAML.
    """
    sections = []
    for prefix, title, unit in _GROUPS:
        chosen = {key.removeprefix(prefix) or key: curve for key, curve in curves.items() if key.startswith(prefix)}
        if chosen:
            sections.append(Section(title, [Chart(curve_figure(chosen, unit))]))
    return Page(f"Training of {name}", lead, [*sections, Section("Recipe", [Text(recipe, "code")])])


def curve_figure(curves: Mapping[str, Curve], unit: str) -> go.Figure:
    """A line a figure over the steps; one with few points shows them."""
    figure = go.Figure(layout=axes("step", unit))
    for number, (name, points) in enumerate(curves.items()):
        figure.add_scatter(
            x=[step for step, _ in points],
            y=[value for _, value in points],
            mode="lines+markers" if len(points) <= 50 else "lines",
            name=plain(name),
            line_color=COLOURS[number % len(COLOURS)],
        )
    return figure
