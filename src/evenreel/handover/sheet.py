"""A contact sheet: one picture with a still of each stretch, its file's name and its times."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

from evenreel.wording import printable

COLUMNS = 4
STILL_PX = (320, 180)
MOST_STILLS = 400  # most stills of one sheet; at four a row it is some 24,000 pixels high then, and JPEG ends at 65,535
_GAP, _TEXT = 16, 44
_PAPER, _INK, _PALE, _DARK = "#ffffff", "#1b1d1f", "#5a6066", "#202326"


@dataclass(frozen=True)
class SheetCell:
    still: bytes | None  # a JPEG; None where there is none
    name: str  # first line below it
    times: str  # second line


def sheet_jpeg(cells: Sequence[SheetCell], title: str) -> bytes:
    """Draw stills with two lines below each, four a row, below a title; the first `MOST_STILLS` of them."""
    cells = cells[:MOST_STILLS]
    columns = min(COLUMNS, max(1, len(cells)))
    rows = -(-len(cells) // columns)
    width, height = _GAP + columns * (STILL_PX[0] + _GAP), 56 + rows * (STILL_PX[1] + _TEXT + _GAP)
    picture = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(picture)
    _write(draw, (_GAP, 16), printable(title), 20, width - 2 * _GAP)
    for place, cell in enumerate(cells):
        row, column = divmod(place, columns)
        left, top = _GAP + column * (STILL_PX[0] + _GAP), 56 + row * (STILL_PX[1] + _TEXT + _GAP)
        draw.rectangle((left, top, left + STILL_PX[0] - 1, top + STILL_PX[1] - 1), _DARK)
        _lay(picture, cell.still, left, top)
        _write(draw, (left, top + STILL_PX[1] + 4), printable(cell.name), 15, STILL_PX[0])
        _write(draw, (left, top + STILL_PX[1] + 23), cell.times, 13, STILL_PX[0], _PALE)
    made = io.BytesIO()
    picture.save(made, "JPEG", quality=88, optimize=True)
    return made.getvalue()


def _lay(picture: Image.Image, still: bytes | None, left: int, top: int) -> None:
    """Put a still into the middle of its place, whole."""
    if still is None:
        return
    with Image.open(io.BytesIO(still), formats=("JPEG",)) as opened:
        image = opened.convert("RGB")
    image.thumbnail(STILL_PX)
    picture.paste(image, (left + (STILL_PX[0] - image.width) // 2, top + (STILL_PX[1] - image.height) // 2))


def _write(draw: ImageDraw.ImageDraw, at: tuple[int, int], text: str, size: int, width: int, ink: str = _INK) -> None:
    """Write a line, with its middle left out where it is too long."""
    font = ImageFont.load_default(size)
    shown, kept = text, len(text)
    while draw.textlength(shown, font) > width and kept > 8:
        kept -= 4
        shown = f"{text[: kept * 2 // 3]}…{text[-(kept // 3) :]}"
    draw.text(at, shown, ink, font)
