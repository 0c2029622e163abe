"""Captions as role graphs: worked by hand, and read from HGR's own form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import CorpusError
from evenreel.language import Tagged, Token
from evenreel.language.role_graphs import NO_WORD, ROLES, role_graph, role_graph_of_json
from evenreel.language.taggers import PatternTagger
from evenreel.types import RoleGraph
from tests.language.words import WORDS

TAGGER = PatternTagger()


def graph_of(caption: str) -> RoleGraph:
    [tokens] = TAGGER.tag([caption])
    return role_graph(tokens)


def shown(graph: RoleGraph) -> dict[str, list[str]]:
    """Each verb, and what stands alone, with its nouns: `role words`."""
    texts = [f"{node.role} {' '.join(graph.words[place] for place in node.words)}" for node in graph.nodes]
    of = {text: [texts[noun] for verb, noun in graph.edges if verb == place] for place, text in enumerate(texts)}
    taking_part = {noun for _, noun in graph.edges}
    return {text: of[text] for place, text in enumerate(texts) if place not in taking_part}


WORKED: dict[str, dict[str, list[str]]] = {
    "cut tomato": {"V cut": ["ARG1 tomato"]},
    "A man is slowly cutting 2 ripe tomatoes with a knife!": {
        "V cutting": ["ARG0 a man", "ARG1 2 ripe tomatoes", "ARGM-MNR with a knife"]
    },
    "a ball is thrown by a boy": {"V thrown": ["ARG1 a ball", "ARG0 by a boy"]},
    "a piece of wood is being cut": {"V cut": ["ARG1 a piece of wood"]},
    "a person puts a plate on the table": {"V puts": ["ARG0 a person", "ARG1 a plate", "ARGM-LOC on the table"]},
    "pour water into pan": {"V pour": ["ARG1 water", "ARGM-DIR into pan"]},
    "take plate and wash fork": {"V take": ["ARG1 plate"], "V wash": ["ARG1 fork"]},
    "a woman sings and is walking": {"V sings": ["ARG0 a woman"], "V walking": ["ARG0 a woman"]},
    "a man gives a girl a book": {"V gives": ["ARG0 a man", "ARG1 a girl", "ARG2 a book"]},
    "he cuts onions, carrots and a leek": {"V cuts": ["ARG0 he", "ARG1 onions", "ARG1 carrots", "ARG1 a leek"]},
    "people dance and a band plays music": {"V dance": ["ARG0 people"], "V plays": ["ARG0 a band", "ARG1 music"]},
    "a man eats while a dog in a hat barks": {"V eats": ["ARG0 a man"], "V barks": ["ARG0 a dog in a hat"]},
    "in the kitchen a man cooks before lunch": {
        "V cooks": ["ARGM-LOC in the kitchen", "ARG0 a man", "ARGM-TMP before lunch"]
    },
    "two dogs play in the morning": {"V play": ["ARG0 two dogs", "ARGM-TMP in the morning"]},
    "there is a man riding a horse": {"V is": ["ARG1 a man"], "V riding": ["ARG1 a man", "ARG1 a horse"]},
    "a man riding a horse jumps over a fence": {
        "V riding": ["ARG0 a man", "ARG1 a horse"],
        "V jumps": ["ARG0 a man", "ARGM-LOC over a fence"],
    },
    "a man is on a horse": {"V is": ["ARG1 a man", "ARGM-LOC on a horse"]},
    "a boy and a very big cat are jumping while a man and a girl watch": {
        "V jumping": ["ARG0 a boy", "ARG0 a very big cat"],
        "V watch": ["ARG0 a man", "ARG0 a girl"],
    },
    "he explains why one of two men has a good time": {
        "V explains": ["ARG0 he"],
        "V has": ["ARG0 one of two men", "ARG1 a good time"],
    },
    "she rides around on a horse on top of the hill": {
        "V rides around": ["ARG0 she", "ARGM-LOC on a horse", "ARGM-LOC on top of the hill"]
    },
    "turn the tap on": {"V turn on": ["ARG1 the tap"]},
    "pick up plate from sink": {"V pick up": ["ARG1 plate", "ARGM-DIR from sink"]},
    "a chef stirs up the sauce": {"V stirs up": ["ARG0 a chef", "ARG1 the sauce"]},
    "he walks up the stairs": {"V walks": ["ARG0 he", "ARGM-DIR up the stairs"]},
    "a cat jumps out of the box next to the sofa": {
        "V jumps": ["ARG0 a cat", "ARGM-DIR out of the box", "ARGM-LOC next to the sofa"]
    },
    "a man runs. a dog barks": {"V runs": ["ARG0 a man"], "V barks": ["ARG0 a dog"]},
    "a girl's red car in a street": {"NOUN a girl 's red car": [], "NOUN a street": []},
    "running": {"V running": []},
    "slowly and quietly": {},
    "一个男人在跑步": {"NOUN 一个男人在跑步": []},
}


@pytest.mark.parametrize("caption", WORKED)
def test_captions_worked_by_hand(caption: str) -> None:
    assert shown(graph_of(caption)) == WORKED[caption]


def test_words_are_all_but_marks_in_small_letters() -> None:
    assert graph_of("A MAN’S dog, 2.5 stir-fried eggs ...").words == (
        "a",
        "man",
        "'s",
        "dog",
        "2.5",
        "stir-fried",
        "eggs",
    )


@pytest.mark.parametrize("caption", ["", "...", "\U0001f600 !"])
def test_a_caption_without_a_word(caption: str) -> None:
    assert graph_of(caption) == RoleGraph((NO_WORD,))


def test_another_tagger_may_call_a_mark_a_noun_or_a_verb() -> None:
    tokens: Tagged = (Token("*", "*", "NN"), Token("-", "-", "VB"), Token("cat", "cat", "NN"))
    assert role_graph(tokens).words == ("cat",)
    assert [node.words for node in role_graph(tokens).nodes] == [(0,)]


@given(st.lists(st.sampled_from((*WORDS, ",", ".", "while", "by", "it", "been")), max_size=14).map(" ".join))
def test_every_graph_is_whole(caption: str) -> None:
    """Its roles are known, its places are there, and edges go from verbs to nouns, none of which is called alone."""
    graph = graph_of(caption)
    for node in graph.nodes:
        assert node.role in ROLES
        assert list(node.words) == sorted(set(node.words))
        assert node.words[-1] < len(graph.words)
    assert all(graph.nodes[verb].is_verb and not graph.nodes[noun].is_verb for verb, noun in graph.edges)
    taking_part = {noun for _, noun in graph.edges}
    assert all((node.role in ("V", "NOUN")) != (place in taking_part) for place, node in enumerate(graph.nodes))


def hgr(nodes: dict[str, Any], edges: list[list[str]] | None = None) -> str:
    root = {"role": "ROOT", "spans": [0, 1, 2, 3], "words": ["A", "dog", "barks", "."]}
    return json.dumps([{"0": root, **nodes}, edges or []])


def test_a_graph_of_hgr() -> None:
    verb, noun = {"role": "V", "spans": [2]}, {"role": "R-ARG0", "spans": [1, 0]}
    graph = role_graph_of_json(
        hgr({"v": verb, "n": noun, "x": {"role": "ARGM-GOL", "spans": [3]}}, [["0", "v", "V"], ["v", "n", "ARG0"]])
    )
    assert graph.words == ("a", "dog", "barks", ".")
    assert [(node.role, node.words) for node in graph.nodes] == [("V", (2,)), ("ARG0", (0, 1)), ("NOUN", (3,))]
    assert graph.edges == ((0, 1),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name"),
        ("[[], []]", "'list' object has no attribute"),
        ("[{}, []]", "'ROOT' is missing"),
        (hgr({"v": {"role": "V", "spans": [4]}}), r"the spans \[4\] are not places of its 4 words"),
        (hgr({"v": {"role": "V", "spans": []}}), r"the spans \[\] are not places"),
        (hgr({"v": {"role": "V", "spans": [True]}}), r"the spans \[True\] are not places"),
        (hgr({"v": {"spans": [1]}}), "'role' is missing"),
        (hgr({"v": {"role": "V", "spans": [1]}}, [["v", "n", "ARG0"]]), "'n' is missing"),
        (hgr({}, [["v"]]), "not enough values"),
    ],
)
def test_a_graph_that_is_malformed(text: str, why: str) -> None:
    with pytest.raises(CorpusError, match=rf"not in the form of HGR \(.*{why}"):
        role_graph_of_json(text)
