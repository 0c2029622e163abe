"""Charts of an audit of length bias: histograms, sorted differences of classes, box plots, and strips of relevance.

They are those of the paper on frame-length bias (figures 2, 5 to 10); all words in them are escaped.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenreel.arrays import Column
from evenreel.report.figures import COLOURS, empty, faded, name_label, panel_axes, panels, plain, wrapped

if TYPE_CHECKING:
    import plotly.graph_objects as go

STRIP_DEPTH = 50

_FEWEST_BINS, _MOST_BINS = 8, 40
_MOST_OUTLIERS = 200
_WHISKER = 1.5  # interquartile ranges beyond which a length is an outlier (Tukey 1977)
_STRIP_WIDTH, _LETTERS = 20, 34


@dataclass(frozen=True, eq=False)
class Weighted:
    """Lengths above 0 (n,), and a weight for each (n,)."""

    lengths: Column
    weights: Column

    @classmethod
    def of(cls, lengths: Column, weights: Column | None = None) -> Weighted:
        """Select the lengths that are known and whose weights are above 0; without weights, all weigh the same."""
        counted = np.ones(len(lengths)) if weights is None else weights
        kept = (lengths > 0) & (counted > 0)
        return cls(lengths[kept], counted[kept])

    def quantiles(self, shares: Sequence[float]) -> Column:
        """Return weighted quantiles: for each share, the smallest length up to which there is at least that weight."""
        order = np.argsort(self.lengths)
        held = np.cumsum(self.weights[order])
        places = np.searchsorted(held, np.array(shares) * held[-1] * (1 - 1e-12))
        return np.asarray(self.lengths[order][np.minimum(places, len(order) - 1)])


Groups = dict[str, Weighted]


@dataclass(frozen=True, eq=False)
class Strip:
    """First items of one query, the best first, with the relevance (k,) of each, from 0 to 1."""

    query: str
    items: Sequence[str]
    degrees: Column


def length_histograms(parts: Mapping[str, Groups], unit: str) -> go.Figure:
    """Draw histograms of clips by length, on a logarithmic axis, as a step line for each group."""
    titles = [_shortened(title) for title in parts]
    figure = empty(panels(titles, f"length, {unit}", ["share of the clips, %"] * len(parts), columns=2))
    names = list(dict.fromkeys(name for groups in parts.values() for name in groups))
    for number, groups in enumerate(parts.values(), start=1):
        together = np.concatenate([one.lengths for one in groups.values()])
        fewest = min(len(one.lengths) for one in groups.values())  # many bins would each hold a clip or none
        bins = min(_MOST_BINS, max(_FEWEST_BINS, math.isqrt(fewest)))
        edges = np.geomspace(together.min(), together.max() * (1 + 1e-9), bins + 1)
        for name, one in groups.items():
            colour = COLOURS[names.index(name) % len(COLOURS)]
            counts = np.histogram(one.lengths, edges, weights=one.weights)[0]
            figure.add_scatter(
                x=np.sqrt(edges[:-1] * edges[1:]), y=100 * counts / max(one.weights.sum(), 1e-300), mode="lines",
                line={"color": colour, "shape": "hvh"}, fill="tozeroy", fillcolor=faded(colour), name=plain(name),
                legendgroup=name, showlegend=number == 1, hovertemplate=f"near %{{x:.4g}} {unit}: %{{y:.1f}} %",
                **panel_axes(number),
            )  # fmt: skip
        figure.update_layout({f"xaxis{number}": _log_axis(edges)})
    return figure


def discrepancy_bars(gap: Column, names: Sequence[str], unit: str) -> go.Figure:
    """Draw classes as bars sorted by how much longer they are in test than in training, with and without the sign."""
    titles = ("above 0: longer in test", "by size, either way")
    figure = empty(panels(titles, "classes, sorted", [f"test less training, {unit}", f"size, {unit}"], 2))
    for number, values in enumerate((gap, np.abs(gap)), start=1):
        order = np.argsort(-values, kind="stable")
        figure.add_bar(
            x=np.arange(1, len(gap) + 1), y=values[order].round(2), customdata=[wrapped(names[row]) for row in order],
            marker={"color": np.where(gap[order] > 0, COLOURS[0], COLOURS[1]), "line_width": 0}, showlegend=False,
            hovertemplate=f"%{{customdata}}: %{{y:.1f}} {unit}<extra></extra>", **panel_axes(number),
        )  # fmt: skip
    return figure.update_layout(bargap=0)


def length_boxes(groups: Groups, unit: str) -> go.Figure:
    """Draw box plots of groups of lengths: without outliers, and with outliers on a logarithmic axis."""
    figure = empty(panels(("without outliers", "with outliers"), "", [f"length, {unit}"] * 2, columns=2))
    for number in (1, 2):
        for place, (name, one) in enumerate(groups.items()):
            low, middle, high = one.quantiles([0.25, 0.5, 0.75])
            reach = _WHISKER * (high - low)
            is_inside = (one.lengths >= low - reach) & (one.lengths <= high + reach)
            inside, colour = one.lengths[is_inside], COLOURS[place % len(COLOURS)]
            figure.add_box(
                x=[plain(name)], q1=[low], median=[middle], q3=[high], lowerfence=[inside.min(initial=low)],
                upperfence=[inside.max(initial=high)], name=plain(name), marker_color=colour, fillcolor=faded(colour),
                showlegend=False, **panel_axes(number),
            )  # fmt: skip
            if number == 2:
                outside = np.sort(one.lengths[~is_inside])
                if len(outside) > _MOST_OUTLIERS:  # a page does not grow with the data
                    outside = outside[np.linspace(0, len(outside) - 1, _MOST_OUTLIERS).astype(np.int64)]
                figure.add_scatter(
                    x=[plain(name)] * len(outside), y=outside, mode="markers", showlegend=False,
                    marker={"color": colour, "size": 4, "opacity": 0.5},
                    hovertemplate=f"%{{y:.4g}} {unit}<extra></extra>", **panel_axes(number),
                )  # fmt: skip
        figure.update_layout({f"xaxis{number}": {"type": "category", "showgrid": False}})
    return figure.update_layout(yaxis2=_log_axis(np.concatenate([one.lengths for one in groups.values()])))


def relevance_strips(parts: Mapping[str, Sequence[Strip]]) -> go.Figure:
    """Draw how relevant the first items of some queries are: the darker, the more relevant."""
    figure = empty(panels([f"{title}, by rank" for title in parts], "", [""] * len(parts), columns=1))
    for number, strips in enumerate(parts.values(), start=1):
        figure.add_heatmap(
            z=[one.degrees for one in strips], x=np.arange(1, 1 + max(len(one.degrees) for one in strips)),
            y=np.arange(len(strips)), customdata=[[wrapped(item) for item in one.items] for one in strips],
            zmin=0, zmax=1, colorscale=[[0, faded(COLOURS[0])], [1, "#0b3d75"]], showscale=number == 1, ygap=6,
            colorbar={
                "title": {"text": "relevance", "font": {"size": 12}, "side": "top"}, "orientation": "h", "thickness": 8,
                "x": 0, "xanchor": "left", "y": 1.06, "yanchor": "bottom", "tickvals": [0, 0.5, 1],
                "tickfont": {"size": 12},
            },
            hovertemplate="rank %{x}, relevance %{z:.2f}<br>%{customdata}<extra></extra>", **panel_axes(number),
        )  # fmt: skip
        marks = {
            "tickvals": list(range(len(strips))),
            "ticktext": [name_label(_shortened(one.query), _STRIP_WIDTH) for one in strips],
            "autorange": "reversed", "showgrid": False, "zeroline": False, "tickfont": {"size": 12}, "ticks": "",
        }  # fmt: skip
        figure.update_layout({f"yaxis{number}": marks, f"xaxis{number}": {"showgrid": False, "ticks": ""}})
    return figure


def _shortened(words: str) -> str:
    """The beginning of a caption, as much as fits above a panel on a phone."""
    return textwrap.shorten(words, _LETTERS, placeholder=" ...")


def _log_axis(lengths: Column) -> dict[str, object]:
    """A logarithmic axis, marked at 1, 2 and 5 times the powers of ten, or at these alone where there are many."""
    low, high = float(lengths.min()), float(lengths.max())
    powers = 10.0 ** np.arange(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = (powers[:, None] * np.array([1, 2, 5])).ravel()
    marks = every if high < 1000 * low else powers
    return {"type": "log", "tickvals": marks.tolist(), "ticktext": [f"{one:,.10g}" for one in marks]}
