"""Reads sheets: pictures of dark letters on white paper and nothing else, such as subtitles are rendered to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from evenreel.onscreen.reader import TextReader
from evenreel.onscreen.regions import CELL_PX
from evenreel.onscreen.settings import TextSettings
from evenreel.types import Frame, Pixels, Word

SCRIPTS = frozenset({"Latn", "Hans", "Hant", "Jpan"})
"""Scripts that the recogniser reads (ISO 15924)."""

_LINE_PX = 64
"""Height to which lines are scaled: the glance of the detector then finds them without a close look."""

_MARGIN_PX = 24
_MOST_SCALED = 4.0


class SheetReader:
    """Reader of sheets, whose models are loaded at the first one."""

    def __init__(self, threads: int = 1) -> None:
        self._settings = TextSettings(threads=threads, close_side_px=CELL_PX)
        self._reader: TextReader | None = None

    def can_read(self, language: str | None) -> bool:
        """Return whether a language (BCP 47) is written in a script that the recogniser reads; True if not known."""
        import langcodes

        script = None if language is None else langcodes.get(language).maximize().script
        return script is None or script in SCRIPTS

    def read(self, sheet: Pixels) -> tuple[str, float]:
        """Read a sheet, (H, W) grey; return its words in one line and their mean confidence, 0 to 1."""
        self._reader = self._reader or TextReader(self._settings)
        video = self._reader.new_video()
        video.add(Frame(0.0, _scaled(sheet, self._settings.max_side_px)))
        words = list(_in_reading_order(video.words))
        letters = sum(len(word.text) for word in words)
        sure = sum(word.confidence * len(word.text) for word in words)
        return " ".join(word.text for word in words), sure / letters if letters else 0.0


def _scaled(sheet: Pixels, max_side_px: int) -> Pixels:
    """A sheet with lines of `_LINE_PX` and a margin, as (H, W, 3)."""
    import cv2

    room = max_side_px - 2 * _MARGIN_PX
    scale = min(_LINE_PX / _line_px(sheet), _MOST_SCALED, room / max(sheet.shape))
    height, width = (max(1, round(side * scale)) for side in sheet.shape)
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    lines = np.asarray(cv2.resize(sheet, (width, height), interpolation=how), np.uint8)
    return np.repeat(np.pad(lines, _MARGIN_PX, constant_values=255)[..., None], 3, axis=2)


def _line_px(sheet: Pixels) -> float:
    """Height of the lines of a sheet, without those of dots and dashes."""
    written = np.pad((sheet < 128).any(axis=1), 1)
    heights = np.diff(np.flatnonzero(written[1:] != written[:-1]))[::2]
    return float(np.median(heights[3 * heights >= heights.max()])) if heights.size else float(len(sheet))


def _in_reading_order(words: Iterable[Word]) -> Iterator[Word]:
    """Words line by line, from left to right in each."""
    line: list[Word] = []
    for word in sorted(words, key=lambda one: one.box[1] + one.box[3]):
        if line and word.box[1] + word.box[3] > 2 * line[0].box[3]:
            yield from sorted(line, key=lambda one: one.box[0])
            line = []
        line.append(word)
    yield from sorted(line, key=lambda one: one.box[0])
