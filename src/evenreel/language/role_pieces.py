"""Pieces of a caption that role graphs are made of: verbs, noun phrases, prepositions, and words that join clauses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from evenreel.language.caption_rules import PARTICLES
from evenreel.language.noun_phrases import OPENERS, Phrase, later_particle, phrases, verb_particle, with_opener
from evenreel.language.synonyms import caption_synonyms, packaged_lines
from evenreel.language.tokens import Tagged, Token

Kind = Literal["noun", "verb", "link", "join", "clause", "stop"]

_JOINS = frozenset({",", ";", "&", "/", "then"})
_PASSIVE = frozenset({"be", "get"})
_FINITE = frozenset({"VBZ", "VBP", "VBD", "MD"})


@dataclass(frozen=True)
class Piece:
    """Tokens of a caption that form a verb, a noun phrase, a preposition or a conjunction.

    Attributes:
        kind: `noun`: a noun phrase or pronoun; `verb`: one with its particle; `link`: a row of prepositions; `join`: a
            comma or conjunction; `clause`: a word that opens a clause with a verb of its own; `stop`: the end of a
            sentence.
        places: indices of its tokens, ascending.
        head: lemma of the noun, of the verb, or of the first preposition.
        finite: whether it is a verb that is finite, or has a finite auxiliary.
        passive: whether it is a verb in the passive.
    """

    kind: Kind
    places: tuple[int, ...]
    head: str
    finite: bool = False
    passive: bool = False


@lru_cache(maxsize=1)
def _lists() -> dict[str, tuple[str, ...]]:
    lists: dict[str, tuple[str, ...]] = {}
    for line in packaged_lines("roles.txt"):
        name, _, words = line.partition(": ")
        lists[name] = lists.get(name, ()) + tuple(words.split())
    return lists


@cache
def words_of(name: str) -> frozenset[str]:
    """Return the words of a list in the package's `roles.txt` by the list's name; none for an unknown name."""
    return frozenset(_lists().get(name, ()))


def pieces_of(tokens: Tagged) -> list[Piece]:
    """Divide a tagged caption into verbs, noun phrases, prepositions and conjunctions, in the order of its words."""
    found = phrases(tokens)
    verbs = [_verb(tokens, one.start, found) for one in found if one.kind == "activity" and is_word(tokens[one.start])]
    nouns = list(_nouns(tokens, found))
    taken = {place for piece in (*verbs, *nouns) for place in piece.places}
    small = _small_pieces(tokens, taken)
    pieces = sorted((*verbs, *nouns, *small), key=lambda piece: piece.places)
    return [_demoted(pieces, place) for place in range(len(pieces))]


def _demoted(pieces: Sequence[Piece], place: int) -> Piece:
    """`before` of `before lunch` is a preposition, of `before a man eats` it opens a clause."""
    piece = pieces[place]
    opens = piece.kind != "clause" or verb_follows(pieces, place)
    return piece if opens else Piece("link", piece.places, piece.head)


def verb_follows(pieces: Sequence[Piece], place: int, *, finite: bool = False) -> bool:
    """Return whether a verb follows a piece with only nouns, prepositions and conjunctions of nouns between.

    Args:
        pieces: pieces of a caption, in order.
        place: index of the piece.
        finite: whether only a finite verb counts.
    """
    for after in range(place + 1, len(pieces)):
        joins_nouns = pieces[after].kind == "join" and after + 1 < len(pieces) and pieces[after + 1].kind == "noun"
        if pieces[after].kind not in ("noun", "link") and not joins_nouns:
            return pieces[after].kind == "verb" and (pieces[after].finite or not finite)
    return False


def _verb(tokens: Tagged, place: int, found: Sequence[Phrase]) -> Piece:
    """A verb with its particle, wherever that stands."""
    helpers = list(_helpers(tokens, place, {one.start for one in found if one.kind == "activity"}))
    tag = tokens[place].tag
    helped_by = next((one.lemma for one in helpers if one.part == "verb"), None)
    passive = (tag != "VBG" and helped_by in _PASSIVE) or (tag == "VBN" and helped_by is None)
    finite = any(one.tag in _FINITE for one in (tokens[place], *helpers))
    later = later_particle(tokens, place)
    own = [place + 1] if _has_particle(tokens, place) else [later] if later is not None else []
    return Piece("verb", (place, *own), tokens[place].lemma, finite, passive)


def _helpers(tokens: Tagged, place: int, verbs: set[int]) -> Iterator[Token]:
    """Auxiliaries of a verb, the nearest first."""
    for before in range(place - 1, -1, -1):
        helps = tokens[before].part == "verb" and before not in verbs
        if helps or tokens[before].tag == "MD":
            yield tokens[before]
        elif tokens[before].part != "adverb":
            return


def _has_particle(tokens: Tagged, place: int) -> bool:
    """Whether a particle stands right after a verb: `turns on the tap`, `falls down`, but not `walks down the road`."""
    particle = verb_particle(tokens, place)
    if particle is None or f"{tokens[place].lemma} {particle}" in caption_synonyms().verbs:
        return particle is not None
    if place + 2 >= len(tokens):
        return True
    follower = tokens[place + 2]
    if follower.part in ("noun", "adjective") or follower.tag in (*OPENERS, "PRP"):
        return particle in words_of("particle") and tokens[place].lemma not in words_of("motion")
    return follower.lemma != "of"


def _nouns(tokens: Tagged, found: Sequence[Phrase]) -> Iterator[Piece]:
    """Noun phrases with what opens them, and pronouns; `a man's dog` and `a piece of wood` are one each."""
    spans = [(_start(tokens, one.start), one.stop, one.head) for one in found if one.kind == "entity"]
    spans += [(place, place + 1, token.lemma) for place, token in enumerate(tokens) if token.tag == "PRP"]
    joined: list[tuple[int, int, str]] = []
    for start, stop, head in sorted(spans):
        owner = joined.pop() if joined and _owns(tokens[joined[-1][1] : start]) else None
        joined.append((start, stop, head) if owner is None else (owner[0], stop, owner[2]))
    for start, stop, head in joined:
        places = tuple(place for place in range(start, stop) if is_word(tokens[place]))
        if places:
            yield Piece("noun", places, head)


def _start(tokens: Tagged, start: int) -> int:
    """Where a noun phrase starts: `a very big dog`, `one of two dogs`."""
    before = start
    while before > 0 and tokens[before - 1].part == "adverb":
        before -= 1
    opened = with_opener(tokens, before)
    start = opened if opened < before else with_opener(tokens, start)
    counts = start > 1 and tokens[start - 1].lemma == "of" and tokens[start - 2].tag in ("CD", "DT", "PDT")
    return start - 2 if counts else start


def _owns(between: Sequence[Token]) -> bool:
    """Whether what stands between two noun phrases makes them one."""
    return len(between) == 1 and (between[0].tag == "POS" or between[0].lemma == "of")


def _small_pieces(tokens: Tagged, taken: set[int]) -> Iterator[Piece]:
    """Prepositions, a row of them as one, conjunctions, and words that open clauses."""
    row: list[int] = []
    for place, token in enumerate(tokens):
        kind = None if place in taken else _kind(token)
        if kind == "link":
            row.append(place)
            continue
        if row:
            yield Piece("link", tuple(row), tokens[row[0]].lemma)
            row = []
        if kind is not None:
            yield Piece(kind, (place,), token.lemma)


def _kind(token: Token) -> Kind | None:
    if token.tag == ".":
        return "stop"
    if token.lemma in words_of("clause") and token.part is None:
        return "clause"
    if token.tag == "CC" or token.lemma in _JOINS:
        return "join"
    return "link" if _is_link(token) else None


def _is_link(token: Token) -> bool:
    return token.tag in ("IN", "TO", "RP") or token.lemma in PARTICLES or token.lemma in ("next", "close", "top")


def is_word(token: Token) -> bool:
    """Return whether a token is a word, not a punctuation mark."""
    return any(map(str.isalnum, token.text))
