"""Charts of rankings: recall by depth, rank of the first right answer, two systems query by query."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenreel.evaluation.intervals import figure_interval
from evenreel.evaluation.metrics import parse_metric
from evenreel.evaluation.results import DirectionResult

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = ("#2f7fd1", "#e07b39", "#3a9d6a", "#a35cc4", "#c9473f", "#8a8f98")
"""Told apart on white and on black, and by most people who do not see all colours."""

MOST_POINTS = 5_000

_EDGES = (1, 2, 3, 6, 11, 21, 51, 101, 201, 501, 1001, 2001, 5001, 10_001, 100_001)
_HOVER_WORDS = 240
_ACROSS, _UPWARDS = 40, 28
"""Letters of an axis title that a phone has room for in one line."""
_PANEL_PX, _PANEL_TITLE_PX = 270, 30


def recall_curve(results: Mapping[str, DirectionResult], confidence: float) -> go.Figure:
    """Draw R@k over k, the chance of a right answer among the first k, with a pointwise confidence band."""
    import plotly.graph_objects as go

    figure = go.Figure(layout=axes("k", "R@k, %", log_x=True))
    for number, (name, result) in enumerate(results.items()):
        colour = COLOURS[number % len(COLOURS)]
        depths, recall, low, high = curve_points(result, confidence)
        shown = plain(name)
        figure.add_scatter(x=depths, y=high, mode="lines", line_width=0, showlegend=False, hoverinfo="skip")
        figure.add_scatter(
            x=depths, y=low, mode="lines", line_width=0, showlegend=False, hoverinfo="skip", fill="tonexty",
            fillcolor=faded(colour),
        )  # fmt: skip
        figure.add_scatter(
            x=depths, y=recall, mode="lines", line_color=colour, name=shown,
            customdata=np.stack([low, high], axis=1),
            hovertemplate="R@%{x} %{y:.1f}<br>%{customdata[0]:.1f} to %{customdata[1]:.1f}",
        )  # fmt: skip
    figure.update_yaxes(range=[0, 101])
    return figure


def curve_points(
    result: DirectionResult, confidence: float
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Compute the points of a recall curve: depths k, recall in percent, and the ends of its intervals.

    The ends are NaN where there is one group of queries only.
    """
    known = ~np.isnan(result.first_rank)
    groups = result.groups[known]
    depths = np.unique(np.rint(np.geomspace(1, max(result.gallery_size, 1), 60)).astype(np.int64))
    metrics = [parse_metric(f"R@{k}") for k in depths]
    found = [
        figure_interval(one, {str(one): result.hit_chance(k)[known]}, groups, confidence, result.gallery_size)
        for one, k in zip(metrics, depths.tolist(), strict=True)
    ]
    recall, low, high = np.array([[one.value, one.low, one.high] for one in found], dtype=np.float64).T
    return depths, recall, low, high


def rank_histogram(results: Mapping[str, DirectionResult]) -> go.Figure:
    """Draw the share of queries by the rank of their first relevant item, in bins that widen with the rank."""
    import plotly.graph_objects as go

    figure = go.Figure(layout=axes("rank of the first relevant item", "share of queries, %"))
    figure.update_layout(barmode="group", bargap=0.15)
    for number, (name, result) in enumerate(results.items()):
        labels, shares = rank_shares(result)
        figure.add_bar(
            x=labels, y=shares, name=plain(name), marker_color=COLOURS[number % len(COLOURS)],
            hovertemplate="rank %{x}: %{y:.1f} % of the queries",
        )  # fmt: skip
    figure.update_xaxes(type="category", showgrid=False)
    return figure


def rank_shares(result: DirectionResult) -> tuple[list[str], NDArray[Any]]:
    """Return the names of rank bins up to the size of the gallery, and the percentage of queries in each."""
    size = max(result.gallery_size, 1)
    starts = [edge for edge in _EDGES if edge <= size]
    edges = np.array([*starts, size + 1], dtype=np.float64)
    ranks = result.first_rank[~np.isnan(result.first_rank)]
    counts = np.histogram(np.floor(ranks), bins=edges)[0]
    ends = [int(edge) - 1 for edge in edges[1:]]
    labels = [f"{start:,}" if start == end else f"{start:,}–{end:,}" for start, end in zip(starts, ends, strict=True)]
    return labels, 100 * counts / max(len(ranks), 1)


