"""A contact sheet: the people of a library with some of their faces, or all faces of one, as a picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.errors import OutputError
from evenreel.library.people.listing import Person, best_crops, find_person
from evenreel.library.people.store import people_store

if TYPE_CHECKING:
    from PIL.Image import Image

FACES_EACH = 8
MOST_FACES = 400
MOST_PEOPLE = 200

_SIDE_PX, _GAP_PX, _LINE_PX = 112, 8, 22
_PAPER, _INK = (250, 250, 250), (20, 20, 20)


def write_sheet(library: Path, people: Sequence[Person], path: Path) -> None:
    """Write a picture of people with their surest faces, a line each: number, name, counts."""
    with people_store(library) as connection:
        rows = [
            (
                f"{one.number}  {one.name or ''}  {one.faces} faces, {one.clips} clips",
                best_crops(connection, one.number, FACES_EACH),
            )
            for one in people[:MOST_PEOPLE]
        ]
    _write(_drawn(rows), path)


def write_faces(library: Path, who: str, path: Path) -> None:
    """Write a picture of the faces of one person with their numbers, the surest `MOST_FACES`."""
    with people_store(library) as connection:
        one = find_person(connection, who)
        crops = best_crops(connection, one.number, MOST_FACES)
    lines = [crops[start : start + FACES_EACH] for start in range(0, len(crops), FACES_EACH)]
    _write(_drawn([(one.label if place == 0 else "", line) for place, line in enumerate(lines)]), path)


def _drawn(rows: Sequence[tuple[str, list[tuple[int, bytes]]]]) -> Image:
    from PIL import Image, ImageDraw

    width = FACES_EACH * (_SIDE_PX + _GAP_PX) + _GAP_PX
    height = len(rows) * (_SIDE_PX + 2 * _LINE_PX + _GAP_PX) + _GAP_PX
    sheet = Image.new("RGB", (width, height), _PAPER)
    draw, top = ImageDraw.Draw(sheet), _GAP_PX
    for title, crops in rows:
        draw.text((_GAP_PX, top), title, _INK, font_size=16)
        for place, (number, jpeg) in enumerate(crops):
            left = _GAP_PX + place * (_SIDE_PX + _GAP_PX)
            sheet.paste(Image.open(io.BytesIO(jpeg)).resize((_SIDE_PX, _SIDE_PX)), (left, top + _LINE_PX))
            draw.text((left, top + _LINE_PX + _SIDE_PX), str(number), _INK, font_size=12)
        top += _SIDE_PX + 2 * _LINE_PX + _GAP_PX
    return sheet


def _write(sheet: Image, path: Path) -> None:
    try:
        sheet.save(path)
    except (OSError, ValueError) as error:  # the latter for an ending that no format has
        raise OutputError(f"{path} cannot be written ({error}); name a file such as people.jpg.") from error
