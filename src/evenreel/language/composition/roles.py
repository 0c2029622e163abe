"""Who does what to whom: exchange of the two beings before and after a verb."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from evenreel.language.composition.lists import words
from evenreel.language.composition.pieces import Caption
from evenreel.language.noun_phrases import Phrase, phrases, with_opener
from evenreel.language.tokens import Tagged

_JOINED = frozenset({"CC", "IN", "TO", "POS", ","})
"""Before the first of two beings these say that it is only part of who acts: `a group of men`, `a man and a woman`."""

_NO_WHOLE = frozenset({"POS", "WP", "WDT", "VBZ", "VBD", "MD"})
"""After the second of two beings these say that it is only part of whom it concerns, or who acts next."""


def swapped_roles(caption: Caption) -> str | None:
    """Exchange the being that acts and the one that it acts on; None where a caption has no such two.

    >>> from evenreel.language.taggers import PatternTagger
    >>> text = "A dog chases the small cat."
    >>> swapped_roles(Caption(text, PatternTagger().tag([text])[0]))
    'The small cat chases a dog.'
    """
    for first, second in _acting(caption.tokens):
        one, other = (caption.stretch(*place) for place in (first, second))
        return caption.replaced({first: other, second: one})
    return None


def _acting(tokens: Tagged) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Stretches of two beings with nothing but a verb, and what belongs to it, between them."""
    beings = [_Being.of(one, tokens) for one in phrases(tokens) if one.kind == "entity"]
    for first, second in pairwise(beings):
        verb = _verb(tokens, first.stop, second.start)
        if verb and first.alone and second.alone and _whole(tokens, first, second) and _does_to(verb, first, second):
            yield (first.start, first.stop), (second.start, second.stop)


@dataclass(frozen=True)
class _Being:
    """A noun phrase with its article.

    Attributes:
        start, stop: its tokens are `tokens[start:stop]`.
        noun, tag: lemma and tag of its noun.
        alone: whether it is a being by its noun, says by an article or its plural that it begins here, is nobody's,
            and no other noun stands in it.
    """

    start: int
    stop: int
    noun: str
    tag: str
    alone: bool

    @classmethod
    def of(cls, one: Phrase, tokens: Tagged) -> _Being:
        start, last = with_opener(tokens, one.start), tokens[one.stop - 1]
        opened = start < one.start or last.tag == "NNS"
        owned = any(token.tag == "PRP$" for token in tokens[start : one.stop])  # `a man pets his dog`
        known = all(
            token.part == "adjective" or token.lemma in words("being") for token in tokens[one.start : one.stop]
        )
        return cls(start, one.stop, one.head, last.tag, opened and known and not owned and one.head in words("being"))


def _does_to(verb: str, first: _Being, second: _Being) -> bool:
    """Whether the second could do to the first what the first does to it, and it is not said of both anyway."""
    if first.tag != second.tag or first.noun == second.noun:  # the verb would have another number, or nothing changes
        return False
    people = [being.noun in words("person") for being in (first, second)]
    return verb not in words("mutual") and (people[0] == people[1] or verb in words("either"))


def _whole(tokens: Tagged, first: _Being, second: _Being) -> bool:
    before = tokens[first.start - 1].tag if first.start else ""
    after = tokens[second.stop] if second.stop < len(tokens) else None
    part = after is not None and (after.tag in _NO_WHOLE or after.lemma in ("of", "who", "that"))
    return before not in _JOINED and not part


def _verb(tokens: Tagged, start: int, stop: int) -> str:
    """The verb that tokens are, with helping verbs, adverbs and at most one preposition; empty where they are not."""
    between = tokens[start:stop]
    verbs = [token for token in between if token.part == "verb"]
    others = [token for token in between if token.part not in ("verb", "adverb")]
    passive = bool(verbs) and verbs[-1].tag in ("VBN", "VBD")
    known = all(token.lemma in words("toward") or (passive and token.lemma == "by") for token in others)
    helping = all(one.lemma in ("be", "have") for one in verbs[:-1])
    return verbs[-1].lemma if verbs and len(others) < 2 and known and helping else ""
