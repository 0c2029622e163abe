"""Subtitles in pictures as dark letters on white paper, whatever their colours, outlines and boxes are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.speech.palettes import Colours
from evenreel.types import Pixels

_LEAST_SEEN = 32
"""Opacity (0 to 255) of the most opaque pixel below which nobody sees a picture, as when it begins to fade in."""

_ONE_COLOUR = 60
"""Levels of brightness (0 to 255) within which a picture is of one colour, but for the softened edges of letters."""

_GAP_PX = 12
"""Rows without any letter that are left between two lines."""


@dataclass(frozen=True)
class Area:
    """One rectangle of a subtitle.

    Attributes:
        x, y: its place on the screen in pixels.
        indices: (H, W) number of the colour of each pixel.
        colours: brightness and opacity of each colour.
    """

    x: int
    y: int
    indices: Pixels
    colours: Colours


def rendered(areas: Sequence[Area]) -> Pixels | None:
    """Render the areas of a subtitle below one another, from the top of the screen to its bottom, as (H, W) grey.

    Letters are black on white: what is next to the transparent pixels is their outline or a box behind them, and is
    paper too. None where nothing can be seen.
    """
    sheets = [sheet for area in sorted(areas, key=lambda one: (one.y, one.x)) if (sheet := _sheet(area)) is not None]
    if not sheets:
        return None
    width = max(sheet.shape[1] for sheet in sheets)
    gap = np.full((_GAP_PX, width), 255, np.uint8)
    rows = [gap]
    for sheet in sheets:
        rows += [np.pad(sheet, ((0, 0), (0, width - sheet.shape[1])), constant_values=255), gap]
    return np.concatenate(rows)


def _sheet(area: Area) -> Pixels | None:
    opacity = area.colours[:, 1]
    used = np.bincount(area.indices.ravel(), minlength=256) > 0
    most = int(opacity[used].max(initial=0))
    if most < _LEAST_SEEN:
        return None
    seen = _within(opacity[area.indices] > 0.4 * most)
    indices = area.indices[seen]
    share = (opacity.astype(np.float32) / most).clip(0, 1)
    levels = area.colours[:, 0].astype(np.float32)
    paper, ink = _paper_and_ink(indices, levels, share)
    mixed = paper + (levels - paper) * share
    grey = 255 - ((mixed - paper) / (ink - paper)).clip(0, 1) * 255
    return _without_gaps(np.rint(grey).astype(np.uint8)[indices])


def _within(seen: NDArray[np.bool_]) -> tuple[slice, slice]:
    """The smallest rectangle around what is seen."""
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def _paper_and_ink(indices: Pixels, levels: NDArray[np.float32], share: NDArray[np.float32]) -> tuple[float, float]:
    """Brightness of what is to become white, and of what is to become black."""
    import cv2

    seen = share[indices] > 0.5
    inner = cv2.erode(seen.astype(np.uint8), np.ones((3, 3), np.uint8), borderValue=0) > 0
    bright = levels[indices]
    dark, light = (float(level) for level in np.percentile(bright[seen], (2, 98)))
    if light - dark < _ONE_COLOUR:
        return (0.0, max(light, 1.0)) if light + dark > 255 else (255.0, min(dark, 254.0))
    edge = float(np.median(bright[seen & ~inner]))
    return (dark, light) if edge - dark < light - edge else (light, dark)


def _without_gaps(sheet: Pixels) -> Pixels:
    """A sheet with at most `_GAP_PX` empty rows between two lines."""
    import cv2

    written = (sheet < 128).any(axis=1, keepdims=True).astype(np.uint8)
    near = cv2.dilate(written, np.ones((_GAP_PX + 1, 1), np.uint8))
    return np.asarray(sheet[near.ravel() > 0])
