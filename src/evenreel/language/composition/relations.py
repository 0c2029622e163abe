"""Where and when: one relation of a caption turned into its opposite."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from evenreel.language.composition.lists import opposites, words
from evenreel.language.composition.pieces import Caption
from evenreel.language.noun_phrases import OPENERS
from evenreel.language.synonyms import packaged_lines
from evenreel.language.tokens import Tagged


def swapped_relation(caption: Caption) -> str | None:
    """Turn the first relation of a caption that has an opposite into it; None where there is none.

    >>> from evenreel.language.taggers import PatternTagger
    >>> def swapped(text):
    ...     return swapped_relation(Caption(text, PatternTagger().tag([text])[0]))
    >>> swapped("A cat jumps into a box."), swapped("he picks up the ball on the left"), swapped("she has left")
    ('A cat jumps out of a box.', 'he picks up the ball on the right', None)
    """
    tokens = caption.tokens
    lower = [token.text.lower() for token in tokens]
    for start in range(len(tokens)):
        for relation, opposite, need in opposites():
            stop = start + len(relation)
            if tuple(lower[start:stop]) == relation and _NEEDS[need](tokens, start, stop):
                return caption.replaced({(start, stop): opposite})
    return None


def _lemma(tokens: Tagged, place: int) -> str:
    return tokens[place].lemma if 0 <= place < len(tokens) else ""


def _before_a_thing(tokens: Tagged, place: int) -> bool:
    """Whether a noun phrase begins there."""
    return place < len(tokens) and (tokens[place].tag in OPENERS or tokens[place].part in ("noun", "adjective"))


def _always(tokens: Tagged, start: int, stop: int) -> bool:
    preposition = tokens[start].text.lower() not in _OF_A_THING
    return preposition or _before_a_thing(tokens, stop)


_OF_A_THING = frozenset({"above", "below", "behind", "inside", "outside", "onto", "near", "next", "toward", "towards"})


def _side(tokens: Tagged, start: int, stop: int) -> bool:
    before, after = _lemma(tokens, start - 1), _lemma(tokens, stop)
    if tokens[start].part == "verb" and before not in words("side after"):
        return False
    if after in words("no side"):
        return False
    return after in words("side before") or before in words("side after")


def _order(tokens: Tagged, start: int, stop: int) -> bool:
    before = _lemma(tokens, start - 1)
    if start == 0 or before in words("not order") or before in ("as", "never", "one", "day", "time"):
        return False
    return stop < len(tokens) and _lemma(tokens, stop) not in ("all", "that", "another", "each", "some", "a")


def _motion(tokens: Tagged, start: int, stop: int) -> bool:
    """Whether a verb of motion stands before, maybe with what moves between them."""
    place = start - 1
    while place >= 0 and (tokens[place].part in ("noun", "adjective", "adverb") or tokens[place].tag in OPENERS):
        place -= 1
    bare = tokens[start].text.lower() in ("up", "down")
    if _lemma(tokens, place) not in _motions() or tokens[place].part != "verb":
        return False
    if _lemma(tokens, place) in words(f"not {' '.join(token.text.lower() for token in tokens[start:stop])}"):
        return False
    if bare:
        return place == start - 1
    return _before_a_thing(tokens, stop) and _thing(tokens, stop) not in words("no inside")


def _holder(tokens: Tagged, start: int, stop: int) -> bool:
    """Whether the noun phrase after it is of a thing that carries another."""
    return _thing(tokens, stop) in words("holder nouns")


def _thing(tokens: Tagged, place: int) -> str:
    """The noun of the noun phrase that begins there; empty where none does."""
    while place < len(tokens) and (tokens[place].tag in OPENERS or tokens[place].part == "adjective"):
        place += 1
    while place + 1 < len(tokens) and tokens[place + 1].part == "noun":
        place += 1
    return tokens[place].lemma if place < len(tokens) and tokens[place].part == "noun" else ""


@cache
def _motions() -> frozenset[str]:
    of_roles = [line.partition(":")[2].split() for line in packaged_lines("roles.txt") if line.startswith("motion:")]
    return frozenset(word for row in of_roles for word in row) | words("motion verbs")


_NEEDS: dict[str, Callable[[Tagged, int, int], bool]] = {
    "always": _always,
    "side": _side,
    "order": _order,
    "motion": _motion,
    "holder": _holder,
}
