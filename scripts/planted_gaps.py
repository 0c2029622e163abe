"""Draw what `benchmarks/admission.py --out FILE` measured: biased and oracle of every seed; Chromium must be installed.

python -m scripts.planted_gaps FILE docs/pictures/planted_gaps.png
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from benchmarks.admission import Run
from benchmarks.admission_rules import BIASED, METRIC, ORACLE, cost_of
from benchmarks.over_seeds import Seeds, known_runs, words
from scripts.planted_pictures import photograph

COLOURS, LINE = {BIASED: "#c2410c", ORACLE: "#1d4ed8"}, "#9ca3af"


def gaps_figure(biases: Mapping[str, Seeds]) -> go.Figure:
    """For every bias the seeds' biased trainings and oracles, joined; beneath its name, the cost with its interval."""
    titles = [f"<b>{bias}</b><br>{words(cost_of(rows))}" for bias, rows in biases.items()]
    figure = make_subplots(1, len(biases), subplot_titles=titles, horizontal_spacing=0.045)
    for column, rows in enumerate(biases.values(), start=1):
        for seed, ends in enumerate(zip(rows[BIASED], rows[ORACLE], strict=True)):
            found = [one[METRIC] for one in ends]
            figure.add_trace(go.Scatter(x=[0, 1], y=found, line_color=LINE, mode="lines", showlegend=False), 1, column)
            for x, (name, colour) in enumerate(COLOURS.items()):
                shown = column == 1 and seed == 0
                dot = go.Scatter(x=[x], y=[found[x]], name=name, legendgroup=name, mode="markers", showlegend=shown)
                dot.marker = {"color": colour, "size": 9}
                figure.add_trace(dot, 1, column)
    figure.update_xaxes(range=[-0.3, 1.3], tickvals=[0, 1], ticktext=[BIASED, ORACLE])
    figure.update_yaxes(title="R@1, %", col=1)
    figure.update_layout(width=1100, height=420, template="simple_white", margin={"t": 80, "l": 60, "r": 20, "b": 40})
    figure.update_layout(legend={"orientation": "h", "y": -0.12})
    figure.update_annotations(font_size=13)
    return figure


def rows_of(path: Path) -> dict[str, Seeds]:
    """The rows of each bias in a file of figures, seed by seed."""
    found: dict[str, Seeds] = defaultdict(lambda: defaultdict(list))
    for run, rows in sorted(known_runs(path, Run).items(), key=lambda one: one[0].seed):
        for name, figures in rows.items():
            found[run.bias][name].append(figures)
    return dict(found)


if __name__ == "__main__":
    photograph(gaps_figure(rows_of(Path(sys.argv[1]))), Path(sys.argv[2]))
