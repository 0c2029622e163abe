"""Role graphs of captions: verbs, phrases, and what each is to the other."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Literal

from evenreel.documents import parse_json
from evenreel.errors import CorpusError
from evenreel.language.noun_phrases import OPENERS, Phrase, later_particle, phrases, verb_particle, with_opener
from evenreel.language.synonyms import caption_synonyms, packaged_lines
from evenreel.language.taggers import PARTICLES
from evenreel.language.tokens import Tagged, Token
from evenreel.types import RoleGraph, RoleNode

# Pieces of a caption that role graphs are made of: verbs, noun phrases, prepositions, and words that join clauses.

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
    """Return whether a verb follows a piece with only nouns, prepositions and conjunctions of nouns between."""
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
    links = token.tag in ("IN", "TO", "RP") or token.lemma in PARTICLES or token.lemma in ("next", "close", "top")
    return "link" if links else None


def is_word(token: Token) -> bool:
    """Return whether a token is a word, not a punctuation mark."""
    return any(map(str.isalnum, token.text))


# Semantic role graphs of captions: actions, and the noun phrases that take part in each, by their role.
#
# HGR reads them (Chen et al. 2020, 'Fine-grained Video-Text Retrieval with Hierarchical Graph Reasoning', section 3.1).
# Its graphs are from a network for semantic role labelling; `role_graph_of_json` reads these where a benchmark has
# them. `role_graph` makes them of tagged words by a few rules, offline and for any caption.

VERB, NOUN = "V", "NOUN"

ROLES = (
    VERB, "ARG1", "ARG0", "ARG2", "ARG3", "ARG4", "ARGM-LOC", "ARGM-MNR", "ARGM-TMP", "ARGM-DIR", "ARGM-ADV",
    "ARGM-PRP", "ARGM-PRD", "ARGM-COM", "ARGM-MOD", NOUN,
)  # fmt: skip
"""The roles that HGR tells apart, PropBank's names: `ARG0` who acts, `ARG1` what is acted on, `ARGM-LOC` where, ..."""

NO_WORD = "<none>"
"""The one word of a caption that has none: nothing but marks, or nothing at all."""

_ROOT = "ROOT"
_OTHER_PREPOSITION = "ARGM-ADV"


def role_graph(tokens: Tagged) -> RoleGraph:
    """Make the role graph of a tagged caption by rules.

    A caption without a word gets the word `NO_WORD`. A noun phrase before a verb is its ARG0, after a passive one or
    `be` its ARG1; the phrases after it are ARG1 and ARG2; a preposition gives the roles of place, direction, manner,
    time and purpose. Verbs that share a noun share its node, which keeps its first role. What follows a subject before
    its verb is part of it (`a man with a hat`). Nouns of a caption without a verb are `NOUN`. Nodes are in the order of
    their first words.

    >>> from evenreel.language.taggers import PatternTagger
    >>> [tagged] = PatternTagger().tag(["A man is cutting tomatoes with a knife."])
    >>> graph = role_graph(tagged)
    >>> [(node.role, " ".join(graph.words[place] for place in node.words)) for node in graph.nodes]
    [('ARG0', 'a man'), ('V', 'cutting'), ('ARG1', 'tomatoes'), ('ARGM-MNR', 'with a knife')]
    >>> graph.edges
    ((1, 0), (1, 2), (1, 3))
    """
    reading = _CaptionWalk(pieces_of(tokens))
    reading.read()
    places = [place for place, token in enumerate(tokens) if is_word(token)]
    number = {place: n for n, place in enumerate(places)}
    words = tuple(sys.intern(tokens[place].text.lower().replace("’", "'")) for place in places)
    nodes = sorted(reading.nodes, key=lambda node: node.places)
    at = {id(node): n for n, node in enumerate(nodes)}
    return RoleGraph(
        words or (NO_WORD,),
        tuple(RoleNode(node.role, tuple(number[place] for place in node.places)) for node in nodes),
        tuple(sorted({(at[id(verb)], at[id(noun)]) for verb, noun in reading.edges})),
    )


def role_graph_of_json(text: str) -> RoleGraph:
    """Read a role graph as HGR publishes it, see `evenreel.corpus.formats.captions`.

    The words are those of the node `ROOT`, in small letters; the spans of all nodes are places among them. A role that
    HGR does not distinguish becomes `NOUN`; `C-` and `R-` before one (what goes on with it or refers to it) are left
    out. Edges are kept between verbs and nouns.

    >>> role_graph_of_json('[{"ROOT": {"role": "ROOT", "words": ["Wash", "plate"]}, "1": {"role": "V", "spans": [0]}, '
    ...                    '"2": {"role": "ARG1", "spans": [1]}}, [["1", "2", "ARG1"]]]')
    RoleGraph(words=('wash', 'plate'), nodes=(RoleNode(role='V', words=(0,)), RoleNode(role='ARG1', words=(1,))), \
edges=((0, 1),))
    """
    try:
        named, edges = parse_json(text)
        root = next((node["words"] for node in named.values() if node["role"] == _ROOT), None)
        if root is None:
            raise KeyError(_ROOT)
        words = tuple(sys.intern(str(word).lower()) for word in root)
        nodes = {name: _node(node, len(words)) for name, node in named.items() if node["role"] != _ROOT}
        between = tuple(_between(nodes, [(first, second) for first, second, _ in edges], named))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CorpusError(
            f"The role graph {text[:60]!r} is not in the form of HGR ({why}): nodes with `role` and `spans`, of which "
            "ROOT has the `words`, and edges."
        ) from error
    return RoleGraph(words or (NO_WORD,), tuple(nodes.values()), between)


