"""Which thing has which attribute: exchange of two attributes of a kind, or another value where there is one alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from evenreel.language.composition.lists import attribute_values, fixed_nouns, words
from evenreel.language.composition.pieces import Caption
from evenreel.language.tokens import Tagged


def swapped_attributes(caption: Caption, random: np.random.Generator) -> str | None:
    """Exchange two attributes of one kind, or give the only one another value of its kind; None where there is none.

    Args:
        caption: the caption.
        random: draws the value where there are several.

    >>> from evenreel.language.pattern import PatternTagger
    >>> def swapped(text):
    ...     return swapped_attributes(Caption(text, PatternTagger().tag([text])[0]), np.random.default_rng(0))
    >>> swapped("a red ball lies on an orange box"), swapped("An old man walks")
    ('an orange ball lies on a red box', 'A young man walks')
    """
    found = [*_attributes(caption.tokens)]
    texts = [caption.tokens[place].text.lower() for place in found]
    for one, other in combinations(range(len(found)), 2):
        if texts[one] in _others(texts[other]) and _free(texts, one, other):
            return caption.replaced({_at(found[one]): texts[other], _at(found[other]): texts[one]})
    for place, text in zip(found, texts, strict=True):
        if others := [other for other in _others(text) if other not in texts]:
            return caption.replaced({_at(place): others[int(random.integers(len(others)))]})
    return None


def _at(place: int) -> tuple[int, int]:
    return place, place + 1


def _free(texts: list[str], one: int, other: int) -> bool:
    """Whether each value is there once: `a black dog and a white dog chase a black cat` would say less."""
    return texts.count(texts[one]) == texts.count(texts[other]) == 1


def _others(value: str) -> tuple[str, ...]:
    """All values that may take its place."""
    return tuple(dict.fromkeys(other for _, others in attribute_values()[value] for other in others))


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
    if "-" in joined or "and" in joined or token.part == "verb":
        return False
    if "number" in kinds:
        return after is not None and after.tag in ("NNS", "JJ") and token.tag == "CD"
    named = after is not None and _is_named(token.text.lower(), after.lemma)
    noun = after is not None and after.part == "noun" and not named
    follows = after is not None and after.part == "adjective" and place + 2 < len(tokens)
    if noun or (follows and tokens[place + 2].part == "noun"):
        return token.part == "adjective" or kinds == {"colour"}
    return place > 0 and tokens[place - 1].lemma == "be" and token.part == "adjective" and "length" not in kinds
