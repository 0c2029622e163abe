"""Draw what `benchmarks/planted.py --out FILE` measured: baseline and oracle of every seed; Chromium must be installed.

python -m scripts.planted_gaps FILE docs/pictures/planted_gaps.png
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from benchmarks.planted import Figures, Row, row_of
from scripts.planted_pictures import photograph

BASELINE, ORACLE, LINE = "#c2410c", "#1d4ed8", "#9ca3af"


def gaps_figure(rows: Sequence[Row]) -> go.Figure:
    """For every bias the seeds' baselines and oracles, joined; beneath its name, the gap with its interval."""
    figure = make_subplots(1, len(rows), subplot_titles=[_title(row) for row in rows], horizontal_spacing=0.045)
    for column, row in enumerate(rows, start=1):
        for seed, (baseline, oracle, *_) in enumerate(row.figures):
            line = go.Scatter(x=[0, 1], y=[baseline, oracle], line_color=LINE, mode="lines", showlegend=False)
            figure.add_trace(line, 1, column)
            for name, colour, x, y in (("baseline", BASELINE, 0, baseline), ("oracle", ORACLE, 1, oracle)):
                shown = column == 1 and seed == 0
                dot = go.Scatter(x=[x], y=[y], name=name, legendgroup=name, mode="markers", showlegend=shown)
                dot.marker = {"color": colour, "size": 9}
                figure.add_trace(dot, 1, column)
    figure.update_xaxes(range=[-0.3, 1.3], tickvals=[0, 1], ticktext=["baseline", "oracle"])
    figure.update_yaxes(title="R@1, %", col=1)
    figure.update_layout(width=1100, height=420, template="simple_white", margin={"t": 80, "l": 60, "r": 20, "b": 40})
    figure.update_layout(legend={"orientation": "h", "y": -0.12})
    figure.update_annotations(font_size=13)
    return figure


def _title(row: Row) -> str:
    mean, low, high = row.gap
    return f"<b>{row.bias}</b><br>{mean:.1f} [{low:.1f}, {high:.1f}]"


def rows_of(path: Path) -> list[Row]:
    """The rows of a file of figures, one for each bias in it."""
    found: dict[str, list[Figures]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        found[one["bias"]].append(tuple(one["figures"]))
    return [row_of(bias, figures) for bias, figures in found.items()]


if __name__ == "__main__":
    photograph(gaps_figure(rows_of(Path(sys.argv[1]))), Path(sys.argv[2]))
