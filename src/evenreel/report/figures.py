"""Charts of rankings, of groups and of sweeps; each takes plain data and escapes all words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenreel.errors import UsageError
from evenreel.evaluation.intervals import Interval, figure_interval
from evenreel.evaluation.measure import DirectionResult
from evenreel.evaluation.metrics import parse_metric
from evenreel.report.result import AuditTable, Effect

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = ("#2f7fd1", "#e07b39", "#3a9d6a", "#a35cc4", "#c9473f", "#8a8f98")
"""Told apart on white and on black, and by most people who do not see all colours."""

MOST_POINTS = 5_000

EDGES = (1, 2, 3, 6, 11, 21, 51, 101, 201, 501, 1001, 2001, 5001, 10_001, 100_001, 10**9)
"""First ranks, or other whole numbers, of bins that widen."""

_CURVE_POINTS = 200
_HOVER_WORDS = 240
_ACROSS, _UPWARDS = 40, 28  # letters of an axis title that a phone has room for in one line
_PANEL_PX, _PANEL_TITLE_PX = 270, 30


def recall_curve(results: Mapping[str, DirectionResult], confidence: float) -> go.Figure:
    """Draw R@k over k, the chance of a right answer among the first k, with a pointwise confidence band."""
    lines = {name: curve_points(result, confidence) for name, result in results.items()}
    figure = sweep([Panel("", "R@k, %", lines)], "k").update_xaxes(type="log", dtick=1)
    return figure.update_traces(mode="lines").update_yaxes(range=[0, 101])


def curve_points(result: DirectionResult, confidence: float) -> Line:
    """Compute a recall curve: depths k, and recall in percent with its interval, none for one group of queries only."""
    known = ~np.isnan(result.first_rank)
    depths = np.unique(np.rint(np.geomspace(1, max(result.gallery_size, 1), 60)).astype(np.int64)).tolist()
    metrics, groups = [parse_metric(f"R@{k}") for k in depths], result.groups[known]
    hits = [{str(one): result.hit_chance(k)[known]} for one, k in zip(metrics, depths, strict=True)]
    found = [
        figure_interval(*both, groups, confidence, result.gallery_size) for both in zip(metrics, hits, strict=True)
    ]
    return list(zip(depths, found, strict=True))


def rank_histogram(results: Mapping[str, DirectionResult]) -> go.Figure:
    """Draw the share of queries by the rank of their first relevant item, in bins that widen with the rank."""
    bars = {}
    for name, result in results.items():
        labels, shares = rank_shares(result)
        bars[name] = dict(zip(labels, map(Interval, shares.tolist()), strict=True))
    figure = deltas_by_group(bars, "share of queries, %")
    return figure.update_xaxes(title={"text": "rank of the first relevant item", "standoff": 8})


def rank_shares(result: DirectionResult) -> tuple[list[str], NDArray[Any]]:
    """Return the names of rank bins up to the size of the gallery, and the percentage of queries in each."""
    size = max(result.gallery_size, 1)
    edges = [*(edge for edge in EDGES if edge <= size), size + 1]
    ranks = result.first_rank[~np.isnan(result.first_rank)]
    return bin_names(edges), 100 * np.histogram(np.floor(ranks), edges)[0] / max(len(ranks), 1)


def bin_names(edges: Sequence[int]) -> list[str]:
    """Name bins of whole numbers by their first and last one.

    >>> bin_names([1, 2, 3, 6])
    ['1', '2', '3–5']
    """
    return [f"{one:,}" if one + 1 == end else f"{one:,}–{end - 1:,}" for one, end in pairwise(edges)]


def query_scatter(results: Mapping[str, DirectionResult], labels: Sequence[str], seed: int) -> tuple[go.Figure, int]:
    """Draw each query's rank in two systems, on logarithmic axes, with its words; and count the queries drawn."""
    first, second = results.values()
    x, y = first.first_rank, second.first_rank
    rows = np.flatnonzero(~np.isnan(x) & ~np.isnan(y))
    if len(rows) > MOST_POINTS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_POINTS, replace=False))
    names = [plain(name) for name in results]
    figure = empty(axes(f"rank in {names[0]}", f"rank in {names[1]}", log_x=True))
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


