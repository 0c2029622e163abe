"""One line of text in the picture: its place, its words, and whether it still looks the same."""

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

READ_PX = 48
"""Height in pixels at which the recogniser reads a line."""

SAME_LINE = 0.6
"""Share of its area by which a box that lies in another one is the same line, or a part of it."""

# Height over width: between these a crop may be a word that runs downwards, or a slim one such as '11'.
_MAY_RUN_DOWN, _RUNS_DOWN = 1.2, 2.5

# Height and width at which looks are compared: a letter still covers several pixels.
_LOOK_SIZE = (24, 128)


@dataclass(frozen=True)
class TextLine:
    """A line of text that was read; `look` is its crop at that time, grey and small."""

    quad: Quad
    box: Box
    text: str
    confidence: float
    look: Pixels

    def word(self, time_s: float) -> Word:
        """Return the reading as a `Word` at `time_s`."""
        return Word(self.text, self.confidence, self.box, time_s)

    def unchanged(self, picture: Pixels, level: int) -> bool:
        """Return whether `picture` still shows the line: no 3 x 3 patch of its crop differs by more than `level`."""
        return difference(self.look, look_of(crop(picture, self.quad))) <= level


def crop(picture: Pixels, quad: Quad) -> Pixels:
    """Cut out a line as an upright rectangle with a shorter side of at least `READ_PX`.

    Small lines are enlarged while they are straightened, with bicubic weights. Cropped first and enlarged by the
    recognizer, bilinearly, they are misread more often (HYUNDRI for HYUNDAI at a height of 10 pixels).
    """
    import cv2

    width, height = sides(quad)
    scale = max(1.0, READ_PX / max(min(width, height), 1.0))
    size = max(1, int(width * scale)), max(1, int(height * scale))
    target = np.array([[0, 0], [size[0], 0], size, [0, size[1]]], np.float32)
    straighten = cv2.getPerspectiveTransform(quad, target)
    how = cv2.INTER_CUBIC
    line = cv2.warpPerspective(picture, straighten, size, borderMode=cv2.BORDER_REPLICATE, flags=how)
    return np.asarray(line, dtype=np.uint8)


def ways_to_read(line: Pixels) -> list[Pixels]:
    """Return a crop in each orientation to read it in: turned where it runs downwards, both ways where in doubt."""
    slimness = line.shape[0] / line.shape[1]
    turned = np.ascontiguousarray(np.rot90(line))
    if slimness >= _RUNS_DOWN:
        return [turned]
    return [line] if slimness < _MAY_RUN_DOWN else [line, turned]


def look_of(line: Pixels) -> Pixels:
    """Shrink a crop to a small grey picture, for comparison."""
    import cv2

    grey = cv2.cvtColor(np.ascontiguousarray(line), cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, _LOOK_SIZE[::-1], interpolation=cv2.INTER_AREA), dtype=np.uint8)


def difference(first: Pixels, second: Pixels) -> int:
    """Return the largest mean difference of a 3 x 3 patch, in grey levels: sees a changed digit, not coding noise."""
    import cv2

    return int(cv2.blur(cv2.absdiff(first, second), (3, 3)).max())


def bounding_box(quad: Quad, shape: tuple[int, int]) -> Box:
    """Return x0, y0, x1, y1 as fractions of a picture of `shape` (height, width)."""
    corners = np.clip(quad / np.array(shape[::-1], np.float32), 0, 1)
    (x0, y0), (x1, y1) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
    return x0, y0, x1, y1


def sides(quad: Quad) -> tuple[float, float]:
    """Return width and height of a line, in its pixels."""
    edges = np.linalg.norm(quad - np.roll(quad, -1, axis=0), axis=1).tolist()
    return max(edges[0], edges[2]), max(edges[1], edges[3])


def height_of(quad: Quad) -> float:
    """Return the shorter side of a line, in its pixels."""
    return min(sides(quad))


def legible(quad: Quad) -> bool:
    """Return whether a line is at least `MIN_SIGN_PX` high and wide."""
    return height_of(quad) >= MIN_SIGN_PX


def share_inside(inner: Box, outer: Box) -> float:
    """Return the share of the area of `inner` that lies in `outer`."""
    width = min(inner[2], outer[2]) - max(inner[0], outer[0])
    height = min(inner[3], outer[3]) - max(inner[1], outer[1])
    area = (inner[2] - inner[0]) * (inner[3] - inner[1])
    return max(width, 0.0) * max(height, 0.0) / area if area > 0 else 0.0


def explains(known: Box, line: Box, shape: tuple[int, int]) -> bool:
    """Return whether a known sign is the found line: covers most of it and lacks no letter at either end."""
    height, width = shape
    sideways = max(known[0] - line[0], line[2] - known[2]) * width
    upwards = max(known[1] - line[1], line[3] - known[3]) * height
    letter = min((line[2] - line[0]) * width, (line[3] - line[1]) * height)
    return share_inside(line, known) > SAME_LINE and max(sideways, upwards) <= letter
