"""Functions that paint the things in a background, one for each kind of thing.

Each takes a canvas, the point (x, y) on which the thing stands, its height in pixels, and its colour.
"""

from __future__ import annotations

from collections.abc import Callable

from PIL.ImageDraw import ImageDraw

from evenreel.planted.vocabulary import Colour

Painter = Callable[[ImageDraw, tuple[float, float], float, Colour], None]


def _lighter(colour: Colour, by: int) -> Colour:
    red, green, blue = (min(255, max(0, part + by)) for part in colour)
    return red, green, blue


def _ellipse(draw: ImageDraw, centre: tuple[float, float], radii: tuple[float, float], colour: Colour) -> None:
    (x, y), (rx, ry) = centre, radii
    draw.ellipse((x - rx, y - ry, x + rx, y + ry), fill=colour)


def _pine(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    draw.rectangle((x - size * 0.03, y - size * 0.2, x + size * 0.03, y), fill=(84, 58, 40))
    for level in range(3):
        top, bottom, half = (
            y - size * (1 - 0.25 * level),
            y - size * (0.55 - 0.2 * level),
            size * (0.13 + 0.05 * level),
        )
        draw.polygon([(x, top), (x - half, bottom), (x + half, bottom)], fill=_lighter(colour, 6 * level))


def _palm(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    top = (x + size * 0.12, y - size * 0.8)
    draw.line([foot, (x + size * 0.03, y - size * 0.45), top], fill=(132, 96, 58), width=int(size * 0.06) + 1)
    for dx, dy in ((-0.34, 0.1), (-0.26, -0.14), (0.02, -0.2), (0.26, -0.12), (0.34, 0.12)):
        bend = (top[0] + size * dx * 0.6, top[1] + size * (dy - 0.1))
        draw.line([top, bend, (top[0] + size * dx, top[1] + size * dy)], fill=colour, width=int(size * 0.07) + 1)


def _dune(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    _ellipse(draw, (foot[0], foot[1] + size * 0.1), (size, size * 0.2), colour)


def _cactus(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    width = int(size * 0.16) + 1
    draw.line([(x, y), (x, y - size)], fill=colour, width=width)
    for side, low in ((-1, 0.35), (1, 0.5)):
        elbow = x + side * size * 0.3
        draw.line(
            [(x, y - size * low), (elbow, y - size * low), (elbow, y - size * (low + 0.3))],
            fill=colour,
            width=width,
        )


def _peak(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    half = size * 0.75
    draw.polygon([(x, y - size), (x - half, y), (x + half, y)], fill=colour)
    draw.polygon([(x, y - size), (x + half * 0.25, y), (x + half, y)], fill=_lighter(colour, -18))
    cap, low = half * 0.34, y - size * 0.66
    snow = [
        (x, y - size),
        (x - cap, low),
        (x - cap * 0.4, low - size * 0.06),
        (x, low),
        (x + cap * 0.5, low - size * 0.05),
    ]
    draw.polygon([*snow, (x + cap, low)], fill=(248, 250, 254))


def _tower(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    half = size * 0.16
    draw.rectangle((x - half, y - size, x + half, y), fill=colour)
    pane = half * 0.24
    for row in range(1, 9):
        for column in (-0.6, 0.0, 0.6):
            if (row * 7 + int(column * 5) + int(x)) % 3:
                left, top = x + half * column - pane / 2, y - size + row * size * 0.105
                draw.rectangle((left, top, left + pane, top + size * 0.05), fill=(250, 214, 120))


def _cloud(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    for dx, dy, r in ((-0.7, 0.0, 0.4), (0.0, -0.14, 0.55), (0.7, 0.0, 0.42)):
        _ellipse(draw, (x + size * dx, y + size * dy), (size * r, size * r * 0.66), colour)


def _flower(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    draw.line([(x, y), (x, y + size)], fill=(58, 118, 42), width=max(1, int(size * 0.3)))
    _ellipse(draw, foot, (size * 0.5, size * 0.5), colour)


def _wave(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    draw.arc(
        (x - size, y - size * 0.15, x + size, y + size * 0.15),
        200,
        340,
        fill=colour,
        width=max(1, int(size * 0.06)),
    )


def _band(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    far = 100 * size
    draw.rectangle((foot[0] - far, foot[1], foot[0] + far, foot[1] + size), fill=colour)


def _plank(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    far = 1000 * size
    draw.line([(foot[0] - far, foot[1]), (foot[0] + far, foot[1])], fill=colour, width=max(1, int(size * 0.4)))


def _bubble(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    draw.ellipse((x - size, y - size, x + size, y + size), outline=colour, width=max(1, int(size * 0.3)))


def _weed(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    bends = [(x + size * 0.07 * (-1) ** step, y - size * step / 6) for step in range(7)]
    draw.line(bends, fill=colour, width=int(size * 0.08) + 1, joint="curve")


def _picture(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    half = size * 0.65
    draw.rectangle((x - half, y - size / 2, x + half, y + size / 2), fill=(92, 62, 40))
    edge = size * 0.08
    draw.rectangle((x - half + edge, y - size / 2 + edge, x + half - edge, y + size / 2 - edge), fill=colour)


def _lamp(draw: ImageDraw, foot: tuple[float, float], size: float, colour: Colour) -> None:
    x, y = foot
    draw.rectangle((x - size * 0.015, y - size * 0.7, x + size * 0.015, y), fill=(70, 58, 50))
    draw.rectangle((x - size * 0.12, y - size * 0.02, x + size * 0.12, y), fill=(70, 58, 50))
    top, bottom = y - size, y - size * 0.68
    draw.polygon(
        [(x - size * 0.1, top), (x + size * 0.1, top), (x + size * 0.2, bottom), (x - size * 0.2, bottom)],
        fill=colour,
    )


PAINTERS: dict[str, Painter] = {
    "band": _band,
    "bubble": _bubble,
    "cactus": _cactus,
    "cloud": _cloud,
    "dune": _dune,
    "flower": _flower,
    "lamp": _lamp,
    "palm": _palm,
    "peak": _peak,
    "picture": _picture,
    "pine": _pine,
    "plank": _plank,
    "tower": _tower,
    "wave": _wave,
    "weed": _weed,
}
"""Kind of a thing, as the backgrounds' data file names it -> its painter."""
