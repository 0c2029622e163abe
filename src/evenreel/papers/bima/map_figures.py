"""Figures of where models look: strips of frames under heat, and the attention of frames to elements."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from evenreel.papers.bima.looks import Attention, ElementLook, Heat
from evenreel.report.figures import COLOURS, axes, faded, name_label, panels, plain, wrapped
from evenreel.types import FloatArray, Pixels

JPEG_QUALITY = 85
GAP = 0.04
"""Between frames, in widths of a frame."""
PANEL_GAP = 0.25
"""Between rows of frames, in heights of a row."""
RIGHT, WRONG = COLOURS[2], COLOURS[4]
_HEAT = [[0, "rgba(255,196,0,0)"], [0.5, "rgba(255,140,0,0.45)"], [1, "rgba(190,0,30,0.8)"]]
_TITLE_LETTERS, _LABEL_LETTERS, _LABEL_WIDTH = 60, 56, 28
_WORDS_LETTERS, _WORDS_WIDTH = 120, 34


def displayed(maps: FloatArray) -> FloatArray:
    """Scale maps of heat for display: 0 up to their median, 1 at the hottest patch, in proportion between.

    >>> displayed(np.array([[[0.0, 2.0], [4.0, 5.0]]], np.float32)).tolist()
    [[[0.0, 0.0], [0.5, 1.0]]]
    """
    middle, hottest = float(np.median(maps)), float(maps.max())
    if hottest <= middle:
        return np.zeros_like(maps)
    return np.asarray(np.clip((maps - middle) / (hottest - middle), 0.0, 1.0), np.float32)


def heat_strip(look: ElementLook, *, right: bool) -> go.Figure:
    """Draw the frames of a clip, in a border that says whether it is the right one, and again under each heat."""
    titles = [f"the clip ({'right' if right else 'wrong'})", *(heat.label for heat in look.heats)]
    shown = [textwrap.shorten(title, _TITLE_LETTERS, placeholder=" ...") for title in titles]
    figure = go.Figure(layout=panels(shown, "", [""] * len(titles), columns=1))
    figure.update_layout(showlegend=False, grid={"ygap": PANEL_GAP})
    sources, aspect = [jpeg(one) for one in look.pictures], look.pictures[0].shape[0] / look.pictures[0].shape[1]
    for number in range(1, len(titles) + 1):
        _frames(figure, sources, aspect, number)
        _axes(figure, look.times_s, aspect, number)
    _border(figure, look.times_s, aspect, RIGHT if right else WRONG)
    for number, heat in enumerate(look.heats, start=2):
        figure.add_heatmap(**_heat(heat, aspect), xaxis=f"x{number}", yaxis=f"y{number}")
    return figure


def attention_map(attention: Attention) -> go.Figure:
    """Draw attention: frames across, elements downwards; the darker, the more a frame attends to one."""
    figure = go.Figure(layout=axes("time in the clip, s", ""))
    places, count = np.arange(len(attention.elements)), len(attention.times_s)
    labels = [" + ".join(element.phrases) for element in attention.elements]
    figure.add_heatmap(
        z=100 * attention.weights.T, x=np.arange(count), y=places, customdata=[[plain(one)] * count for one in labels],
        colorscale=[[0, faded(COLOURS[0])], [1, "#0b3d75"]], zmin=0,
        colorbar={"title": {"text": "attention, %", "side": "right"}, "thickness": 10},
        hovertemplate="%{customdata}<br>%{z:.1f} %<extra></extra>",
    )  # fmt: skip
    shown = [name_label(textwrap.shorten(one, _LABEL_LETTERS, placeholder=" ..."), _LABEL_WIDTH) for one in labels]
    figure.update_yaxes(
        tickvals=places, ticktext=shown, autorange="reversed", showgrid=False, zeroline=False, ticks="",
        tickfont_size=12,
    )  # fmt: skip
    figure.update_xaxes(
        tickvals=np.arange(count), ticktext=[f"{time_s:.1f}" for time_s in attention.times_s], showgrid=False,
        zeroline=False, ticks="",
    )  # fmt: skip
    return figure


@dataclass(frozen=True, eq=False)
class Shown:
    """One picture of a clip with its title and the words below it.

    Attributes:
        title: heading above the picture.
        picture: (H, W, 3) pixels.
        right: whether the border says that the clip is the right one.
        words: paragraphs below the picture.
    """

    title: str
    picture: Pixels
    right: bool
    words: tuple[str, ...]


def beside_each_other(shown: Sequence[Shown]) -> go.Figure:
    """Draw pictures beside each other, each above its words and in a border that says whether it is right."""
    titles = [textwrap.shorten(one.title, _LABEL_WIDTH, placeholder=" ...") for one in shown]
    figure = go.Figure(layout=panels(titles, "", [""] * len(titles)))
    figure.update_layout(showlegend=False)
    for number, one in enumerate(shown, start=1):
        place = "" if number == 1 else str(number)
        aspect = one.picture.shape[0] / one.picture.shape[1]
        _frames(figure, [jpeg(one.picture)], aspect, number)
        _axes(figure, [0.0], aspect, number)
        figure.add_shape(
            type="rect", x0=0, x1=1, y0=0, y1=aspect, xref=f"x{place}", yref=f"y{place}",
            line={"color": RIGHT if one.right else WRONG, "width": 3},
        )  # fmt: skip
        figure.add_scatter(
            x=[0.5], y=[aspect / 2], mode="markers", marker_opacity=0, xaxis=f"x{place}", yaxis=f"y{place}",
            customdata=["<br>".join(map(wrapped, filter(None, one.words)))],
            hovertemplate="%{customdata}<extra></extra>",
        )  # fmt: skip
        lines = [textwrap.shorten(line, _WORDS_LETTERS, placeholder=" ...") for line in one.words if line]
        figure.layout[f"xaxis{place}"].ticktext = ["<br>".join(name_label(line, _WORDS_WIDTH) for line in lines)]
    return figure


def _frames(figure: go.Figure, sources: Sequence[str], aspect: float, number: int) -> None:
    for place, source in enumerate(sources):
        figure.add_layout_image(
            source=source, x=place * (1 + GAP), y=0, sizex=1, sizey=aspect, sizing="stretch", layer="below",
            xref=f"x{number}" if number > 1 else "x", yref=f"y{number}" if number > 1 else "y",
        )  # fmt: skip


def _border(figure: go.Figure, times_s: Sequence[float], aspect: float, colour: str) -> None:
    """Round each frame of the first panel; points without colour say its time, and make images a chart."""
    for place in range(len(times_s)):
        left = place * (1 + GAP)
        figure.add_shape(
            type="rect", x0=left, x1=left + 1, y0=0, y1=aspect, xref="x", yref="y", line={"color": colour, "width": 3}
        )
    figure.add_scatter(
        x=_middles(len(times_s)), y=[aspect / 2] * len(times_s), mode="markers", marker_opacity=0, customdata=times_s,
        hovertemplate="at %{customdata:.2f} s<extra></extra>",
    )  # fmt: skip


def _middles(count: int) -> list[float]:
    return [place * (1 + GAP) + 0.5 for place in range(count)]


def _axes(figure: go.Figure, times_s: Sequence[float], aspect: float, number: int) -> None:
    place, count = "" if number == 1 else str(number), len(times_s)
    quiet = {"showgrid": False, "zeroline": False, "ticks": "", "showline": False, "constrain": "domain"}
    figure.layout[f"xaxis{place}"].update(
        range=[0, count * (1 + GAP) - GAP], tickvals=_middles(count),
        ticktext=[f"{time_s:.1f} s" for time_s in times_s], tickfont_size=12, **quiet,
    )  # fmt: skip
    figure.layout[f"yaxis{place}"].update(
        range=[aspect, 0], showticklabels=False, scaleanchor=f"x{place}", constraintoward="top", **quiet
    )


def _heat(heat: Heat, aspect: float) -> dict[str, object]:
    """A cell a patch; between frames lies one without a value."""
    count, rows, columns = heat.maps.shape
    edges = [place * (1 + GAP) + column / columns for place in range(count) for column in range(columns + 1)]
    return {
        "z": _beside(displayed(heat.maps)), "customdata": _beside(heat.maps), "x": edges,
        "y": np.linspace(0, aspect, rows + 1), "zmin": 0, "zmax": 1, "colorscale": _HEAT, "showscale": False,
        "hoverongaps": False, "hovertemplate": "%{customdata:.3g}<extra></extra>",
    }  # fmt: skip


def _beside(maps: FloatArray) -> NDArray[np.float64]:
    """(n, rows, columns) -> (rows, n columns + n - 1), NaN between the frames."""
    count, rows, columns = maps.shape
    wide = np.full((rows, count, columns + 1), np.nan)
    wide[:, :, :columns] = maps.transpose(1, 0, 2)
    return wide.reshape(rows, -1)[:, :-1]


def jpeg(picture: Pixels) -> str:
    """Encode a picture as the data address of a JPEG image."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
