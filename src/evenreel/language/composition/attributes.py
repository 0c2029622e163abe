"""Which thing has which attribute: exchange of two attributes of a kind, or another value where there is one alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from evenreel.language.composition.lists import attribute_values, fixed_nouns, words
from evenreel.language.composition.pieces import Caption
from evenreel.language.tokens import Tagged

_AGES = frozenset({"year", "month", "week"})
"""After these `old` says how old."""

_OF_BEINGS = frozenset({"age", "height"})
_OF_THINGS = frozenset({"newness", "length"})


def swapped_attributes(caption: Caption, random: np.random.Generator) -> str | None:
    """Exchange two attributes of one kind, or give the only one another value of its kind; None where there is none.

    Args:
        caption: the caption.
        random: draws the value where there are several.

    >>> from evenreel.language.taggers import PatternTagger
    >>> def swapped(text):
    ...     return swapped_attributes(Caption(text, PatternTagger().tag([text])[0]), np.random.default_rng(0))
    >>> swapped("a red ball lies on an orange box"), swapped("An old man walks")
    ('an orange ball lies on a red box', 'A young man walks')
    """
    found = [*_attributes(caption.tokens)]
    texts = [caption.tokens[place].text.lower() for place in found]
    may = [_others(caption.tokens, place) for place in found]
    for one, other in combinations(range(len(found)), 2):
        if texts[one] in may[other] and texts[other] in may[one] and _free(texts, one, other):
            return caption.replaced({_at(found[one]): texts[other], _at(found[other]): texts[one]})
    for place, every in zip(found, may, strict=True):
        if others := [other for other in every if other not in texts]:
            return caption.replaced({_at(place): others[int(random.integers(len(others)))]})
    return None


def _at(place: int) -> tuple[int, int]:
    return place, place + 1


def _free(texts: list[str], one: int, other: int) -> bool:
    """Whether each value is there once: `a black dog and a white dog chase a black cat` would say less."""
    return texts.count(texts[one]) == texts.count(texts[other]) == 1


def _others(tokens: Tagged, place: int) -> tuple[str, ...]:
    """All values that may take the place of one, of the thing that it is said of where that follows."""
    noun = next((token.lemma for token in tokens[place + 1 : place + 4] if token.part == "noun"), "")
    unfit = _OF_THINGS if noun in words("being") else _OF_BEINGS
    kinds = attribute_values()[tokens[place].text.lower()]
    return tuple(dict.fromkeys(other for kind, others in kinds if kind not in unfit for other in others))


def _attributes(tokens: Tagged) -> Iterator[int]:
    """Places of attributes that say how a thing is."""
    for place, token in enumerate(tokens):
        if token.text.lower() in attribute_values() and _describes(tokens, place):
            yield place


def _is_named(value: str, noun: str) -> bool:
    """Whether a value before a noun is part of its name: `hot dog`."""
    colour = any(kind == "colour" for kind, _ in attribute_values()[value])
    return (colour and noun in words("named")) or noun in fixed_nouns().get(value, ())


def _describes(tokens: Tagged, place: int) -> bool:
    """Whether it stands before its noun, maybe behind other adjectives, or after a form of `be`."""
    token, after = tokens[place], tokens[place + 1] if place + 1 < len(tokens) else None
    kinds = {kind for kind, _ in attribute_values()[token.text.lower()]}
    joined = [tokens[at].text for at in (place - 1, place + 1) if 0 <= at < len(tokens)]
    if "-" in joined or "and" in joined or token.part == "verb" or tokens[place - 1].lemma in _AGES:
        return False
    if "number" in kinds:
        return after is not None and after.tag in ("NNS", "JJ") and token.tag == "CD"
    named = after is not None and _is_named(token.text.lower(), after.lemma)
    noun = after is not None and after.part == "noun" and not named
    follows = after is not None and after.part == "adjective" and place + 2 < len(tokens)
    if noun or (follows and tokens[place + 2].part == "noun"):
        return token.part == "adjective" or kinds == {"colour"}
    return place > 0 and tokens[place - 1].lemma == "be" and token.part == "adjective"
