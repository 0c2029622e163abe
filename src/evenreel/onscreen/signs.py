"""One line of text in the picture: where it is, what it says, and whether it still looks the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.onscreen.regions import Box
from evenreel.types import Pixels, Word

Quad = NDArray[np.float32]
"""(4, 2): the corners of one line as x, y in pixels: top left, top right, bottom right, bottom left."""

MIN_SIGN_PX = 4
"""Lines lower or narrower than this hold no legible text; RapidOCR drops them too."""

# Height and width at which looks are compared: a letter still covers several pixels.
_LOOK_SIZE = (24, 128)


@dataclass(frozen=True)
class Sign:
    """A line that was read: `look` is how its crop looked then, grey and small."""

    quad: Quad
    box: Box
    text: str
    confidence: float
    look: Pixels

    def word(self, time_s: float) -> Word:
        """The reading as it stands at `time_s`."""
        return Word(self.text, self.confidence, self.box, time_s)

    def unchanged(self, picture: Pixels, level: int) -> bool:
        """Whether `picture` still shows it: no 3 x 3 patch of its crop differs by more than `level`."""
        return difference(self.look, look_of(crop(picture, self.quad))) <= level


def crop(picture: Pixels, quad: Quad) -> Pixels:
    """The line as an upright rectangle; a line that runs downwards is turned to run to the right."""
    from rapidocr.utils.process_img import get_rotate_crop_image

    return np.asarray(get_rotate_crop_image(picture, quad.copy()), dtype=np.uint8)


def look_of(line: Pixels) -> Pixels:
    """A crop as a small grey picture, for comparison."""
    import cv2

    grey = cv2.cvtColor(np.ascontiguousarray(line), cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, _LOOK_SIZE[::-1], interpolation=cv2.INTER_AREA), dtype=np.uint8)


def difference(first: Pixels, second: Pixels) -> int:
    """Largest mean difference of a 3 x 3 patch, in grey levels: a changed digit counts, coding noise does not."""
    import cv2

    return int(cv2.blur(cv2.absdiff(first, second), (3, 3)).max())


def bounding_box(quad: Quad, width: int, height: int) -> Box:
    """x0, y0, x1, y1 as fractions of a picture of `width` x `height` pixels."""
    x0, y0 = quad.min(axis=0) / (width, height)
    x1, y1 = quad.max(axis=0) / (width, height)
    return tuple(min(max(float(value), 0.0), 1.0) for value in (x0, y0, x1, y1))  # type: ignore[return-value]


def legible(quad: Quad) -> bool:
    """Whether the line is at least `MIN_SIGN_PX` high and wide."""
    sides = np.linalg.norm(quad - np.roll(quad, 1, axis=0), axis=1)
    return bool(sides.min() >= MIN_SIGN_PX)


def share_inside(inner: Box, outer: Box) -> float:
    """Share of the area of `inner` that lies in `outer`."""
    width = min(inner[2], outer[2]) - max(inner[0], outer[0])
    height = min(inner[3], outer[3]) - max(inner[1], outer[1])
    area = (inner[2] - inner[0]) * (inner[3] - inner[1])
    return max(width, 0.0) * max(height, 0.0) / area if area > 0 else 0.0
