"""The language of queries: which channels a query asks, and whether its words are to be found as they stand.

A query is a sentence, asked of every channel. In quotes (`"mind the gap"`) it is words alone: they are found side by
side, as they are written, on screen, in what is said, and in names and captions; no picture or sound answers. A word
before it chooses a channel: `said:`, `on-screen:`, `seen:`, `sounds:`; what follows the first two may be in quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evenreel.errors import UsageError
from evenreel.language.folding import words
from evenreel.library.search.hits import Channel

EVERY: frozenset[Channel] = frozenset({"seen", "on_screen", "said", "about", "sounds"})
WRITTEN = EVERY - {"seen", "sounds"}
PREFIXES: dict[str, Channel] = {"said": "said", "on-screen": "on_screen", "seen": "seen", "sounds": "sounds"}
OPENING, CLOSING = '"“”„', '"“”'

_PREFIX = re.compile(rf"({'|'.join(PREFIXES)})\s*:\s*", re.IGNORECASE)


class PlainText(str):
    """Text that is one query, though it may have a `then` or a `without`."""

    __slots__ = ()


@dataclass(frozen=True)
class Asked:
    """What a query asks for.

    Attributes:
        text: words without quotes and prefix.
        channels: channels that are asked.
        exact: whether the words are to be found side by side, as they are written.
    """

    text: str
    channels: frozenset[Channel] = EVERY
    exact: bool = False

    @property
    def sees(self) -> bool:
        """Whether frames are asked."""
        return "seen" in self.channels

    @property
    def hears(self) -> bool:
        """Whether sounds are asked."""
        return "sounds" in self.channels

    @property
    def reads(self) -> bool:
        """Whether words are asked: on screen, said, or in names and captions."""
        return bool(self.channels & WRITTEN)


def read_query(text: str, *, typing: bool = False) -> Asked:
    """Read a query with single spaces.

    Example:
        >>> asked = read_query('said: "mind the gap"')
        >>> asked.text, sorted(asked.channels), asked.exact
        ('mind the gap', ['said'], True)
    """
    prefix = _PREFIX.match(text)
    rest = text if prefix is None else text[prefix.end() :]
    channels = EVERY if prefix is None else frozenset({PREFIXES[prefix[1].lower()]})
    if not rest:
        raise UsageError(f"Nothing follows {text}; write after it what is looked for there.")
    if rest[0] not in OPENING:
        return Asked(rest, channels)
    if not channels & WRITTEN:
        raise UsageError(
            "What is seen and what it sounds like has no words to be found in quotes; leave the quotes out, or ask "
            'said:"…" or on-screen:"…".'
        )
    closed = len(rest) > 1 and rest[-1] in CLOSING
    inner = rest[1 : -1 if closed else None].strip()
    if not closed and not words(inner):  # a sign, and no words that somebody forgot to close
        return Asked(rest, channels)
    if not closed and not typing:
        raise UsageError(
            "The quote at the beginning of the query is not closed; close it (a query has at most 1,000 characters), "
            "or leave it out."
        )
    if not words(inner):
        raise UsageError("The quotes of the query hold no word; write between them what is to be found as it is.")
    if any(quote in inner for quote in OPENING):
        raise UsageError("The query has quotes within quotes; put one pair around all that is to be found as it is.")
    return Asked(inner, channels & WRITTEN, exact=closed)


def as_sentence(text: str) -> PlainText:
    """Return a text that is asked of every channel, whatever words it has; one of quotes alone becomes a dash.

    >>> as_sentence('"Mind the gap" is said'), as_sentence("seen: a red bus")
    ('Mind the gap" is said', 'seen  a red bus')
    """
    plain = text.strip().lstrip(OPENING).strip() or "-"
    return PlainText(plain.replace(":", " ", 1) if _PREFIX.match(plain) else plain)
