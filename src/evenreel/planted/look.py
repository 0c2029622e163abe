"""The look of a clip: colour grading, blur and resolution, as by a camera, a generator or a domain."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image, ImageFilter

Gains = tuple[float, float, float]
LUMA = (0.2126, 0.7152, 0.0722)
"""Weights of red, green and blue in the brightness of a pixel (ITU-R BT.709)."""
MIDDLE = 127.5


@dataclass(frozen=True)
class Look:
    """Colour grading, blur and resolution of all pictures of a clip; the default changes nothing.

    Attributes:
        gains: factors on red, green and blue, for a tint.
        saturation: 0 is grey, 1 leaves the colours alone.
        contrast: factor on the distance from middle grey, applied after the tint.
        lift: number of 255 that is added to every channel after that, or one each for red, green and blue.
        blur: radius of the softening, in picture heights.
        resolution: share of the rows and columns that is kept before the picture is enlarged again.
    """

    gains: Gains = (1.0, 1.0, 1.0)
    saturation: float = 1.0
    contrast: float = 1.0
    lift: float | Gains = 0.0
    blur: float = 0.0
    resolution: float = 1.0


PLAIN = Look()


def apply_look(picture: Image.Image, look: Look) -> Image.Image:
    """Apply a look to a picture; the same picture is returned where the look changes nothing."""
    if look.resolution != 1:
        width, height = (max(1, round(side * look.resolution)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.BILINEAR).resize(
            picture.size, Image.Resampling.BILINEAR
        )
    if look.blur:
        picture = picture.filter(ImageFilter.GaussianBlur(look.blur * picture.height))
    matrix = colour_matrix(look)
    return picture if matrix == colour_matrix(PLAIN) else picture.convert("RGB", matrix)


def colour_matrix(look: Look) -> tuple[float, ...]:
    """Return a look's colour grading as a matrix (3, 4), row by row, that maps (red, green, blue, 1) to graded colours.

    >>> colour_matrix(Look())
    (1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    >>> colour_matrix(Look(contrast=0.5))[:4]
    (0.5, 0.0, 0.0, 63.75)
    """
    lifts = look.lift if isinstance(look.lift, tuple) else (look.lift,) * 3
    numbers: list[float] = []
    for row, (gain, lift) in enumerate(zip(look.gains, lifts, strict=True)):
        mixed = (
            (1 - look.saturation) * weight + (look.saturation if column == row else 0.0)
            for column, weight in enumerate(LUMA)
        )
        numbers += [look.contrast * gain * value for value in mixed]
        numbers.append(MIDDLE * (1 - look.contrast) + lift)
    return tuple(numbers)
