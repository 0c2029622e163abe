"""Entities and activities of captions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.language import Phrase, phrases
from evenreel.language.taggers import PatternTagger
from tests.language.words import WORDS

TAGGER = PatternTagger()


def found(caption: str) -> list[Phrase]:
    [tokens] = TAGGER.tag([caption])
    return phrases(tokens)


@pytest.mark.parametrize(
    ("caption", "entities", "activities"),
    [
        ("a man is playing an electric guitar", ["man", "electric guitar"], ["play electric guitar"]),
        ("two big polar bears are fighting", ["big polar bear"], ["fight"]),
        ("turn on the kitchen tap", ["kitchen tap"], ["turn on kitchen tap"]),
        ("he puts down his red cup", ["red cup"], ["put down red cup"]),
        ("a child sits in a car", ["child", "car"], ["sit"]),
        ("a woman is not slowly walking", ["woman"], ["walk"]),
        ("pour water into the pan", ["water", "pan"], ["pour water"]),
        ("", [], []),
        ("slowly and quietly", [], []),
    ],
)
def test_phrases_by_hand(caption: str, entities: list[str], activities: list[str]) -> None:
    listed = found(caption)
    assert [one.text for one in listed if one.kind == "entity"] == entities
    assert [one.text for one in listed if one.kind == "activity"] == activities


def test_heads_and_places() -> None:
    by_text = {one.text: one for one in found("turn on the big kitchen tap")}
    assert by_text["big kitchen tap"] == Phrase("entity", "big kitchen tap", "tap", 3, 6)
    assert by_text["turn on big kitchen tap"] == Phrase("activity", "turn on big kitchen tap", "turn on", 0, 6)


@given(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join))
def test_phrases_are_stretches_of_the_caption(caption: str) -> None:
    [tokens] = TAGGER.tag([caption])
    listed = phrases(tokens)
    assert [one.start for one in listed] == sorted(one.start for one in listed)
    covered: set[int] = set()
    for one in listed:
        assert 0 <= one.start < one.stop <= len(tokens)
        assert one.text
        assert one.text == one.head or one.head in one.text
        if one.kind == "entity":
            assert tokens[one.stop - 1].part == "noun"
            assert not covered & set(range(one.start, one.stop))
            covered |= set(range(one.start, one.stop))
        else:
            assert tokens[one.start].part == "verb"
    nouns = {place for place, token in enumerate(tokens) if token.part == "noun"}
    assert nouns <= covered
