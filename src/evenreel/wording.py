"""Words that every part of the program writes alike: counts, times, lists of files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evenreel.files import printable

_TIME = re.compile(r"(?:(?:(\d{1,3}):)?(\d{1,3}):)?(\d{1,7}(?:\.\d{1,9})?)", re.ASCII)


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count(1, "file"), count(1234, "file")
    ('1 file', '1,234 files')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def other_files(suffixes: Mapping[str, int]) -> str:
    """Say how many files are no videos by their suffixes, and which are the most common of these.

    >>> other_files({".jpg": 3, "": 1}), other_files({".txt": 1})
    ('4 other files (.jpg)', '1 other file (.txt)')
    """
    named = sorted(filter(None, suffixes), key=lambda suffix: (-suffixes[suffix], suffix))
    said = f"{', '.join(map(printable, named[:8]))}{', …' * (len(named) > 8)}"
    return count(sum(suffixes.values()), "other file") + (f" ({said})" if said else "")


def duration(seconds: float) -> str:
    """Return a duration in words, in the unit that fits it.

    >>> duration(0.4), duration(59), duration(3000), duration(8.4 * 3600), duration(4 * 86400)
    ('1 s', '59 s', '50 min', '8.4 h', '4 days')
    """
    for unit, length_s in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= (2 if unit == "days" else 1) * length_s - 0.5:
            number = seconds / length_s
            return f"{number:.1f} {unit}".replace(".0 ", " ") if unit == "h" and number < 10 else f"{number:.0f} {unit}"
    return f"{max(1, round(seconds))} s"


def seconds_of(text: str) -> float | None:
    """Return the seconds that a time says, `75.5`, `1:15.5` or `1:02:03`; None for anything else.

    >>> seconds_of("62.5"), seconds_of(" 1:02.5"), seconds_of("1:00:00"), seconds_of("a:10")
    (62.5, 62.5, 3600.0, None)
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return 3600 * hours + 60 * minutes + seconds


def other_separator(names: Sequence[str]) -> str:
    r"""Name the likely separator of a table read as one column, by the names of its columns, and say what to do.

    >>> other_separator(["clip_id;text"])
    'its values seem to be separated by semicolons; save it with commas'
    >>> other_separator(["clip_id\ttext"]), other_separator(["clip_id", "text"])
    ('its values seem to be separated by tabs; name it .tsv', '')
    """
    ways = {
        ";": "semicolons; save it with commas",
        "\t": "tabs; name it .tsv",
        "|": "vertical bars; save it with commas",
        ",": "commas; name it .csv",
    }
    found = [way for sign, way in ways.items() if len(names) == 1 and sign in names[0]]
    return f"its values seem to be separated by {found[0]}" if found else ""
