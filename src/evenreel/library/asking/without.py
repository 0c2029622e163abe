"""The language of 'A without B': a query that is moved away from what is not to be seen.

Models of pictures and captions hardly read 'no' and 'not' (Alhamoud et al., 'Vision-Language Models Do Not Understand
Negation', CVPR 2025), so what is not wanted is taken out of the sentence and its vector subtracted,

    q' = q(A) - 0.2 * q(B).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evenreel.errors import UsageError
from evenreel.library.asking.steps import QUOTED
from evenreel.library.search.query import UnfinishedText, readable, unit
from evenreel.types import FloatArray

SHARE = 0.2
"""Share of the vector of what is not wanted that is subtracted; chosen on planted clips (docs/asking.md)."""

RANKED_LOWER = "Clips that show {!r} stand lower and are not left out."

_WITHOUT = re.compile(rf"{QUOTED}|(?P<without>(?<=\s)without(?=\s))", re.IGNORECASE)
_ELSEWHERE = re.compile(r"\s*(said|on-screen|sounds)\s*:", re.IGNORECASE)


@dataclass(frozen=True)
class Without:
    """What is to be seen, and what is not.

    Attributes:
        text: what is to be seen, in the language of `evenreel.library.search.asked`.
        without: what is not to be seen.

    Raises:
        UsageError: one of the two is empty.
    """

    text: str
    without: str

    def __post_init__(self) -> None:
        if not readable(self.text) or not readable(self.without):
            raise UsageError("A search without something names both what is looked for and what is not; one is empty.")


def read_without(text: str) -> str | Without:
    """Read a query that may have a `without` between what is to be seen and what is not; one in quotes is text.

    Example:
        >>> read_without("a street without cars")
        Without(text='a street', without='cars')
        >>> read_without("said: not without my dog"), read_without("without a hat")
        ('said: not without my dog', 'without a hat')
    """
    found = [piece for piece in _WITHOUT.finditer(text) if piece["without"]]
    if len(found) != 1 or _ELSEWHERE.match(text):
        return text
    before, after = text[: found[0].start()].rstrip(" ,;\t\r\n"), text[found[0].end() :].strip()
    if not readable(before) or not readable(after) or (isinstance(text, UnfinishedText) and len(after) < 2):
        return text
    return Without(before, after)


def moved_away(query: FloatArray, unwanted: FloatArray) -> FloatArray:
    """Move a query (D,) away from what is not wanted (D,), both of unit length."""
    return unit(query - SHARE * unwanted)
