"""How captions are worded: style, words taken out or scrambled, by hand and of any caption; word vectors."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.language import load_tagger
from evenreel.language.tokens import Tagged, split_words
from evenreel.language.wording import (
    EDITS,
    VOWELS,
    Wording,
    babbled,
    generic,
    paraphrased,
    read_word_vectors,
    restyled,
    rewritten,
    scrambled,
    toggle_marks,
    without,
    wording,
)
from evenreel.planted import vocabulary
from tests.language.words import WORDS

TAGGER = load_tagger("pattern")

PARTS = {
    "a small violet disc, as noted": ("", "a small violet disc", ", as noted"),
    "look at this: a video of a red circle on a beach": ("look at this: a video of ", "a red circle on a beach", ""),
    "i think, there is a red heart": ("i think, there is ", "a red heart", ""),
    "someone shows this: we see a green ring": ("someone shows this: we see ", "a green ring", ""),
    "shown by someone: a red star": ("shown by someone: ", "a red star", ""),
    "Two dogs are playing in the park.": ("", "two dogs are playing in the park", "."),
    "someone is cutting a loaf of bread": ("", "someone is cutting a loaf of bread", ""),
    "a red ring, end of clip": ("", "a red ring", ", end of clip"),
    "The car is very red, wow!": ("", "the car is very red", ", wow!"),
    "a man drives his car down the road": ("", "a man drives his car down the road", ""),
    "two girls are talking to each other": ("", "two girls are talking to each other", ""),
    "a cook adds the salt and stirs it well": ("", "a cook adds the salt and stirs it well", ""),
    "a very young and happy girl is dancing": ("", "a very young and happy girl is dancing", ""),
    "in the ocean a man rides a wave": ("", "in the ocean a man rides a wave", ""),
    "one of two boys is walking on eggs": ("", "one of two boys is walking on eggs", ""),
    "He walked into a shop.": ("", "he walked into a shop", "."),
    "in this clip she is cooking": ("in this clip ", "she is cooking", ""),
    "i think he finds his friends": ("i think ", "he finds his friends", ""),
    "someone looking at a japanese book": ("", "someone looking at a japanese book", ""),
    "two people talk while others watch": ("", "two people talk while others watch", ""),
    "this is a rock band music video": ("this is ", "a rock band music video", ""),
    "there was a gun in the box": ("there was ", "a gun in the box", ""),
    "there are pictures and quotes of a poet": ("", "there are pictures and quotes of a poet", ""),
    "a video on how to cook rice": ("a video on how to ", "cook rice", ""),
    "a glass of beer is shown.": ("", "a glass of beer", " is shown."),
    "no cars are not seen": ("", "no cars are not seen", ""),
    "the sun comes into the picture": ("", "the sun comes into the picture", ""),
    "a man sings in this video": ("", "a man sings", " in this video"),
    "Then, the boys run home.": ("Then, ", "the boys run home", "."),
    " We see a dog.": ("We see ", "a dog", "."),
}


def parts(caption: str) -> Wording | None:
    return wording(caption, TAGGER.tag([caption])[0])


@pytest.mark.parametrize("caption", PARTS)
def test_a_caption_falls_into_style_and_content(caption: str) -> None:
    found = parts(caption)
    assert found is not None
    assert (found.before, found.content, found.after) == PARTS[caption]


def test_adverbs_and_exclamations_inside_the_content_are_style_but_negations_are_not() -> None:
    for caption, bare in {
        "a woman happily explains how to cook pasta": "a woman explains how to cook pasta",
        "a girl doesn't eat the soup": "a girl doesn't eat the soup",
        "a person is very quickly folding paper into a boat": "a person is folding paper into a boat",
        "a dog - oh my - jumps over a fence": "a dog jumps over a fence",
        "a boy walks down and then slowly up the stairs": "a boy walks down and then up the stairs",
        "a tea is less sweet, only one cup is left": "a tea is less sweet, only one cup is left",
        "A cat sits. It really sleeps!": "a cat sits. It sleeps",
        "a box of Simply Fresh at 2:30": "a box of Simply Fresh at 2:30",
    }.items():
        found = parts(caption)
        assert found is not None and found.bare == bare


def test_a_caption_of_nothing_but_style_stays_as_it_is() -> None:
    assert parts("a video.") is None and parts("") is None
    texts = ["a video.", "a dog runs", "a cat jumps"]
    for edit in EDITS:
        assert restyled(edit, texts, ["a", "b", "c"], TAGGER)[0] == "a video."


def test_the_habits_of_planted_annotators_are_taken_off() -> None:
    contents = ["a red circle", "a small violet disc"]
    habits = [habit for some in vocabulary.annotators().values() for habit in some]
    texts = [habit.format(caption=content) for habit in habits for content in contents]
    assert restyled("style-removed", texts, ["a"] * len(texts), TAGGER) == contents * len(habits)


def test_style_and_content_change_hands_between_clips() -> None:
    """The lender is of another clip, and the two edits with one seed put together are the captions themselves."""
    contents = [f"a {colour} {shape}" for colour in ("red", "blue") for shape in ("square", "star", "heart")]
    styles = ["we see {}", "{}, as one can see", "in this video there is {}.", "{}!", "this is a clip of {}", "{}"]
    texts = [style.format(content) for style, content in zip(styles, contents, strict=True)]
    clips = ["v", "v", "w", "w", "x", "x"]
    swapped, turned = (restyled(edit, texts, clips, TAGGER, 7) for edit in ("style-swapped", "content-swapped"))
    for row, (new, old) in enumerate(zip(swapped, turned, strict=True)):
        (lender,) = (place for place, style in enumerate(styles) if style.format(contents[row]) == new)
        assert clips[lender] != clips[row]
        assert old == styles[row].format(contents[lender])
    assert restyled("style-swapped", texts, clips, TAGGER, 7) == swapped
    assert restyled("content-removed", texts, clips, TAGGER) == [style.format("something") for style in styles]


def test_capitals_go_with_the_style() -> None:
    texts = ["A man runs.", "we see a dog"]
    assert restyled("style-swapped", texts, ["a", "b"], TAGGER) == ["we see a man runs", "A dog."]
    assert restyled("content-removed", texts, ["a", "b"], TAGGER) == ["Something.", "we see something"]
    assert restyled("content-removed", ["USA flag waves"], ["a"], TAGGER) == ["Something"]


@given(st.lists(st.sampled_from([*PARTS, "USA flag waves", "it's 2.5 m high - wow"]), min_size=1, max_size=3))
def test_the_parts_are_the_caption(some: list[str]) -> None:
    caption = " and ".join(some)
    found = parts(caption)
    if found is not None:
        assert found.around(found.content).lower() == caption.strip().lower()
        words = iter(split_words(found.content))
        assert all(word in words for word in split_words(found.bare))  # each after the one before


def test_patterns_wrap_captions_as_often_as_each_other() -> None:
    patterns = ["here: {caption}", "{caption} (seen)"]
    found = paraphrased(["A man runs"] * 400, patterns, seed=1)
    assert set(found) == {"here: a man runs", "A man runs (seen)"}
    assert np.mean([text.startswith("here") for text in found]) == pytest.approx(0.5, abs=0.1)
    assert paraphrased(["USA wins", "I win"], ["so {caption}"]) == ["so USA wins", "so I win"]


def test_the_control_changes_no_word() -> None:
    assert [toggle_marks(text) for text in ("a dog", "A dog.", " it {x} ")] == ["A dog.", "a dog", "It {x}."]


def test_what_is_wrong_is_said_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="of fewer than two clips"):
        restyled("style-swapped", ["a dog", "a cat"], ["a", "a"], TAGGER)
    with pytest.raises(UsageError, match="There is no pattern"):
        paraphrased(["a dog"], [])


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


seeds = st.integers(0, 99)


@given(st.text(max_size=30), seeds)
def test_every_letter_and_digit_becomes_another_one_and_a_vowel_that_is_to_be_said_a_vowel(
    text: str, seed: int
) -> None:
    for change in (scrambled, babbled):
        other = change(text, np.random.default_rng(seed))
        assert len(other) == len(text)
        for before, after in zip(text, other, strict=True):
            assert (before == after) != before.isalnum()
            assert before.isdecimal() == after.isdecimal() and before.isupper() == after.isupper()
            assert change is scrambled or (before.lower() in VOWELS) == (after.lower() in VOWELS)


def test_a_single_digit_becomes_each_of_the_others_as_often() -> None:
    random = np.random.default_rng(0)
    drawn = [scrambled("7", random) for _ in range(900)]
    assert set(drawn) == set("012345689")
    assert max(drawn.count(one) for one in set(drawn)) < 150


GLOVE = "the 0.5 -1 2\nat name 1 1 1\ncat 3 4 5e-1 \nnaïve 7 8 9\ncat 0 0 0\n"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("header", ["", "5 3\n"])
def test_only_the_words_asked_for(tmp_path: Path, header: str, *, packed: bool) -> None:
    """The first line of a word counts, a word with spaces is one word, and a word may be asked for twice."""
    place = tmp_path / "vectors.txt"
    text = (header + GLOVE).encode()
    place.write_bytes(gzip.compress(text) if packed else text)
    found, vectors = read_word_vectors(place, ["cat", "dog", "naïve", "at", "cat"])
    assert found.tolist() == [True, False, True, False, True]
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[3, 4, 0.5], [0, 0, 0], [7, 8, 9], [0, 0, 0], [3, 4, 0.5]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("the 1 2\ncat 1\n", "Line 2 of .* is not a word and 2 finite numbers"),
        ("the 1 2\n\ncat 1 2\n", "Line 2 of"),
        ("the 1 2\ncat 1 two\n", "Line 2 of"),
        ("the 1 2\ncat 1 nan\n", "Line 2 of"),
        ("", "Line 1 of .* is no word with its vector"),
        ("2 3\n", "Line 2 of .* is no word with its vector; give GloVe's or word2vec's text form, unpacked or as"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, why: str) -> None:
    place = tmp_path / "vectors.txt"
    place.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=why):
        read_word_vectors(place, ["cat"])


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"word vectors in .*none\.txt cannot be read: .*No such file"):
        read_word_vectors(tmp_path / "none.txt", ["cat"])
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(GLOVE.encode())[:-9])
    with pytest.raises(UsageError, match="cannot be read"):
        read_word_vectors(broken, ["cat"])


def test_a_pickle_or_a_binary_file_is_no_text(tmp_path: Path) -> None:
    place = tmp_path / "vectors.bin"
    place.write_bytes(b"2 3\nthe " + np.ones(3, np.float32).tobytes() + b"cat " + np.ones(3, np.float32).tobytes())
    with pytest.raises(UsageError, match=r"is not a word and|is no word with"):
        read_word_vectors(place, ["cat", "the"])
