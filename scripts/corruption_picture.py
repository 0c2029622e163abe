"""Draw the picture of docs/corruptions.md: a frame of a rendered clip in twelve corruptions at three strengths.

python -m scripts.corruption_picture docs/pictures/corruptions.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from evenreel.edits.corruptions import CORRUPTIONS, Original, subject_of
from evenreel.planted import plan_corpus
from evenreel.planted.draw import draw_clip
from evenreel.types import Pixels

STRENGTHS, COLUMNS, PLACE = (1, 3, 5), 4, 0.4
FRAME_PX, GAP_PX, TEXT_PX = (100, 75), 3, 18
OWN, OTHER, SEED, COLOURS = 1, 5, 4, 256
INK, PAPER = (34, 34, 34), (255, 255, 255)
OF_TIME = ("insertion", "scrambling")
"""Kinds that leave single frames as they are; of these the clip is shown from its beginning to its end."""


def main(place: Path) -> None:
    """Draw all kinds, four a row; of each the frame as it is, then at each strength."""
    clips = plan_corpus("source", 0.0, 40, SEED).clips
    frames, lent = (np.stack(list(draw_clip(clips[number].scene))) for number in (OWN, OTHER))
    original = Original(frames, subject_of(frames), lent, lent, clips[OWN].scene.fps)
    strips = [_strip(kind, original) for kind in CORRUPTIONS]
    width, height = strips[0].size
    size = COLUMNS * (width + 4 * GAP_PX) - 4 * GAP_PX, -(-len(strips) // COLUMNS) * (height + 2 * GAP_PX)
    picture = Image.new("RGB", size, PAPER)
    for number, strip in enumerate(strips):
        row, column = divmod(number, COLUMNS)
        picture.paste(strip, (column * (width + 4 * GAP_PX), row * (height + 2 * GAP_PX)))
    picture.quantize(COLOURS).save(place, optimize=True)


def _strip(kind: str, original: Original) -> Image.Image:
    width, height = FRAME_PX
    picture = Image.new("RGB", (len(STRENGTHS) * (width + GAP_PX) - GAP_PX, height + TEXT_PX), PAPER)
    words = f"{kind}, in time, at strength 5" if kind in OF_TIME else kind
    ImageDraw.Draw(picture).text((0, 2), words, fill=INK, font=ImageFont.load_default(12))
    for number, frame in enumerate(_shown(kind, original)):
        small = Image.fromarray(frame).resize(FRAME_PX, Image.Resampling.LANCZOS)
        picture.paste(small, (number * (width + GAP_PX), TEXT_PX))
    return picture


def _shown(kind: str, original: Original) -> list[Pixels]:
    if kind in OF_TIME:
        changed = CORRUPTIONS[kind](original, 5, np.random.default_rng(SEED))
        return [changed[int((step + 0.5) / len(STRENGTHS) * len(changed))] for step in range(len(STRENGTHS))]
    at = int(PLACE * len(original.frames))
    return [CORRUPTIONS[kind](original, one, np.random.default_rng(SEED))[at] for one in STRENGTHS]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
