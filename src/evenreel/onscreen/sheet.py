"""Reads sheets: pictures of dark letters on white paper and nothing else, such as subtitles are drawn as."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenreel.onscreen.engine import RapidRecognizer
from evenreel.onscreen.scene import MIN_SIGN_PX, READ_PX
from evenreel.types import Pixels

_READ_SCRIPTS = frozenset({"Latn", "Hans", "Hant", "Jpan"})
# Languages that are usually written in others.
_IN_OTHERS = """
ab ae am apc ar ary arz as av ba bal be bg bho bn bo ce chr ckb cr cu cv dv dz el fa gu he hi hy ii iu ka kk km kn ko
ks kv ky lo mai mk ml mn mni mr my ne new or os pa ps ru sa sat sd si sr syc ta te tg th ti tt ug uk ur yi
"""


class SheetReader:
    """Reader of sheets, whose model is loaded at the first one."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._recognizer: RapidRecognizer | None = None

    def can_read(self, language: str | None) -> bool:
        """Return whether a language (BCP 47) is written in a script that the recogniser reads; True if not known."""
        known, *more = (language or "").split("-")
        script = next((part for part in more if len(part) == 4), None)
        return script in _READ_SCRIPTS if script else known not in _IN_OTHERS.split()

    def read(self, sheet: Pixels) -> tuple[str, float]:
        """Read a sheet, (H, W) grey; return its words in one line and their mean confidence, 0 to 1."""
        self._recognizer = self._recognizer or RapidRecognizer(self._threads)
        read = self._recognizer.read(lines_of(sheet))
        letters = sum(len(text) for text, _ in read)
        sure = sum(confidence * len(text) for text, confidence in read)
        return " ".join(text for text, _ in read if text), sure / letters if letters else 0.0


def lines_of(sheet: Pixels) -> list[Pixels]:
    """Cut a sheet into its lines, and these where words are far apart: (H, W, 3) at the height that is read."""
    import cv2

    rows = _runs(np.any(sheet < 128, axis=1), 0)
    highest = max((end - start for start, end in rows), default=0)
    made = []
    for start, end in rows:
        if 3 * (end - start) < highest:  # dots and accents that stand above all letters of their line
            continue
        for left, right in _runs(np.any(sheet[start:end] < 128, axis=0), 3 * highest):
            if min(end - start, right - left) >= MIN_SIGN_PX:
                line = np.pad(sheet[start:end, left:right], max(2, highest // 6), constant_values=255)
                size = max(1, round(line.shape[1] * READ_PX / len(line))), READ_PX
                how = cv2.INTER_AREA if len(line) > READ_PX else cv2.INTER_CUBIC
                scaled = np.asarray(cv2.resize(line, size, interpolation=how), np.uint8)
                made.append(np.repeat(scaled[..., None], 3, axis=2))
    return made


def _runs(written: NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """Starts and ends of what is written, where no more than a gap is left empty."""
    runs: list[tuple[int, int]] = []
    for place in np.flatnonzero(written).tolist():
        start = runs.pop()[0] if runs and place - runs[-1][1] <= gap else place
        runs.append((start, place + 1))
    return runs
