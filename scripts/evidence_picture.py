"""Draw the shares of each bias's gap that corrections close, from the files of figures; Chromium must be installed.

python -m scripts.evidence_picture docs/pictures/evidence.png
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from benchmarks.evidence.__main__ import RESULTS
from benchmarks.evidence.engine import STRENGTH
from benchmarks.evidence.page import CLOSED, Measured, read, shown
from benchmarks.evidence.registry import EVIDENCE
from benchmarks.over_seeds import ends
from evenreel.evaluation import Interval
from scripts.planted_pictures import photograph

COLOURS = {"control": "#6b7280", "published": "#c2410c", "ours": "#1d4ed8"}
ENDS = (-60, 130)
"""Ends of the axis, in percent; what lies beyond is drawn at the end."""
SEEDS = range(10, 15)


def evidence_figure(found: Sequence[Measured]) -> go.Figure:
    """For every bias a line for each control and correction: percent of the gap that it closes, with its interval."""
    across = 2
    titles = [f"<b>{one.evidence.bias}</b>, {one.evidence.world} world" for one in found]
    down = -(-len(found) // across)
    most = [max(len(shown(one)) for one in found[row * across : (row + 1) * across]) for row in range(down)]
    figure = make_subplots(
        down, across, subplot_titles=titles, row_heights=most, horizontal_spacing=0.28, vertical_spacing=0.28 / down
    )
    for place, one in enumerate(found):
        row, column = place // across + 1, place % across + 1
        for name in reversed(shown(one)):
            own = one.evidence.rows[name]
            label = f"<b>{name}</b>" if own.chosen else name
            dot = go.Scatter(x=[within(one.closed(name).value)], y=[label], mode="markers", showlegend=False)
            dot.marker = {
                "color": COLOURS[own.kind],
                "size": 9,
                "symbol": "circle-open" if own.unavailable else "circle",
            }
            dot.error_x = bars(one.closed(name))
            dot.error_x.color = COLOURS[own.kind]
            figure.add_trace(dot, row, column)
        for line in (0, CLOSED, 100):
            figure.add_vline(x=line, line_width=1, line_color="#9ca3af", layer="below", row=row, col=column)
    for kind, colour in COLOURS.items():
        figure.add_trace(go.Scatter(x=[None], y=[None], mode="markers", name=kind, marker={"color": colour, "size": 9}))
    figure.update_xaxes(range=ENDS, ticksuffix=" %")
    height = 140 * down + 24 * sum(most)
    figure.update_layout(
        width=1100, height=height, template="simple_white", margin={"t": 50, "l": 20, "r": 20, "b": 60}
    )
    figure.update_layout(legend={"orientation": "h", "y": -30 / height})
    figure.update_yaxes(automargin=True)
    return figure


def within(percent: float) -> float:
    """The figure, or the end of the axis."""
    return min(max(percent, ENDS[0]), ENDS[1])


def bars(closed: Interval) -> go.scatter.ErrorX:
    """From the mean to both ends of the interval."""
    mean, low, high = (within(value) for value in (closed.value, *ends(closed)))
    return go.scatter.ErrorX(type="data", array=[high - mean], arrayminus=[mean - low])


if __name__ == "__main__":
    each = [read(one, RESULTS, SEEDS, STRENGTH) for one in EVIDENCE]
    photograph(evidence_figure([one for one in each if one.complete and shown(one)]), Path(sys.argv[1]))
