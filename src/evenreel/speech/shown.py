"""Subtitles in pictures as cues: from what is on screen from which time on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from evenreel.speech.subtitles import one_line
from evenreel.speech.utterances import Utterance

LONGEST_S = 10.0
"""Seconds after which a picture is gone where nothing says when it ends."""

_SAME_S = 0.25  # between two cues of the same words that are one


@dataclass(frozen=True)
class ShownPicture:
    """What is on screen from a time on.

    Attributes:
        start_s: when it is shown first, in seconds.
        end_s: when it is gone at the latest; None where nothing says so.
        words: its words; none where the screen is cleared.
        confidence: how sure their reader is, 0 to 1.
    """

    start_s: float
    end_s: float | None
    words: str = ""
    confidence: float = 0.0


def cues_of(shown: Iterable[ShownPicture], language: str | None) -> Iterator[Utterance]:
    """Make cues of what is shown, in any order; those of the same words that follow one another become one.

    A cue ends with its own end or where the screen is cleared or shows something else, and where nothing says when,
    after `LONGEST_S`.
    """
    before: Utterance | None = None
    for cue in _each(sorted(shown, key=lambda one: one.start_s), language):
        if before and before.text == cue.text and cue.start_s <= before.end_s + _SAME_S:
            surer = max(before, cue, key=lambda one: one.confidence or 0.0)
            before = replace(surer, start_s=before.start_s, end_s=max(before.end_s, cue.end_s))
            continue
        if before:
            yield before
        before = cue
    if before:
        yield before


def _each(shown: list[ShownPicture], language: str | None) -> Iterator[Utterance]:
    for one, then in _followed(shown):
        text, end_s = one_line(one.words), _end_s(one, then)
        if end_s > 0 and any(map(str.isalnum, text)):
            yield Utterance(text, max(0.0, one.start_s), end_s, "stream", language, one.confidence)


def _followed(shown: list[ShownPicture]) -> Iterator[tuple[ShownPicture, ShownPicture | None]]:
    """Each with the first that is shown later than it."""
    found: list[tuple[ShownPicture, ShownPicture | None]] = []
    then = after = None
    for one in reversed(shown):
        then = after if after is not None and after.start_s > one.start_s else then
        found.append((one, then))
        after = one
    return reversed(found)


def _end_s(one: ShownPicture, then: ShownPicture | None) -> float:
    """When a picture is gone, before another that is shown later."""
    ends = [one.end_s] if one.end_s is not None and one.end_s > one.start_s else []
    if then is not None and not then.words:
        ends.append(then.start_s)
    if not ends:
        ends.append(one.start_s + LONGEST_S)
    return min([*ends, *([then.start_s] if then is not None else [])])
