"""Reads sheets: pictures of dark letters on white paper and nothing else, such as subtitles are drawn as."""

from __future__ import annotations

import numpy as np

from evenreel.onscreen.engine import RapidRecognizer
from evenreel.onscreen.scene import READ_PX
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
    """Cut a sheet into its lines, (H, W, 3) each, where rows are empty; dots and accents stay with their letters."""
    import cv2

    written = np.pad((sheet < 128).any(axis=1), 1)
    edges = np.flatnonzero(written[1:] != written[:-1]).reshape(-1, 2).tolist()
    highest = max((end - start for start, end in edges), default=0)
    lines: list[list[int]] = []
    for start, end in edges:
        near = bool(lines) and 6 * (start - lines[-1][1]) <= highest
        if near and 3 * min(end - start, lines[-1][1] - lines[-1][0]) <= highest:
            lines[-1][1] = end
        else:
            lines.append([start, end])
    made = []
    for start, end in lines:
        columns = np.flatnonzero((sheet[start:end] < 128).any(axis=0))
        line = np.pad(sheet[start:end, columns[0] : columns[-1] + 1], max(2, highest // 6), constant_values=255)
        scale = READ_PX / len(line)
        how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
        line = cv2.resize(line, (max(1, round(line.shape[1] * scale)), READ_PX), interpolation=how)
        made.append(np.repeat(line[..., None], 3, axis=2))
    return made
