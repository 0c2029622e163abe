"""Charts that audits and studies share: bars by group, lines over a share, histograms, vectors in a plane.

Each function takes plain data and returns a figure of Plotly, in which all words are escaped.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenreel.errors import UsageError
from evenreel.evaluation.results import Interval
from evenreel.report.figures import COLOURS, MOST_POINTS, axes, faded, in_lines, panels, plain, wrapped
from evenreel.report.result.record import Effect

if TYPE_CHECKING:
    import plotly.graph_objects as go

SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "x")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

_GROUP_WIDTH, _SYSTEM_WIDTH, _BESIDE_WIDTH = 10, 18, 22
"""Letters in a line of a name below an axis, of one beside it, and of the title of an axis that has such names."""

Line = Sequence[tuple[float, Interval]]
"""(share in percent or another number, figure) along a sweep; a single one is drawn as a point."""


@dataclass(frozen=True)
class Panel:
    """Panel of a line chart.

    Attributes:
        title: title of the panel.
        unit: unit of its figures.
        lines: a line of figures with intervals by the name of its series.
    """

    title: str
    unit: str
    lines: Mapping[str, Line]


def deltas_by_group(deltas: Mapping[str, Mapping[str, Interval]], unit: str) -> go.Figure:
    """Draw differences as bars with intervals: a cluster of bars for each group, one bar for each series."""
    import plotly.graph_objects as go

    figure = go.Figure(layout=axes("", unit))
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
    import plotly.graph_objects as go

    first = next(iter(effects.values()))
    figure = go.Figure(layout=axes(in_lines(plain(first.name), _BESIDE_WIDTH), ""))
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
    import plotly.graph_objects as go

    layout = panels([one.title for one in parts], plain(across), [plain(one.unit) for one in parts], columns)
    figure = go.Figure(layout=layout)
    names = list(dict.fromkeys(name for part in parts for name in part.lines))
    shown: set[str] = set()
    for number, part in enumerate(parts, start=1):
        at = {"xaxis": "x", "yaxis": "y"} if number == 1 else {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        for name, line in part.lines.items():
            drawn = _line(name, line, names.index(name), name not in shown)
            drawn[-1].hovertemplate = f"at %{{x}}{unit}: %{{customdata}}"
            figure.add_traces([one.update(at) for one in drawn])
            shown.add(name)
    return figure


def similarity_histogram(groups: Mapping[str, ArrayLike], unit: str = "cosine similarity", bins: int = 40) -> go.Figure:
    """Draw the distribution of similarities of pairs as a step line for each group, over the same bins."""
    import plotly.graph_objects as go

    values = {name: np.asarray(one, dtype=np.float64).ravel() for name, one in groups.items()}
    together = np.concatenate([*values.values()]) if values else np.empty(0)
    if not len(together):
        raise UsageError("There are no similarities to draw a histogram of.")
    if not np.isfinite(together).all():
        raise UsageError("A similarity is not a finite number; the histogram is of finite ones.")
    edges = np.histogram_bin_edges(together, bins)
    middles = (edges[:-1] + edges[1:]) / 2
    figure = go.Figure(layout=axes(plain(unit), "share of the pairs, %"))
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
    import plotly.graph_objects as go

    if not len(points) == len(groups) == len(names):
        raise UsageError(f"{len(points)} points have {len(groups)} groups and {len(names)} names; give one a point.")
    rows = list(range(len(points)))
    if len(rows) > MOST_POINTS:
        rows = np.sort(np.random.default_rng(seed).choice(len(points), MOST_POINTS, replace=False)).tolist()
    figure = go.Figure(layout=axes("first direction (no unit)", "second direction (no unit)"))
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
        x=shares, y=[_finite(one.value) for one in figures], mode="lines+markers" if len(line) > 1 else "markers",
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
