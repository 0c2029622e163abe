"""The text in the picture at present, brought up to date from frame to frame with the least work.

A glance (the detector at a small size) runs over what changed since it was last looked at. Where it feels text
that no known sign explains, a close look (the detector at full size) finds the lines, and only lines that are
new or look different are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from evenreel.onscreen.engine import Detector, Recognizer
from evenreel.onscreen.regions import CELL_PX, Box, Mask, Rect, cells_of, rectangles, under, whole_cells
from evenreel.onscreen.settings import TextSettings
from evenreel.onscreen.signs import (
    SAME_LINE,
    Quad,
    TextLine,
    bounding_box,
    crop,
    explains,
    height_of,
    legible,
    look_of,
    share_inside,
    ways_to_read,
)
from evenreel.types import Pixels

# Parts of the glance's heat with fewer pixels come from texture: two letters have more.
_SPECKLE = 6


@dataclass(frozen=True)
class Models:
    """The detector and the recogniser, as protocols so that a test can count their calls."""

    detector: Detector
    recognizer: Recognizer


class SceneText:
    """The text in the current picture of a video, for pictures of one size.

    Attributes:
        shape: height and width of the pictures.
        signs: the lines shown in the last picture, also the doubtful ones, in reading order.
    """

    def __init__(self, shape: tuple[int, int], models: Models, settings: TextSettings) -> None:
        self.shape = shape
        self.signs: list[TextLine] = []
        self._models = models
        self._settings = settings
        self._close_shape = close_shape(shape, settings)
        self._glance_shape = _shrunk(self._close_shape, settings.glance_share)
        self._heat = np.zeros(self._glance_shape, np.float32)
        self._seen: Pixels | None = None

    def look(self, picture: Pixels) -> None:
        """Bring `signs` up to date with `picture`, (H, W, 3) RGB of the scene's shape."""
        glance = _resized(picture, self._glance_shape)
        areas = self._changed(glance)
        if not areas:
            return
        touched = self._glance_over(glance, areas)
        kept, lost = self._sort_out(picture, touched)
        found = self._large_lines(touched)
        if places := self._places(touched, kept, lost):
            found += self._close_look(picture, places)
        self.signs = self._with_new(picture, kept, found)

    def _changed(self, glance: Pixels) -> list[Rect]:
        """Rectangles of the glance around all that differs from when it was last looked at, with whole signs."""
        import cv2

        rows, columns = (side // CELL_PX for side in self._glance_shape)
        if self._seen is None:
            self._seen = glance.copy()
            return [Rect(0, 0, rows, columns)]
        patches = cv2.blur(cv2.absdiff(glance, self._seen), (3, 3)).max(axis=2)
        cells = cells_of(patches > self._settings.change_level, rows, columns)
        touched = np.zeros_like(cells)
        for area in rectangles(cells):
            touched[area.cells] = True
        for sign in self.signs:
            if touched[under(sign.box, cells.shape)].any():
                cells[under(sign.box, cells.shape)] = True
        return rectangles(cells)

    def _glance_over(self, glance: Pixels, areas: list[Rect]) -> Mask:
        """Renew the heat of the areas, and remember how they look. Returns the pixels that were looked at."""
        touched = np.zeros(self._glance_shape, np.bool_)
        for area in areas:
            self._heat[area.pixels] = self._models.detector.heat(glance[area.pixels])
            self._seen[area.pixels] = glance[area.pixels]  # type: ignore[index]
            touched[area.pixels] = True
        return touched

    def _sort_out(self, picture: Pixels, touched: Mask) -> tuple[list[TextLine], list[TextLine]]:
        """Known signs, apart: those still shown as they were read, and those in a changed area that are not."""
        kept: list[TextLine] = []
        lost: list[TextLine] = []
        for sign in self.signs:
            same = not touched[under(sign.box, self._glance_shape)].any() or sign.unchanged(
                picture, self._settings.same_look_level
            )
            (kept if same else lost).append(sign)
        return kept, lost

    def _large_lines(self, touched: Mask) -> list[Quad]:
        """Lines high enough in the glance to be taken from it, in pixels of the picture."""
        quads = self._models.detector.lines(np.where(touched, self._heat, 0))
        scale = np.divide(self.shape[::-1], self._glance_shape[::-1], dtype=np.float32)
        return [quad * scale for quad in quads if height_of(quad) >= self._settings.large_line_px]

    def _places(self, touched: Mask, kept: list[TextLine], lost: list[TextLine]) -> list[Rect]:
        """Rectangles of the close look: unexplained heat in changed areas, and where signs were lost."""
        hot = touched & (self._heat > self._settings.glance_level)
        hot = _small_lines(hot, self._settings.large_line_px)
        for sign in kept:
            hot[under(sign.box, self._glance_shape)] = False
        shrink = self._glance_shape[0] / self.shape[0]
        for sign in lost:
            if height_of(sign.quad) * shrink < self._settings.large_line_px:
                hot[under(sign.box, self._glance_shape)] = True
        rows, columns = (side // CELL_PX for side in self._close_shape)
        # Twice as much room sideways: a line runs on further than the glance felt it.
        return rectangles(cells_of(hot, rows, columns), margin=(1, 2))

    def _close_look(self, picture: Pixels, places: list[Rect]) -> list[Quad]:
        """Corners of the lines in the places, in pixels of the picture."""
        close = _resized(picture, self._close_shape)
        scale = np.divide(self.shape[::-1], self._close_shape[::-1], dtype=np.float32)
        found: list[Quad] = []
        for place in places:
            corner = np.array([place.left, place.top], np.float32) * CELL_PX
            heat = self._models.detector.heat(close[place.pixels])
            found += [quad for quad in (self._models.detector.lines(heat) + corner) * scale if legible(quad)]
        return found

    def _with_new(self, picture: Pixels, kept: list[TextLine], found: list[Quad]) -> list[TextLine]:
        """The kept signs and the newly read ones; a longer line takes the place of a kept part of it."""
        new: list[tuple[Quad, Box]] = []
        for quad in found:
            box = bounding_box(quad, self.shape)
            known = [sign.box for sign in kept] + [other for _, other in new]
            if not any(explains(other, box, self.shape) for other in known):
                new.append((quad, box))
        still = [sign for sign in kept if not any(share_inside(sign.box, box) > SAME_LINE for _, box in new)]
        read = self._read(picture, new) if new else []
        return sorted(still + read, key=lambda sign: (sign.box[1], sign.box[0]))

    def _read(self, picture: Pixels, lines: list[tuple[Quad, Box]]) -> list[TextLine]:
        crops = [crop(picture, quad) for quad, _ in lines]
        ways = [ways_to_read(line) for line in crops]
        readings = iter(self._models.recognizer.read([way for options in ways for way in options]))
        best = [max((next(readings) for _ in options), key=itemgetter(1)) for options in ways]
        return [
            TextLine(quad, box, text, confidence, look_of(line))
            for (quad, box), line, (text, confidence) in zip(lines, crops, best, strict=True)
        ]


def close_shape(shape: tuple[int, int], settings: TextSettings) -> tuple[int, int]:
    """Return height and width of a close look at a picture of `shape`, both multiples of `CELL_PX`."""
    scale = max(1.0, settings.close_side_px / min(shape))
    scale = min(scale, settings.max_side_px / max(shape))
    return _shrunk(shape, scale)


def _shrunk(shape: tuple[int, int], scale: float) -> tuple[int, int]:
    # Truncated before it is rounded, as RapidOCR does: the close look then has the very pixels that it would see.
    return whole_cells(int(shape[0] * scale)), whole_cells(int(shape[1] * scale))


def _resized(picture: Pixels, shape: tuple[int, int]) -> Pixels:
    import cv2

    shrinks = shape[0] < picture.shape[0]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, shape[::-1], interpolation=how), dtype=np.uint8)


def _small_lines(hot: Mask, large_px: int) -> Mask:
    """The connected parts of a mask that are more than speckles and hold no square of `large_px` a side."""
    import cv2

    pixels = hot.astype(np.uint8)
    _, parts, stats, _ = cv2.connectedComponentsWithStats(pixels, connectivity=8)
    small = stats[:, cv2.CC_STAT_AREA] >= _SPECKLE
    small[parts[cv2.erode(pixels, np.ones((large_px, large_px), np.uint8)) > 0]] = False
    small[0] = False  # the background
    return np.asarray(small[parts])
