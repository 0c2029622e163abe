"""Names of files that are taken away: ones that every system takes, and none twice."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path, PurePath

from evenreel.wording import printable

LONGEST = 120
"""Most bytes of a name without its suffix; systems take 255 with it."""

_FORBIDDEN = re.compile(r'[\\/:*?"<>|\x00-\x1f]')
_OF_WINDOWS = re.compile(r"(?i)con|prn|aux|nul|com\d|lpt\d")


def file_stem(name: str, fallback: str = "clip") -> str:
    r"""Make a name that every system takes of any text: no separators, no marks of Windows, not too long.

    >>> file_stem("a/b: what?"), file_stem("..\x1b"), file_stem("CON"), file_stem("東京.")
    ('a_b_ what_', '_x1b', '_CON', '東京')
    """
    stem = _FORBIDDEN.sub("_", printable(name)).strip(" .")
    stem = stem.encode("utf-8", "replace")[:LONGEST].decode("utf-8", "ignore").rstrip(" .")
    if _OF_WINDOWS.fullmatch(stem.partition(".")[0]):
        stem = f"_{stem}"
    return stem or fallback


def stretch_stem(name: str, start_s: Fraction, end_s: Fraction) -> str:
    """Make a name for a stretch of a file.

    >>> stretch_stem("tram.mp4", Fraction(3723.5), Fraction(3725))
    'tram 01.02.03.500-01.02.05.000'
    """
    return f"{file_stem(PurePath(name).stem)} {_clock(start_s)}-{_clock(end_s)}"


def _clock(time_s: Fraction) -> str:
    minutes, rest = divmod(round(time_s * 1000), 60_000)
    return f"{minutes // 60:02}.{minutes % 60:02}.{rest // 1000:02}.{rest % 1000:03}"


def free_path(folder: Path, stem: str, suffix: str) -> Path:
    """Return a path in a folder where nothing is yet, numbered where the name is taken; case makes no difference."""
    here = {path.name.casefold() for path in folder.iterdir()} if folder.is_dir() else set()
    number = 1
    while True:
        name = f"{stem}{suffix}" if number == 1 else f"{stem} ({number}){suffix}"
        if name.casefold() not in here:
            return folder / name
        number += 1
