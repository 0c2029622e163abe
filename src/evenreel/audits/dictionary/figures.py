"""Charts of an audit of a scene dictionary, in which all phrases are escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evenreel.arrays import Column
from evenreel.audits.dictionary.measures import KindMeasures
from evenreel.audits.dictionary.tables import NAMES
from evenreel.report.figures import COLOURS, MOST_POINTS, lorenz, panels, wrapped

if TYPE_CHECKING:
    import plotly.graph_objects as go


def count_curves(found: Sequence[KindMeasures]) -> go.Figure:
    """Draw which share of all mentions the most frequent phrases have (a Lorenz curve), in a panel for each kind."""
    figure = _figure(found, "phrases, the most frequent first, %", "share of all, %")
    told: set[str] = set()
    for number, one in enumerate(found, start=1):
        figure.add_scatter(
            x=[0, 100], y=[0, 100], mode="lines", line={"dash": "dot", "color": COLOURS[-1]}, hoverinfo="skip",
            showlegend=False, **_axes(number),
        )  # fmt: skip
        for name, counts, colour in (
            ("named by captions", one.mentions, COLOURS[0]),
            ("got by clips", one.chosen, COLOURS[1]),
        ):
            if counts is None or not counts.sum():
                continue
            x, y = lorenz(counts)
            figure.add_scatter(
                x=x, y=y, mode="lines", line_color=colour, name=name, legendgroup=name, showlegend=name not in told,
                hovertemplate="the first %{x:.1f} % of phrases: %{y:.1f} %<extra></extra>", **_axes(number),
            )  # fmt: skip
            told.add(name)
    return figure.update_yaxes(range=[0, 101]).update_xaxes(range=[0, 101])


def named_and_got(found: Sequence[KindMeasures]) -> go.Figure:
    """Draw phrases as points: the share of clips that are given a phrase over the share whose captions name it.

    The share that captions name, in percent, is on a logarithmic axis; each kind of phrase has a panel.
    """
    figure = _figure(found, "clips that it names, %", "clips that get it, %")
    for number, one in enumerate(found, start=1):
        if one.gains is None:
            continue
        got = 100 * (one.gains.hits + one.gains.other_hits) / one.gains.clips
        _points(figure, number, one, one.gains.chance, got, "names %{x:.2f} % of clips, %{y:.2f} % get it")
    return figure.update_xaxes(type="log", dtick=1)


def precision_and_chance(found: Sequence[KindMeasures]) -> go.Figure:
    """Draw the average precision of phrases over the share of clips that captions name them for, a panel a kind."""
    figure = _figure(found, "clips that it names, %", "average precision, %")
    for number, one in enumerate(found, start=1):
        if one.gains is None:
            continue
        chance = one.gains.chance
        lowest = float(chance[chance > 0].min(initial=100.0))
        figure.add_scatter(
            x=[lowest, 100], y=[lowest, 100], mode="lines", line={"dash": "dot", "color": COLOURS[-1]},
            hoverinfo="skip", showlegend=False, **_axes(number),
        )  # fmt: skip
        _points(figure, number, one, chance, one.gains.precision, "names %{x:.2f} % of clips, precision %{y:.1f} %")
    return figure.update_xaxes(type="log", dtick=1).update_yaxes(type="log", dtick=1, exponentformat="none")


def _points(figure: go.Figure, number: int, one: KindMeasures, x: Column, y: Column, said: str) -> None:
    """A point a phrase, of those that a clip is named by; of very many the most frequent ones of the dictionary."""
    kept = np.flatnonzero((x > 0) & ~np.isnan(y))[:MOST_POINTS]
    figure.add_scatter(
        x=x[kept].round(4), y=y[kept].round(4), mode="markers", showlegend=False,
        marker={"color": COLOURS[number - 1], "size": 7, "opacity": 0.45},
        customdata=[wrapped(one.phrases[place]) for place in kept],
        hovertemplate=f"%{{customdata}}<br>{said}<extra></extra>", **_axes(number),
    )  # fmt: skip


def _figure(found: Sequence[KindMeasures], x: str, y: str) -> go.Figure:
    import plotly.graph_objects as go

    return go.Figure(layout=panels([NAMES[one.kind] for one in found], x, [y] * len(found), columns=2))


def _axes(number: int) -> dict[str, str]:
    place = "" if number == 1 else str(number)
    return {"xaxis": f"x{place}", "yaxis": f"y{place}"}
