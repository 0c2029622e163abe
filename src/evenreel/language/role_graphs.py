"""Semantic role graphs of captions: actions, and the noun phrases that take part in each, by their role.

HGR reads them (Chen et al. 2020, 'Fine-grained Video-Text Retrieval with Hierarchical Graph Reasoning', section 3.1).
Its graphs are from a network for semantic role labelling; `role_graph_of_json` reads these where a benchmark has them.
`role_graph` makes them of tagged words by a few rules, offline and for any caption.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from evenreel.documents import parse_json
from evenreel.errors import CorpusError
from evenreel.language.role_pieces import Kind, Piece, is_word, pieces_of, verb_follows, words_of
from evenreel.language.tokens import Tagged, Token
from evenreel.types import RoleGraph, RoleNode

VERB, NOUN = "V", "NOUN"

ROLES = (
    VERB,
    "ARG1",
    "ARG0",
    "ARG2",
    "ARG3",
    "ARG4",
    "ARGM-LOC",
    "ARGM-MNR",
    "ARGM-TMP",
    "ARGM-DIR",
    "ARGM-ADV",
    "ARGM-PRP",
    "ARGM-PRD",
    "ARGM-COM",
    "ARGM-MOD",
    NOUN,
)
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

    >>> from evenreel.language.pattern import PatternTagger
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
    words = tuple(_small(tokens[place]) for place in places)
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

    Args:
        text: `[{name: {"role", "spans", "words"}}, [[from, to, role]]]`.

    Raises:
        CorpusError: the text has another form.

    >>> role_graph_of_json('[{"ROOT": {"role": "ROOT", "words": ["Wash", "plate"]}, "1": {"role": "V", "spans": [0]}, '
    ...                    '"2": {"role": "ARG1", "spans": [1]}}, [["1", "2", "ARG1"]]]')
    RoleGraph(words=('wash', 'plate'), nodes=(RoleNode(role='V', words=(0,)), RoleNode(role='ARG1', words=(1,))), \
edges=((0, 1),))
    """
    try:
        named, edges = parse_json(text)
        words = _root_words(named)
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


def _small(token: Token) -> str:
    return sys.intern(token.text.lower().replace("’", "'"))


def _root_words(named: Mapping[str, Any]) -> tuple[str, ...]:
    for node in named.values():
        if node["role"] == _ROOT:
            return tuple(sys.intern(str(word).lower()) for word in node["words"])
    raise KeyError(_ROOT)


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