@dataclass(eq=False)
class _Node:
    """A node in the making; `link` are the places of its preposition, `modifier` the role that this gives it."""

    role: str
    places: list[int]
    link: tuple[int, ...] = ()
    modifier: str | None = None


@dataclass
class _CaptionWalk:
    """Goes over the pieces of a caption once, and attaches nouns to verbs."""

    pieces: Sequence[Piece]
    nodes: list[_Node] = field(default_factory=list)
    edges: list[tuple[_Node, _Node]] = field(default_factory=list)
    _pending: list[_Node] = field(default_factory=list)  # nouns of a clause before its verb
    _subjects: list[_Node] = field(default_factory=list)  # of the verb before; the next one may share them
    _verb: tuple[Piece, _Node] | None = None  # of the clause
    _after: list[_Node] = field(default_factory=list)  # nouns after it
    _objects: int = 0  # of it so far; a subject that it is done to is one

    def read(self) -> None:
        """Fill `nodes` and `edges`."""
        for place, piece in enumerate(self.pieces):
            if piece.kind == "noun":
                self._read_noun(place, piece)
            elif piece.kind == "verb":
                self._read_verb(place, piece)
            elif piece.kind == "clause":
                self._verb = None
            elif piece.kind == "stop":
                self._verb, self._pending, self._subjects = None, [], []

    def _read_noun(self, place: int, piece: Piece) -> None:
        link = self._before(place, "link")
        joined = self._before(place - (link is not None), "join") is not None
        node = _Node(NOUN, list(piece.places), link.places if link else (), _modifier(piece, link))
        self.nodes.append(node)
        if joined and (not self._after or verb_follows(self.pieces, place, finite=True)):
            self._verb = None  # it begins a clause, with nothing to stand beside or a verb of its own
        if self._verb is None:
            self._pending.append(node)
            return
        self._attach(self._verb[1], node, self._role(node, link, joined=joined))
        self._after.append(node)

    def _role(self, node: _Node, link: Piece | None, *, joined: bool) -> str:
        """Of a noun after its verb."""
        if link and link.head == "by" and self._verb and self._verb[0].passive:
            return "ARG0"
        if node.modifier:
            return node.modifier
        if joined and self._after:
            return self._after[-1].role
        self._objects += 1
        return "ARG1" if self._objects == 1 else "ARG2"

    def _read_verb(self, place: int, piece: Piece) -> None:
        node = _Node(VERB, list(piece.places))
        self.nodes.append(node)
        if self._object_acts(place, piece):
            self._subjects = [self._after[-1]]
        undergoes = piece.passive or piece.head == "be"
        self._subjects = self._taken(node) or self._subjects
        for subject in self._subjects:
            self._attach(node, subject, "ARG1" if undergoes else "ARG0")
        self._objects = int(undergoes and bool(self._subjects))
        self._pending, self._after, self._verb = [], [], (piece, node)

    def _object_acts(self, place: int, piece: Piece) -> bool:
        """Whether the verb is done by the object right before it."""
        before = self._before(place, "noun")
        if before is None or not self._after or self._verb is None or piece.finite:
            return False
        return self._after[-1].modifier is None and self._verb[0].head in words_of("object acts")

    def _taken(self, verb: _Node) -> list[_Node]:
        """The subjects among the nouns before a verb; the others become part of one, or belong to the verb."""
        subjects: list[_Node] = []
        for noun in self._pending:
            if noun.modifier is None:
                subjects.append(noun)
            elif subjects:
                subjects[-1].places += [*noun.link, *noun.places]
                self.nodes.remove(noun)
            else:
                self._attach(verb, noun, noun.modifier)
        return subjects

    def _attach(self, verb: _Node, noun: _Node, role: str) -> None:
        """Put an edge; a noun that has a role keeps it."""
        if noun.role == NOUN:
            noun.role = role
            noun.places[:0] = noun.link
        self.edges.append((verb, noun))

    def _before(self, place: int, kind: Kind) -> Piece | None:
        """The piece before a place if it is of this kind."""
        return self.pieces[place - 1] if place > 0 and self.pieces[place - 1].kind == kind else None


def _modifier(noun: Piece, link: Piece | None) -> str | None:
    """The role that its preposition gives a noun; None where there is none."""
    if link is None:
        return None
    return "ARGM-TMP" if noun.head in words_of("time") else _role_after().get(link.head, _OTHER_PREPOSITION)


@lru_cache(maxsize=1)
def _role_after() -> dict[str, str]:
    """The role that each preposition gives."""
    return {word: role for role in ROLES for word in words_of(role)}


def _node(node: Mapping[str, Any], words: int) -> RoleNode:
    role, spans = str(node["role"]), sorted(set(node["spans"]))
    if not spans or not all(type(place) is int and 0 <= place < words for place in spans):
        raise ValueError(f"the spans {node['spans']} are not places of its {words} words")
    plain = role.removeprefix("C-").removeprefix("R-")
    return RoleNode(plain if plain in ROLES else NOUN, tuple(spans))


def _between(
    nodes: Mapping[str, RoleNode], edges: Sequence[tuple[str, str]], named: Mapping[str, Any]
) -> Iterator[tuple[int, int]]:
    """The edges from verbs to nouns, by place."""
    place = {name: number for number, name in enumerate(nodes)}
    for ends in edges:
        if missing := set(ends) - named.keys():
            raise KeyError(min(missing))
        first, second = ends
        if first in nodes and second in nodes and nodes[first].is_verb and not nodes[second].is_verb:
            yield place[first], place[second]
