"""The languages of 'A, then B', of which B is to be answered after A, and of 'A without B', moved away from B.

Models of pictures and captions hardly read 'no' and 'not' (Alhamoud et al., 'Vision-Language Models Do Not Understand
Negation', CVPR 2025), so what is not wanted is taken out of the sentence and its vector subtracted,

    q' = q(A) - 0.2 * q(B).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from evenreel.documents import brief
from evenreel.errors import UsageError
from evenreel.library.search.query import UnfinishedText, readable, unit
from evenreel.types import FloatArray

WITHIN_S = 30.0
"""Most seconds between a moment and the one after it, where nothing else is said."""
MOST_WITHIN_S = 1e6

QUOTED = r'["“”„][^"“”„]*["“”„]'
"""Pattern of a stretch of text in quotes."""
_THEN = r"(?:^|(?<=[\s,;]))then(?=[\s,;]|$)"
_PIECES = re.compile(rf"{QUOTED}|(?P<then>{_THEN})", re.IGNORECASE)
_JOINED = re.compile(r"(?:^|[\s,;]+)(?:and)?[\s,;]*$", re.IGNORECASE)


@dataclass(frozen=True)
class Then:
    """Two queries, the second of which is to be answered by a later moment of the same clip.

    Attributes:
        first: what is to be seen, read or heard first, in the language of `evenreel.library.search.query`.
        second: what comes after it.
        within_s: most seconds from a moment of the first to one of the second.

    Raises:
        UsageError: one of the two is empty, or the gap is not above 0 and at most `MOST_WITHIN_S`.
    """

    first: str
    second: str
    within_s: float = WITHIN_S

    def __post_init__(self) -> None:
        if not readable(self.first):
            raise UsageError(
                "Nothing stands before 'then'; write what comes first, or put words that are to be found as they are "
                "in quotes."
            )
        if not readable(self.second):
            raise UsageError(
                "Nothing stands after 'then'; write what comes later, or put words that are to be found as they are "
                "in quotes."
            )
        check_within(self.within_s)


def check_within(within_s: float) -> None:
    """Refuse a gap that nothing can lie in."""
    if not (0 < within_s <= MOST_WITHIN_S) or math.isnan(within_s):
        raise UsageError(
            f"The second moment is to come within {brief(within_s)} s of the first; give seconds above 0, up to "
            f"{MOST_WITHIN_S:,.0f}."
        )


def read_steps(text: str, within_s: float = WITHIN_S) -> str | Then:
    """Read a query that may have a `then` between two others; one in quotes is a word like any other.

    Example:
        >>> read_steps("a red bus, and then a dog")
        Then(first='a red bus', second='a dog', within_s=30.0)
        >>> read_steps('"now then" on a sign')
        '"now then" on a sign'
    """
    found = [piece for piece in _PIECES.finditer(text) if piece["then"]]
    if not found:
        return text
    if len(found) > 1:
        raise UsageError(
            f"The query has 'then' {len(found)} times; it can have it once, between two moments. Words that are to be "
            "found as they are stand in quotes."
        )
    first = _JOINED.sub("", text[: found[0].start()], count=1).lstrip()
    second = text[found[0].end() :].lstrip(" \t\r\n,;")
    typing = isinstance(text, UnfinishedText)
    if typing and not (first and second.strip()):
        return first or text
    return (
        replace(Then(first, second, within_s), second=UnfinishedText(second))
        if typing
        else Then(first, second, within_s)
    )


SHARE = 0.2
"""Share of the vector of what is not wanted that is subtracted; chosen on planted clips (docs/asking.md)."""

RANKED_LOWER = "Clips that show {!r} stand lower and are not left out."

_WITHOUT = re.compile(rf"{QUOTED}|(?P<without>(?<=\s)without(?=\s))", re.IGNORECASE)
_ELSEWHERE = re.compile(r"\s*(said|on-screen|sounds)\s*:", re.IGNORECASE)


@dataclass(frozen=True)
class Without:
    """What is to be seen, and what is not.

    Attributes:
        text: what is to be seen, in the language of `evenreel.library.search.query`.
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
