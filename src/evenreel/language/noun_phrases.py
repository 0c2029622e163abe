"""Entities and activities of a caption: noun phrases with their modifiers, verb phrases with their objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evenreel.language.synonyms import caption_synonyms
from evenreel.language.taggers import PARTICLES
from evenreel.language.tokens import Tagged, Token

PhraseKind = Literal["entity", "activity"]

_AUXILIARIES = frozenset({"be", "have", "do", "get"})
OPENERS = ("DT", "PRP$", "PDT", "CD")
"""Tags of what may stand before an entity."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """An entity or activity in a caption.

    Attributes:
        kind: `entity`, a noun with its modifiers, or `activity`, a verb with its particle and object.
        text: base form without articles: `big red car`, `cut tomato`, `turn on tap`.
        head: lemma of the noun, or of the verb with its particle.
        start, stop: its tokens are `tokens[start:stop]`.
    """

    kind: PhraseKind
    text: str
    head: str
    start: int
    stop: int


def phrases(tokens: Tagged) -> list[Phrase]:
    """Return the entities and activities of a tagged caption, in order of their starts.

    >>> from evenreel.language.taggers import PatternTagger
    >>> [tagged] = PatternTagger().tag(["A man is cutting ripe tomatoes with a big knife"])
    >>> [(one.kind, one.text) for one in phrases(tagged)]
    [('entity', 'man'), ('activity', 'cut ripe tomato'), ('entity', 'ripe tomato'), ('entity', 'big knife')]
    """
    entities = list(_entities(tokens))
    return sorted([*entities, *_activities(tokens, entities)], key=lambda one: (one.start, -one.stop))


def _entities(tokens: Tagged) -> Iterator[Phrase]:
    """Runs of adjectives and nouns that end with a noun."""
    start = 0
    while start < len(tokens):
        stop = start
        while stop < len(tokens) and tokens[stop].part in ("adjective", "noun"):
            stop += 1
        last = stop
        while last > start and tokens[last - 1].part != "noun":
            last -= 1
        if last > start:
            yield Phrase("entity", base_form(tokens[start:last]), tokens[last - 1].lemma, start, last)
        start = stop + 1


def _activities(tokens: Tagged, entities: Sequence[Phrase]) -> Iterator[Phrase]:
    """Verbs with a particle and the entity right after them; auxiliaries of another verb are left out."""
    at = {with_opener(tokens, entity.start): entity for entity in entities}
    for place, token in enumerate(tokens):
        if token.part != "verb" or _helps_another(tokens, place):
            continue
        particle = verb_particle(tokens, place)
        words = [token.lemma, particle] if particle else [token.lemma]
        stop = place + len(words)
        head = " ".join(words)
        if entity := at.get(stop):
            words.append(entity.text)
            stop = entity.stop
        yield Phrase("activity", " ".join(words), head, place, stop)


def verb_particle(tokens: Tagged, place: int) -> str | None:
    """Return the particle right after a verb, given by its place among the tokens; None where there is none.

    `puts down a cup` has a particle, `sits in a car` has none: `in`, `on`, `over` and `around` before an article are
    prepositions, unless the synonyms list the two as one verb (`turn on the tap`).
    """
    if place + 1 >= len(tokens) or tokens[place + 1].part == "noun":
        return None
    particle = tokens[place + 1].lemma
    if f"{tokens[place].lemma} {particle}" in caption_synonyms().verbs:
        return particle
    follower = tokens[place + 2].tag if place + 2 < len(tokens) else ""
    opens_a_place = particle in ("in", "on", "over", "around") and follower in OPENERS
    return particle if particle in PARTICLES and not opens_a_place else None


def later_particle(tokens: Tagged, place: int) -> int | None:
    """Return the place of a particle that follows its verb's object, such as `on` of `turn the tap on`, or None.

    It must end the caption, or stand before a punctuation mark or conjunction.
    """
    after = place + 1
    while after < len(tokens) and (tokens[after].part in ("noun", "adjective") or tokens[after].tag in OPENERS):
        after += 1
    if after == place + 1 or after >= len(tokens) or tokens[after].lemma not in PARTICLES:
        return None
    follower = tokens[after + 1].tag if after + 1 < len(tokens) else "."
    return after if follower in (".", ",", "CC") else None


def with_opener(tokens: Tagged, start: int) -> int:
    """Return the place where a noun phrase begins, with its article, possessive or number."""
    while start > 0 and tokens[start - 1].tag in OPENERS:
        start -= 1
    return start


def _helps_another(tokens: Tagged, place: int) -> bool:
    """`is` of `is slowly running`."""
    if tokens[place].lemma not in _AUXILIARIES:
        return False
    after = place + 1
    while after < len(tokens) and tokens[after].part == "adverb":
        after += 1
    return after < len(tokens) and tokens[after].part == "verb"


def base_form(tokens: Sequence[Token]) -> str:
    """Join the tokens of a noun phrase to text: the last word as its lemma, the others as written, in small letters."""
    return " ".join([*(token.text.lower() for token in tokens[:-1]), tokens[-1].lemma])
