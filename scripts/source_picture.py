"""Draw what `benchmarks/source.py --out FILE` measured, with its intervals; Chromium must be installed.

python -m scripts.source_picture FILE docs/pictures/source_bias.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import plotly.graph_objects as go

from benchmarks.source import BIASED, PLAIN, PREFERENCE, REAL_R1, WIN_RATE, Run, Runs, Training, mean, runs_of
from evenreel.debias.source import PRESETS
from evenreel.papers.cells import known_runs
from evenreel.report.figures import Panel, share_sweep
from scripts.planted_pictures import photograph

PANELS = ((PREFERENCE, "Preference", "Normalized Δ MixR"), (WIN_RATE, "Real above its mirror", "% of captions"),
          (REAL_R1, "Real clips alone", "R@1, %"))  # fmt: skip


def sweep_figure(runs: Runs) -> go.Figure:
    """Each figure over the share of mirrors in training, and where the terms bring it from strength 0.9."""
    figure = share_sweep([panel(runs, *about) for about in PANELS], "generated clips in training")
    figure.update_layout(width=1150, height=430, paper_bgcolor="white", plot_bgcolor="white")
    return figure


def panel(runs: Runs, name: str, title: str, unit: str) -> Panel:
    """A line for plain training, a point for each preset."""
    plain = sorted((one for one in runs if one.preset == PLAIN), key=lambda one: one.share)
    lines = {PLAIN: [(100 * one.share, mean(runs[one], name)) for one in plain]}
    for preset in PRESETS:
        lines[f"with the term {preset}"] = [(100 * BIASED, mean(runs[Training(BIASED, preset)], name))]
    return Panel(title, unit, lines)


if __name__ == "__main__":
    photograph(sweep_figure(runs_of(known_runs(Path(sys.argv[1]), Run))), Path(sys.argv[2]))
