"""States and channels of a search, and the records of its result (`evenreel.library.search.result`)."""

from __future__ import annotations

from typing import Literal

from evenreel.library.search.result import FoldedHit, Hit, MomentHit, SearchResult, TextHit

__all__ = ["ANSWERS", "STATES", "Channel", "FoldedHit", "Hit", "MomentHit", "SearchResult", "State", "TextHit"]

State = Literal["fits", "may_fit", "nothing"]
"""Where a clip stands: before all others, before the line of weaker matches, or behind it."""

STATES: tuple[State, ...] = ("fits", "may_fit", "nothing")
"""All states, the best first; columns of states have places in this."""

Channel = Literal["seen", "on_screen", "said", "about", "sounds"]
"""What finds clips: their frames, their on-screen words, what is said, their names and captions, or their sounds."""


ANSWERS = 0.5
"""A clip with this share of the query's weight in writing is no weaker match."""
