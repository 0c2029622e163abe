"""The language of 'A, then B': two queries, of which the second is to be answered after the first."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from evenreel.documents import brief
from evenreel.errors import UsageError
from evenreel.library.search.query import UnfinishedText, readable

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
        first: what is to be seen, read or heard first, in the language of `evenreel.library.search.asked`.
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
