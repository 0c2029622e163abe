"""Charts of an audit of source bias: gaps of ranks, and shares of first places."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenreel.audits.source.unpaired import Exposure
from evenreel.report.figures import COLOURS, axes, interval_ends

if TYPE_CHECKING:
    import plotly.graph_objects as go

_EDGES = (1, 2, 3, 6, 11, 21, 51, 101, 201, 501, 1001, 2001, 5001, 10_001, 100_001, 10**9)


def rank_gaps(gaps: NDArray[np.float64]) -> go.Figure:
    """Draw a histogram of which clip of a pair is ranked first in the mixed gallery, and by how many places.

    Args:
        gaps: (Q,) rank of the real clip less that of its mirror.
    """
    import plotly.graph_objects as go

    labels, generated, real = gap_shares(gaps)
    equal = 100 * float((gaps == 0).mean())
    sides = (
        ("generated clip first", COLOURS[1], [*range(-len(labels), 0)], generated[::-1], labels[::-1]),
        ("alike", COLOURS[-1], [0], [equal], ["0"]),
        ("real clip first", COLOURS[0], [*range(1, len(labels) + 1)], real, labels),
    )
    figure = go.Figure(layout=axes("places between the two clips of a pair", "share of captions, %"))
    for name, colour, places, shares, words in sides:
        figure.add_bar(
            x=places, y=shares, name=name, marker_color=colour, customdata=words,
            hovertemplate="%{customdata} places: %{y:.1f} % of the captions",
        )  # fmt: skip
    figure.update_layout(bargap=0.1)
    figure.update_xaxes(
        tickvals=[place for side in sides for place in side[2]],
        ticktext=[word for side in sides for word in side[4]],
        dtick=None,
        showgrid=False,
        zeroline=False,
        automargin=True,
    )
    return figure


def gap_shares(gaps: NDArray[np.float64]) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """Return names of bins of places, and the percentages of pairs in which mirror or real clip is ahead by so many.

    Fractions of places, which equal scores give, are rounded up.

    >>> gap_shares(np.array([0.5, 2.0, -4.0, 0.0]))
    (['1', '2', '3–5'], array([25., 25.,  0.]), array([ 0.,  0., 25.]))
    """
    furthest = np.abs(gaps).max(initial=1)
    count = max(1, sum(edge < furthest + 1 for edge in _EDGES[:-1]))
    edges = np.array(_EDGES[: count + 1], dtype=np.float64)
    sides = [100 * np.histogram(np.ceil(side), edges)[0] / max(len(gaps), 1) for side in (gaps, -gaps)]
    spans = [(start, stop - 1) for start, stop in pairwise(_EDGES[: count + 1])]
    labels = [f"{first:,}" if first == last else f"{first:,}–{last:,}" for first, last in spans]
    return labels, sides[0], sides[1]


def exposure_bars(exposure: Exposure) -> go.Figure:
    """Draw the share of generated clips among the first k clips, beside their share of the gallery."""
    import plotly.graph_objects as go

    depths = [f"first {depth}" for depth in exposure.shown]
    figure = go.Figure(layout=axes("", "generated clips, %"))
    figure.add_bar(
        x=depths, y=[share.value for share in exposure.shown.values()], error_y=interval_ends(exposure.shown.values()),
        name="among the first", marker_color=COLOURS[1], hovertemplate="%{x}: %{y:.1f} %",
    )  # fmt: skip
    figure.add_scatter(
        x=depths, y=[exposure.gallery] * len(depths), name="in the gallery", mode="lines+markers",
        line={"dash": "dot", "color": COLOURS[0]}, hovertemplate="%{y:.1f} % of the gallery",
    )  # fmt: skip
    figure.update_yaxes(range=[0, 101])
    figure.update_xaxes(type="category", showgrid=False)
    return figure