def lorenz(counts: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute a Lorenz curve of counts, the largest first: percentages of items, and of the total they hold (1905).

    Returns:
        At most some points of the curve, from (0, 0) to (100, 100).

    >>> across, held = lorenz(np.array([1, 6, 3, 0]))
    >>> across.tolist(), held.tolist()
    ([0.0, 25.0, 50.0, 75.0, 100.0], [0.0, 60.0, 90.0, 100.0, 100.0])
    """
    held = np.append(0.0, np.cumsum(np.sort(counts)[::-1]))
    at = np.unique(np.linspace(0, len(counts), min(len(counts), _CURVE_POINTS) + 1).astype(np.int64))
    return 100 * at / len(counts), 100 * held[at] / held[-1]


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


def empty(layout: go.Layout) -> go.Figure:
    """Return a figure in which nothing is drawn yet."""
    import plotly.graph_objects as go

    return go.Figure(layout=layout)


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
        of = {f"{axis[0]}ref": f"{own} domain" for axis, own in panel_axes(number).items()}
        words = {"text": f"<b>{plain(title)}</b>", "xanchor": "left", "yanchor": "bottom", "showarrow": False}
        layout.annotations += (go.layout.Annotation(x=0, y=1, **words, **of),)
    return layout


def panel_axes(number: int) -> dict[str, str]:
    """Return the axes of the traces of a panel, counted from 1."""
    return {f"{side}axis": side if number == 1 else f"{side}{number}" for side in "xy"}


def faded(colour: str) -> str:
    """Return one of `COLOURS` faded, for a band or an area behind lines.

    >>> faded("#2f7fd1")
    'rgba(47,127,209,0.18)'
    """
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"


SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "x")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

_GROUP_WIDTH, _SYSTEM_WIDTH, _BESIDE_WIDTH = 10, 18, 22
"""Letters in a line of a name below an axis, of one beside it, and of the title of an axis that has such names."""

Line = Sequence[tuple[float, Interval]]
"""(share in percent or another number, figure) along a sweep; a single one is drawn as a point."""


@dataclass(frozen=True)
class Panel:
    """Panel of a line chart."""

    title: str
    unit: str  # of its figures
    lines: Mapping[str, Line]  # a line of figures with intervals by the name of its series


def deltas_by_group(deltas: Mapping[str, Mapping[str, Interval]], unit: str) -> go.Figure:
    """Draw differences as bars with intervals: a cluster of bars for each group, one bar for each series."""
    figure = empty(axes("", unit))
    figure.update_layout(barmode="group", bargap=0.25)
    for number, (series, by_group) in enumerate(deltas.items()):
        figure.add_bar(
            x=[name_label(group, _GROUP_WIDTH) for group in by_group],
            y=[_finite(one.value) for one in by_group.values()],
            error_y=interval_ends(by_group.values()), name=plain(series), marker_color=COLOURS[number % len(COLOURS)],
            customdata=[_hover_words(one) for one in by_group.values()], hovertemplate="%{x}: %{customdata}",
        )  # fmt: skip
    figure.update_xaxes(type="category", showgrid=False, automargin=True)
    figure.update_yaxes(zeroline=True, zerolinewidth=2)
    return figure


def effect_intervals(effects: Mapping[str, Effect]) -> go.Figure:
    """Draw the same effect of several systems below each other, with intervals and the neutral value."""
    first = next(iter(effects.values()))
    figure = empty(axes(in_lines(plain(first.name), _BESIDE_WIDTH), ""))
    figure.add_vline(x=first.neutral, line={"dash": "dot", "color": COLOURS[-1]})
    figure.add_scatter(
        x=[_finite(one.value) for one in effects.values()], y=[name_label(name, _SYSTEM_WIDTH) for name in effects],
        mode="markers", marker={"size": 11, "color": COLOURS[0]}, showlegend=False,
        error_x={**interval_ends(effects.values()), "color": COLOURS[0]},
        customdata=[_hover_words(one) for one in effects.values()],
        hovertemplate="%{y}: %{customdata}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(zeroline=False)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    return figure


def share_sweep(parts: Sequence[Panel], share: str, columns: int = 3) -> go.Figure:
    """Draw lines of figures over a share, with intervals as bands; a series has one colour in all panels."""
    return sweep(parts, f"{share}, %", columns, unit=" %")


def sweep(parts: Sequence[Panel], across: str, columns: int = 3, unit: str = "") -> go.Figure:
    """Draw lines of figures over a number, with intervals as bands; a series has one colour in all panels."""
    layout = panels([one.title for one in parts], plain(across), [plain(one.unit) for one in parts], columns)
    figure = empty(layout)
    names = list(dict.fromkeys(name for part in parts for name in part.lines))
    shown: set[str] = set()
    for number, part in enumerate(parts, start=1):
        for name, line in part.lines.items():
            drawn = _line(name, line, names.index(name), name not in shown)
            drawn[-1].hovertemplate = f"at %{{x}}{unit}: %{{customdata}}"
            figure.add_traces([one.update(panel_axes(number)) for one in drawn])
            shown.add(name)
    return figure


def similarity_histogram(groups: Mapping[str, ArrayLike], unit: str = "cosine similarity", bins: int = 40) -> go.Figure:
    """Draw the distribution of similarities of pairs as a step line for each group, over the same bins."""
    values = {name: np.asarray(one, dtype=np.float64).ravel() for name, one in groups.items()}
    together = np.concatenate([*values.values()]) if values else np.empty(0)
    if not len(together):
        raise UsageError("There are no similarities to draw a histogram of.")
    if not np.isfinite(together).all():
        raise UsageError("A similarity is not a finite number; the histogram is of finite ones.")
    edges = np.histogram_bin_edges(together, bins)
    middles = (edges[:-1] + edges[1:]) / 2
    figure = empty(axes(plain(unit), "share of the pairs, %"))
    for number, (name, own) in enumerate(values.items()):
        colour = COLOURS[number % len(COLOURS)]
        figure.add_scatter(
            x=middles, y=100 * np.histogram(own, edges)[0] / max(len(own), 1), name=plain(name), line_shape="hvh",
            line={"color": colour, "dash": DASHES[number // len(COLOURS) % len(DASHES)]}, mode="lines",
            fill="tozeroy", fillcolor=faded(colour), hovertemplate="near %{x:.3f}: %{y:.1f} % of the pairs",
        )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    return figure


def vector_map(points: NDArray[Any], groups: Sequence[str], names: Sequence[str], seed: int) -> tuple[go.Figure, int]:
    """Draw vectors as points in a plane, coloured by group, with names on hover; return the number drawn too."""
    if not len(points) == len(groups) == len(names):
        raise UsageError(f"{len(points)} points have {len(groups)} groups and {len(names)} names; give one a point.")
    rows = list(range(len(points)))
    if len(rows) > MOST_POINTS:
        rows = np.sort(np.random.default_rng(seed).choice(len(points), MOST_POINTS, replace=False)).tolist()
    figure = empty(axes("first direction (no unit)", "second direction (no unit)"))
    for number, group in enumerate(dict.fromkeys(groups)):
        own = [row for row in rows if groups[row] == group]
        figure.add_scatter(
            x=points[own, 0], y=points[own, 1], mode="markers", name=plain(group),
            marker={
                "color": COLOURS[number % len(COLOURS)], "symbol": SYMBOLS[number % len(SYMBOLS)], "size": 7,
                "opacity": 0.65,
            },
            customdata=[wrapped(names[row]) for row in own], hovertemplate="%{customdata}",
        )  # fmt: skip
    figure.update_xaxes(showticklabels=False, showgrid=False, zeroline=False)
    figure.update_yaxes(showticklabels=False, showgrid=False, zeroline=False, scaleanchor="x")
    return figure, len(rows)


def _line(name: str, line: Line, number: int, in_legend: bool) -> list[go.Scatter]:
    """A band, where there are intervals, and the line above it."""
    import plotly.graph_objects as go

    colour, shares = COLOURS[number % len(COLOURS)], [share for share, _ in line]
    figures = [one for _, one in line]
    drawn = go.Scatter(
        x=shares, y=[_finite(one.value) for one in figures],
        mode="markers" if len(line) == 1 else "lines+markers" if len(line) <= 50 else "lines",
        line={"color": colour, "dash": DASHES[number % len(DASHES)]},
        marker={"size": 8, "color": colour, "symbol": SYMBOLS[number % len(SYMBOLS)]},
        name=plain(name), legendgroup=name, showlegend=in_legend, customdata=[_hover_words(one) for one in figures],
        error_y=interval_ends(figures) if len(line) == 1 else None,
    )  # fmt: skip
    if len(line) == 1 or any(one.low is None or one.high is None for one in figures):
        return [drawn]
    there_and_back = [*(one.high for one in figures), *(one.low for one in reversed(figures))]
    band = go.Scatter(
        x=[*shares, *reversed(shares)], y=there_and_back, mode="lines", line_width=0, fill="toself",
        fillcolor=faded(colour), hoverinfo="skip", showlegend=False, legendgroup=name,
    )  # fmt: skip
    return [band, drawn]


def interval_ends(figures: Iterable[Interval | Effect]) -> dict[str, Any]:
    """Return Plotly's error bars for intervals: lengths below and above the value; none without an interval."""
    known = list(figures)
    return {
        "type": "data", "symmetric": False, "thickness": 1.5, "color": COLOURS[-1],
        "array": [None if one.high is None else _finite(one.high - one.value) for one in known],
        "arrayminus": [None if one.low is None else _finite(one.value - one.low) for one in known],
    }  # fmt: skip


def _hover_words(figure: Interval | Effect) -> str:
    if figure.low is None or figure.high is None:
        return f"{figure.value:,.2f}"
    return f"{figure.value:,.2f} ({figure.low:,.2f} to {figure.high:,.2f})"


def _finite(value: float) -> float | None:
    """A figure that could not be measured leaves a gap."""
    return value if np.isfinite(value) else None


def name_label(words: str, width: int) -> str:
    """Format a name as a label on an axis: escaped and broken into lines of at most `width` letters."""
    lines = textwrap.wrap(words, width, break_long_words=width > _GROUP_WIDTH) or [""]
    return "<br>".join(plain(line) for line in lines)


def table_bars(table: AuditTable, across: str, heads: Sequence[str], unit: str) -> go.Figure:
    """Draw figures below `heads` as bars with intervals: a cluster for each row, named below `across`."""
    names = [str(name) for name in table.column(across)]
    return deltas_by_group({head: dict(zip(names, table.intervals(head), strict=True)) for head in heads}, unit)


def table_lines(
    table: AuditTable, across: str, heads: Mapping[str, str], by: str = "", columns: int = 3, unit: str = ""
) -> go.Figure:
    """Draw figures of a table over a column of numbers, a panel for each figure, intervals as bands.

    The table has a row for each point; `heads` are the units of the figures by their heads, `by` is the head of the
    column that names the lines, `unit` that of the numbers.
    """
    names = [str(name) for name in table.column(by)] if by else [""] * len(table.rows)
    panels_of = []
    for head, own in heads.items():
        lines: dict[str, list[tuple[float, Interval]]] = {}
        for name, at, figure in zip(names, table.column(across), table.intervals(head), strict=True):
            if isinstance(at, (int, float)):
                lines.setdefault(name or head, []).append((at, figure))
        panels_of.append(Panel(head, own, lines))
    return sweep(panels_of, across, columns, unit)