def query_scatter(results: Mapping[str, DirectionResult], labels: Sequence[str], seed: int) -> tuple[go.Figure, int]:
    """Draw each query's rank in two systems, on logarithmic axes, with its words; and count the queries drawn."""
    import plotly.graph_objects as go

    first, second = results.values()
    x, y = first.first_rank, second.first_rank
    rows = np.flatnonzero(~np.isnan(x) & ~np.isnan(y))
    if len(rows) > MOST_POINTS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_POINTS, replace=False))
    names = [plain(name) for name in results]
    figure = go.Figure(layout=axes(f"rank in {names[0]}", f"rank in {names[1]}", log_x=True))
    figure.update_yaxes(type="log", dtick=1)
    furthest = float(max(first.gallery_size, 2))
    figure.add_scatter(
        x=[1, furthest], y=[1, furthest], mode="lines", line={"dash": "dot", "color": COLOURS[-1]}, hoverinfo="skip",
        showlegend=False,
    )  # fmt: skip
    groups = ((y < x, "better", COLOURS[2]), (y == x, "alike", COLOURS[-1]), (y > x, "worse", COLOURS[4]))
    for where, name, colour in groups:
        these = rows[where[rows]]
        if not len(these):
            continue
        figure.add_scatter(
            x=x[these], y=y[these], mode="markers", name=f"{name} in {names[1]}",
            marker={"color": colour, "size": 7, "opacity": 0.45},
            customdata=[wrapped(labels[row]) for row in these], meta=names,
            hovertemplate="%{customdata}<br>%{meta[0]} %{x}, %{meta[1]} %{y}<extra></extra>",
        )  # fmt: skip
    return figure, len(rows)


def plain(words: str) -> str:
    """Escape untrusted words for Plotly, which interprets some tags but no entity for a quotation mark.

    >>> plain('<b>"bold"</b>')
    '&lt;b&gt;"bold"&lt;/b&gt;'
    """
    return escape(words, quote=False)


def wrapped(words: str) -> str:
    """Format untrusted words for a hover label: escaped, cut to a length, and broken into lines.

    >>> wrapped("<b>bold</b>")
    '&lt;b&gt;bold&lt;/b&gt;'
    """
    cut = textwrap.shorten(words, _HOVER_WORDS, placeholder=" ...")
    return "<br>".join(plain(line) for line in textwrap.wrap(cut, 60)) or "(no words)"


def axes(x: str, y: str, *, log_x: bool = False) -> go.Layout:
    """Return the layout that every chart has, with the titles of its axes."""
    import plotly.graph_objects as go

    clear = "rgba(0,0,0,0)"
    return go.Layout(
        template="none",
        paper_bgcolor=clear,
        plot_bgcolor=clear,
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
        font={"family": "system-ui, sans-serif", "size": 14},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        showlegend=True,
        xaxis={
            "title": {"text": in_lines(x, _ACROSS), "standoff": 8, "font": {"size": 14}},
            "automargin": True,
            "type": "log" if log_x else "-",
            "dtick": 1 if log_x else None,
        },
        yaxis={
            "title": {"text": in_lines(y, _UPWARDS), "standoff": 12, "font": {"size": 14}},
            "automargin": True,
            "exponentformat": "power",
        },
    )


def in_lines(title: str, width: int) -> str:
    """Break an escaped axis title into lines of at most `width` letters; its own line breaks are kept.

    >>> in_lines("share of generated clips, %", 20)
    'share of generated<br>clips, %'
    """
    return "<br>".join(
        line
        for part in title.split("<br>")
        for line in textwrap.wrap(part, width, break_long_words=False, break_on_hyphens=False)
    )


def panels(titles: Sequence[str], x: str, units: Sequence[str], columns: int = 3) -> go.Layout:
    """Return the layout of a chart of several panels, each with axes of its own: `x`, `y`, `x2`, `y2` and so on."""
    import plotly.graph_objects as go

    layout = axes(in_lines(x, _UPWARDS), units[0])
    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    layout.grid = {"rows": rows, "columns": columns, "pattern": "independent", "xgap": 0.24, "ygap": 0.4}
    layout.legend.y = 1 + _PANEL_TITLE_PX / (_PANEL_PX * rows)
    layout.meta = {"panels": len(titles), "columns": columns}
    first_x, first_y = layout.xaxis.to_plotly_json(), layout.yaxis.to_plotly_json()
    for number, unit in enumerate(units[1:], start=2):
        layout[f"xaxis{number}"] = first_x
        layout[f"yaxis{number}"] = {**first_y, "title": {**first_y["title"], "text": in_lines(unit, _UPWARDS)}}
    for number, title in enumerate(titles, start=1):
        place = "" if number == 1 else str(number)
        layout.annotations += (
            go.layout.Annotation(
                text=f"<b>{plain(title)}</b>", x=0, y=1, xanchor="left", yanchor="bottom", showarrow=False,
                xref=f"x{place} domain", yref=f"y{place} domain",
            ),
        )  # fmt: skip
    return layout


def faded(colour: str) -> str:
    """Return one of `COLOURS` faded, for a band or an area behind lines.

    >>> faded("#2f7fd1")
    'rgba(47,127,209,0.18)'
    """
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"
