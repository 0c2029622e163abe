"""Masks over a picture's cells, and the rectangles in which a detector is run instead of the whole picture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CELL_PX = 32
"""The detector halves its input five times: every side that it takes is a multiple of this."""

# Above this share of the picture one pass over all of it is cheaper than many with their margins.
_WHOLE_SHARE = 0.6

Mask = NDArray[np.bool_]
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Rect:
    """A rectangle of cells: rows top to bottom, columns left to right, the ends excluded."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def cells(self) -> tuple[slice, slice]:
        """Return the index of the rectangle in a mask."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    @property
    def pixels(self) -> tuple[slice, slice]:
        """Return the index of the rectangle in a picture whose cells have `CELL_PX` pixels a side."""
        return (
            slice(self.top * CELL_PX, self.bottom * CELL_PX),
            slice(self.left * CELL_PX, self.right * CELL_PX),
        )


def whole_cells(side_px: float) -> int:
    """Round `side_px` to a multiple of `CELL_PX`, at least one."""
    return max(1, round(side_px / CELL_PX)) * CELL_PX


def cells_of(mask: Mask, rows: int, columns: int) -> Mask:
    """Reduce a mask of (H, W) pixels to (rows, columns) cells, True where any pixel of the cell is True."""
    import cv2

    shares = cv2.resize(mask.astype(np.float32), (columns, rows), interpolation=cv2.INTER_AREA)
    return np.asarray(shares > 0)


def under(box: Box, shape: tuple[int, int]) -> tuple[slice, slice]:
    """Return the index of the part of an array of `shape` under a box (fractions of the picture), never empty."""
    x0, y0, x1, y1 = box
    return _span(y0, y1, shape[0]), _span(x0, x1, shape[1])


def rectangles(mask: Mask, margin: tuple[int, int] = (1, 1)) -> list[Rect]:
    """Cover every True cell by disjoint rectangles with `margin` (rows, columns) of cells around it."""
    import cv2

    kernel = np.ones((2 * margin[0] + 1, 2 * margin[1] + 1), np.uint8)
    covered = cv2.dilate(mask.astype(np.uint8), kernel) > 0
    while True:
        rects = _bounds(covered)
        painted = np.zeros_like(covered)
        for rect in rects:
            painted[rect.cells] = True
        if painted.mean() > _WHOLE_SHARE:
            return [Rect(0, 0, *mask.shape)]
        if np.array_equal(painted, covered):
            return rects
        covered = painted


def _bounds(mask: Mask) -> list[Rect]:
    """The bounding rectangle of each connected part."""
    import cv2

    _, _, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    return [Rect(y, x, y + h, x + w) for x, y, w, h, _ in stats[1:].tolist()]


def _span(start: float, end: float, length: int) -> slice:
    first = min(int(start * length), length - 1)
    return slice(first, max(math.ceil(end * length), first + 1))
