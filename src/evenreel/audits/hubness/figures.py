"""Charts of an audit of hubs: how often clips are among the first, and which share of places the most frequent hold."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom

from evenreel.arrays import Column
from evenreel.audits.statistics.counts import lorenz
from evenreel.report.figures import COLOURS, axes

if TYPE_CHECKING:
    import plotly.graph_objects as go

_EDGES = (0, 1, 2, 3, 6, 11, 21, 51, 101, 201, 501, 1001, 2001, 5001, 10_001, 100_001, 10**9)


def occurrence_bars(counts: Column, queries: int, depth: int) -> go.Figure:
    """Draw the share of clips by how many queries have them among the first k, beside that of random rankings.

    Args:
        counts: (V,) number N_k of queries that have each clip among the first k.
        queries: number Q of queries.
        depth: number k of first clips.
    """
    import plotly.graph_objects as go

    labels, shares, chance = occurrence_shares(counts, queries)
    figure = go.Figure(layout=axes(f"queries that have the clip among their first {depth}", "share of the clips, %"))
    figure.add_bar(
        x=labels, y=[one or None for one in shares.tolist()], name="this ranking", marker_color=COLOURS[0],
        hovertemplate="%{x} queries: %{y:.3g} % of the clips<extra></extra>",
    )  # fmt: skip
    least = 50 / len(counts)  # half a clip: what chance gives below that is nobody
    figure.add_scatter(
        x=labels, y=[one if one >= least else None for one in chance.tolist()], name="at random", mode="lines+markers",
        line={"color": COLOURS[1], "dash": "dot"}, marker={"size": 9},
        hovertemplate="%{x} queries: %{y:.3g} % of the clips at random<extra></extra>",
    )  # fmt: skip
    figure.update_layout(bargap=0.12)
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=labels, showgrid=False)
    figure.update_yaxes(type="log", dtick=1, exponentformat="none", range=[float(np.log10(least)), 2.02])
    return figure


def occurrence_shares(counts: Column, queries: int) -> tuple[list[str], Column, Column]:
    """Return names of bins of counts, and the percentage of clips in each bin: as counted, and by chance.

    Fractions of counts, which equal scores give, are rounded up.

    >>> labels, shares, chance = occurrence_shares(np.array([0.0, 0.5, 1.0, 4.0]), 4)
    >>> labels, shares.tolist(), chance.round(1).tolist()
    (['0', '1', '2', '3–4'], [25.0, 50.0, 0.0, 25.0], [18.5, 38.9, 30.5, 12.1])
    """
    edges = [edge for edge in _EDGES if edge <= queries] + [queries + 1]
    shown = np.ceil(counts - 1e-9)
    last = next(place for place, edge in enumerate(edges) if edge > shown.max())
    edges = edges[: last + 1]
    shares = 100 * np.histogram(shown, edges)[0] / len(counts)
    below = binom.cdf(np.array(edges) - 1, queries, float(counts.mean() / queries))
    spans = [(start, stop - 1) for start, stop in pairwise(edges)]
    labels = [f"{first:,}" if first == end else f"{first:,}–{end:,}" for first, end in spans]
    return labels, np.asarray(shares, np.float64), 100 * np.diff(below)


def place_curves(counts: Mapping[int, Column], queries: int) -> go.Figure:
    """Draw which share of the first k places the most frequent clips hold, for each k, and by chance for the last one.

    Args:
        counts: (V,) number N_k of queries that have each clip among the first k, by k.
        queries: number Q of queries.
    """
    import plotly.graph_objects as go

    figure = go.Figure(layout=axes("clips, those that are shown the most first, %", "share of the places, %"))
    depth, last = list(counts.items())[-1]
    quantiles = (np.arange(len(last)) + 0.5) / len(last)
    lines = {f"first {k}": one for k, one in counts.items()}
    lines[f"first {depth}, at random"] = np.asarray(binom.ppf(quantiles, queries, float(last.mean() / queries)))
    for number, (name, one) in enumerate(lines.items()):
        if not one.sum():
            continue
        across, held = lorenz(one)
        random = number == len(lines) - 1
        figure.add_scatter(
            x=across, y=held, mode="lines", name=name,
            line={"color": COLOURS[-1] if random else COLOURS[number], "dash": "dot" if random else "solid"},
            hovertemplate=f"{name}: %{{x:.1f}} % of the clips hold %{{y:.1f}} %<extra></extra>",
        )  # fmt: skip
    return figure.update_yaxes(range=[0, 101]).update_xaxes(range=[0, 101])
