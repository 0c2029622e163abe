"""Draw the pictures of docs/planted.md: example strips of every bias, and what was planted; Chromium must be installed.

python -m scripts.planted_pictures docs/pictures
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go
from PIL import Image, ImageDraw, ImageFont
from plotly.subplots import make_subplots

from evenreel.planted import BIASES, BiasName, PlantedClip, Renderer, plan_corpus, planted_statistics
from evenreel.planted.plan import Split

STRENGTH, STRENGTHS = 0.9, (0.0, 0.25, 0.5, 0.75, 1.0)
ROWS, FRAMES = 3, 4
FRAME_PX, GAP_PX, TEXT_PX = (120, 90), 4, 30
COLOURS = 256
INK, PAPER, GREY = (34, 34, 34), (255, 255, 255), (110, 110, 110)
CLIPS = 4_000
COLOUR_OF: dict[Split, str] = {"train": "#c2410c", "test": "#1d4ed8"}
PLANTED = {
    "visual": "shape with its background, Cramér's V",
    "textual": "shape with its annotator, Cramér's V",
    "length": "activity with its length, Cramér's V",
    "source": "share of generated clips",
    "domain": "share of the source domain",
    "scene_text": "share that differs in a word alone",
}


def draw_strips(bias: BiasName) -> Image.Image:
    """Clips of the training split at the left, of the test split at the right, each with its first caption."""
    plan = plan_corpus(bias, STRENGTH, clips=200)
    columns = [_column(plan.split(name)[:ROWS], f"{title}") for name, title in _titles(bias)]
    picture = Image.new("RGB", (sum(c.width for c in columns) + 6 * GAP_PX, columns[0].height), PAPER)
    picture.paste(columns[0], (0, 0))
    picture.paste(columns[1], (columns[0].width + 6 * GAP_PX, 0))
    return picture


def _titles(bias: BiasName) -> tuple[tuple[Split, str], tuple[Split, str]]:
    test = f"test, strength {STRENGTH}" if BIASES[bias].in_test else "test, nothing planted"
    return ("train", f"training, strength {STRENGTH}"), ("test", test)


def _column(clips: Sequence[PlantedClip], title: str) -> Image.Image:
    strips = [_strip(clip) for clip in clips]
    picture = Image.new("RGB", (strips[0].width, TEXT_PX + sum(strip.height for strip in strips)), PAPER)
    ImageDraw.Draw(picture).text((0, 4), title, fill=INK, font=ImageFont.load_default(15))
    for row, strip in enumerate(strips):
        picture.paste(strip, (0, TEXT_PX + row * strip.height))
    return picture


def _strip(clip: PlantedClip) -> Image.Image:
    """Frames at the middles of equal parts, the length of the clip, and its first caption."""
    scene, (width, height) = clip.scene, FRAME_PX
    picture = Image.new("RGB", (FRAMES * (width + GAP_PX) - GAP_PX, height + TEXT_PX), PAPER)
    renderer = Renderer(scene)
    for place in range(FRAMES):
        frame = renderer.picture((place + 0.5) / FRAMES * scene.duration_s)
        picture.paste(frame.resize(FRAME_PX, Image.Resampling.LANCZOS), (place * (width + GAP_PX), 0))
    source = "" if clip.shot.source == "camera" else f"{clip.shot.source}, "
    line = textwrap.shorten(f"{source}{scene.duration_s:.1f} s: {clip.shot.captions[0].text}", 84)
    ImageDraw.Draw(picture).text((0, height + 3), line, fill=GREY, font=ImageFont.load_default(12))
    return picture


def planted_figure() -> go.Figure:
    """For every bias, what was counted in the training and the test split over the strength."""
    figure = make_subplots(2, 3, subplot_titles=[f"<b>{bias}</b><br>{words}" for bias, words in PLANTED.items()])
    for place, bias in enumerate(BIASES):
        at = {"row": place // 3 + 1, "col": place % 3 + 1}
        for split, colour in COLOUR_OF.items():
            values = [_counted(bias, strength, split) for strength in STRENGTHS]
            line = go.Scatter(x=STRENGTHS, y=values, name=split, line_color=colour, showlegend=place == 0)
            figure.add_trace(line, **at)
        figure.update_yaxes(range=[-0.05, 1.05], **at)
        figure.update_xaxes(title="strength" if place >= 3 else None, **at)
    figure.update_layout(width=1000, height=620, template="simple_white", margin={"t": 70, "l": 50, "r": 20, "b": 50})
    figure.update_annotations(font_size=13)
    return figure


def _counted(bias: BiasName, strength: float, split: Split) -> float:
    rows = {row.split: row for row in planted_statistics(plan_corpus(bias, strength, CLIPS))}
    row = rows[split]
    return row.planted_share if row.association is None else row.association


def photograph(figure: go.Figure, picture: Path) -> None:
    """A figure as a picture, by way of a page in Chromium."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "figure.html"
        figure.write_html(page, include_plotlyjs=True, config={"displayModeBar": False})
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--virtual-time-budget=8000", f"--window-size={figure.layout.width + 16},{figure.layout.height + 16}",
             f"--screenshot={picture.resolve()}", page.as_uri()],
            check=True,
        )  # fmt: skip
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


def main(folder: Path) -> None:
    """Write `planted_<bias>.png` and `planted.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    for bias in BIASES:
        draw_strips(bias).quantize(COLOURS).save(folder / f"planted_{bias}.png", optimize=True)
    photograph(planted_figure(), folder / "planted.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
