"""Captions with words taken out, made general or replaced: written out by hand, and as a property of any caption."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.language import load_tagger
from evenreel.language.tokens import Tagged, split_words
from evenreel.language.wording import generic, rewritten, without
from tests.language.words import WORDS

TAGGER = load_tagger("pattern")

WITHOUT = [
    ("A man, a dog and a cat run.", {"man", "dog"}, "A, a and a cat run."),
    ("a man and the man's dog", {"man"}, "a and the dog"),
    ("two people, dogs, cats", {"cats"}, "two people, dogs"),
    ("dogs, cats and birds.", {"dogs"}, "cats and birds."),
    ("Dogs , cats , and birds .", {"cats"}, "Dogs, and birds."),
    ("an orange cat sits", {"orange"}, "a cat sits"),
    ("An old umbrella", {"old"}, "An umbrella"),
    ("a big umbrella", {"big"}, "an umbrella"),
    ("an old unicycle", {"old"}, "a unicycle"),
    ("an old unidentified man", {"old"}, "an unidentified man"),
    ("a small ukulele", {"small"}, "a ukulele"),
    ("a metal utensil", {"metal"}, "a utensil"),
    ("the dogs' tails", {"dogs"}, "the tails"),
    ("a man says 'dog' loudly", {"dog"}, "a man says '' loudly"),
    ("a man is cooking", {"man"}, "a is cooking"),
    ("a very old orange", {"old"}, "a very orange"),
    ("  red cars, red buses!", {"red"}, "cars, buses!"),
]

GENERIC = [
    ("The man is playing a big guitar", {"man"}, "Something is playing a big guitar"),
    ("The man is playing a big guitar", {"playing"}, "The man is doing something with a big guitar"),
    ("The man is playing a big guitar", {"big"}, "The man is playing a guitar"),
    ("a young man sings", {"man"}, "a young something sings"),
    ("a man sings", {"sings"}, "a man does something"),
    ("a man cuts his hair", {"cuts"}, "a man does something with his hair"),
    ("two dogs run on the grass", {"dogs", "run"}, "two things do something on the grass"),
    ("the ball was thrown by a boy", {"thrown"}, "the ball was done by a boy"),
    ("a dog's tail", {"dog"}, "something's tail"),
]


@pytest.mark.parametrize(("caption", "gone", "left"), WITHOUT)
def test_what_is_left_without_a_word(caption: str, gone: set[str], left: str) -> None:
    assert without(caption, *tagged(caption, gone)) == left


@pytest.mark.parametrize(("caption", "gone", "left"), GENERIC)
def test_what_says_nothing_instead(caption: str, gone: set[str], left: str) -> None:
    assert generic(caption, *tagged(caption, gone)) == left


def test_another_word_has_the_article_and_the_capital_that_it_asks_for() -> None:
    text = "Dogs chase a cat"
    tokens, _ = tagged(text, set())
    assert rewritten(text, tokens, {0: "owls", 3: "elephant"}) == "Owls chase an elephant"


@given(st.lists(st.sampled_from([*WORDS, ",", "."]), min_size=1, max_size=10), st.data())
def test_the_other_words_stay_as_they_were(words: list[str], data: st.DataObject) -> None:
    """But for `a` and `an`, which have the form of each other in no word of this list."""
    caption = " ".join(words)
    [tokens] = TAGGER.tag([caption])
    places = data.draw(st.sets(st.integers(0, len(tokens) - 1)))
    left = [token.text for place, token in enumerate(tokens) if place not in places]
    made = without(caption, tokens, places)
    assert letters(split_words(made)) == letters(left)
    assert made == " ".join(made.split())
    assert not any(pair in made for pair in (" ,", ", ,", ",,", ",."))


def tagged(caption: str, words: set[str]) -> tuple[Tagged, set[int]]:
    """Tokens of a caption, and the places of some words of it."""
    [tokens] = TAGGER.tag([caption])
    return tokens, {place for place, token in enumerate(tokens) if token.text.lower() in words}


def letters(words: list[str]) -> list[str]:
    """Without marks, and with `a` for `an`."""
    return ["a" if word == "an" else word for word in words if word.isalnum()]
