"""Words that every part of the program writes alike: text from outside made safe to show, and counts."""

from __future__ import annotations

import unicodedata

_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")
"""Letters of Persian words and the parts of an emoji are joined or kept apart by them; they steer nothing."""


def printable(path: str) -> str:
    r"""Return a path, or other text from outside, in a form that any terminal, JSON reader or page can take.

    Bytes that are not UTF-8 become escapes, and so do characters that could steer a terminal, turn the
    direction of writing or start a new line.

    >>> print(printable("tram\x1b[2J\n"))
    tram\x1b[2J\n
    """
    if path.isprintable():
        return path
    return "".join(
        character if is_printable(character) else character.encode("unicode_escape").decode() for character in path
    )


def is_printable(character: str) -> bool:
    """Check that a character can be shown as it is."""
    return character in _JOINERS or unicodedata.category(character) not in _UNPRINTABLE


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count(1, "file"), count(1234, "file")
    ('1 file', '1,234 files')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
