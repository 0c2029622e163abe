"""Captions that deny a thing which their clip does not show, after the captions of NegBench.

Alhamoud et al. 2025 ('Vision-Language Models Do Not Understand Negation', arXiv 2501.09425): a true caption
gets a thing that is absent, and says so. Here the thing is one that captions of other clips name, and none of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from evenreel.language.composition.lists import attribute_values, words
from evenreel.language.composition.pieces import with_articles
from evenreel.language.noun_phrases import Phrase
from evenreel.language.synonyms import amounts, caption_synonyms
from evenreel.language.tokens import Tagged
from evenreel.language.wording import content_phrases

DENIED = "{caption}, with no {thing} in sight"
"""What a caption becomes that denies a thing."""

AFFIRMED = "{caption}, with a {thing} in sight"
"""What a caption becomes that affirms it: false by one word."""


def with_thing(pattern: str, caption: str, thing: str) -> str:
    """Put a caption and a thing into a pattern; a full stop stays at the end.

    >>> with_thing(AFFIRMED, "A man runs.", "owl")
    'A man runs, with an owl in sight.'
    """
    text = caption.strip()
    body = text.removesuffix(".").rstrip()
    return with_articles(pattern.format(caption=body, thing=thing)) + "." * text.endswith(".")


def absent_things(
    captions: Sequence[str], tagged: Sequence[Tagged], clip_ids: Sequence[str], seed: int
) -> list[str | None]:
    """Draw for each caption a thing that a caption of another clip names and none of its own clip; None without one.

    Where the own captions name a person, no person is drawn: another word may mean the same one. A word that only one
    clip's captions name is not drawn where others are left.

    Args:
        captions: Q texts, which make the draw: equal ones of equal clips get the same thing.
        tagged: their tokens.
        clip_ids: the clip of each (Q,).
        seed: seed of the draw.
    """
    named: dict[str, set[str]] = defaultdict(set)
    lent: dict[str, set[str]] = defaultdict(set)
    for clip, tokens in zip(clip_ids, tagged, strict=True):
        named[clip].update(_meant(token.lemma) for token in tokens if token.part == "noun")
        for thing in countable_things(tokens):
            lent[thing].add(clip)
    often = {thing: clips for thing, clips in lent.items() if len(clips) > 1} or lent
    return [
        _drawn(often, named[clip], np.random.default_rng([seed, *caption.encode()]))
        for caption, clip in zip(captions, clip_ids, strict=True)
    ]


def _drawn(lent: Mapping[str, set[str]], named: set[str], random: np.random.Generator) -> str | None:
    things: list[str] = sorted(lent)
    peopled = bool(named & words("person"))
    for place in random.permutation(len(things)):
        thing: str = things[int(place)]
        if _meant(thing) not in named and not (peopled and thing in words("person")):
            return thing
    return None


def _meant(noun: str) -> str:
    """The name of its group of synonyms, or itself; a person is a person."""
    return caption_synonyms().nouns.get(noun, noun)


def countable_things(tokens: Tagged) -> Iterator[str]:
    """Yield singular nouns of a tagged caption behind `a` or `an`, of which one can say that there is none."""
    for one in content_phrases(tokens):
        if one.kind == "entity" and _is_one(one, tokens):
            yield one.head


def _is_one(one: Phrase, tokens: Tagged) -> bool:
    noun = tokens[one.stop - 1]
    opened = one.start > 0 and tokens[one.start - 1].text.lower() in ("a", "an")
    of = one.stop < len(tokens) and tokens[one.stop].lemma == "of"
    no_thing = noun.lemma in amounts() or noun.lemma in attribute_values()
    return opened and noun.tag == "NN" and noun.lemma.isalpha() and not (of or no_thing)
