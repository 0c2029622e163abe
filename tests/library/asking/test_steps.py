"""What is read as 'A, then B' and as 'A without B', and what is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.library.search.asking import Then, Without, read_question, read_steps
from evenreel.library.search.query import PlainText, UnfinishedText, as_sentence

WORDS = st.text("abc xyz", min_size=1, max_size=20).map(str.strip).filter(bool)


@pytest.mark.parametrize(
    "text",
    [
        "a bus, then a dog",
        "a bus then a dog",
        "a bus and then a dog",
        "a bus; THEN, a dog",
        "  a bus , and\tthen a dog",
    ],
)
def test_both_parts_are_read_however_they_are_joined(text: str) -> None:
    assert read_steps(text, 5) == Then("a bus", "a dog", 5)


@pytest.mark.parametrize(
    "text",
    ['"now then" on a sign', "strengthen a rope", "the authentic one", 'said: "and then"', "a band", "„then“ a bus"],
)
def test_then_within_quotes_and_words_is_text(text: str) -> None:
    assert read_question(text) == text


def test_a_caption_is_one_query_whatever_words_it_has() -> None:
    for caption in ("a man sits, then stands", "then", "a street without cars"):
        asked = read_question(as_sentence(caption))
        assert type(asked) is PlainText
        assert asked == caption


def test_parts_have_channels_and_quotes_of_their_own() -> None:
    asked = read_steps('said: "mind the gap" then on-screen: exit')
    assert asked == Then('said: "mind the gap"', "on-screen: exit")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("then a dog", "before 'then'"),
        ("and then a dog", "before 'then'"),
        ("a bus then", "after 'then'"),
        ("a bus then ,", "after 'then'"),
        ("then", "before 'then'"),
        ("a then b then c", "2 times"),
        ("a, then b, then c, then d", "3 times"),
    ],
)
def test_an_empty_part_and_several_thens_are_refused(text: str, sentence: str) -> None:
    """Hazard 160."""
    with pytest.raises(UsageError, match=sentence):
        read_steps(text)


@pytest.mark.parametrize("within_s", [0, -1, math.nan, math.inf, 1e7])
def test_a_gap_that_nothing_can_lie_in_is_refused(within_s: float) -> None:
    """Hazard 161."""
    with pytest.raises(UsageError, match="seconds above 0"):
        Then("a", "b", within_s)


def test_what_is_still_typed_waits_for_its_second_part() -> None:
    assert read_steps(UnfinishedText("a bus then ")) == "a bus"
    assert read_steps(UnfinishedText("then")) == "then"
    asked = read_steps(UnfinishedText("a bus then a d"))
    assert isinstance(asked, Then)
    assert isinstance(asked.second, UnfinishedText)
    assert not isinstance(asked.first, UnfinishedText)


@given(WORDS, WORDS)
def test_whatever_the_parts_are_they_are_read_back(first: str, second: str) -> None:
    assert read_steps(f"{first}, then {second}") == Then(first, second)


def test_without_is_read_where_pictures_are_asked_and_both_parts_are_there() -> None:
    assert read_question("a street, without cars") == Without("a street", "cars")
    for text in (
        "without cars",
        "a street without",
        "said: not without cars",
        "a without b without c",
        '"a without b"',
    ):
        assert read_question(text) == text
    with pytest.raises(UsageError, match="one is empty"):
        Without("a", " ")
