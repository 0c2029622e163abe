"""Content and style of captions: what is which, and what an edit leaves as it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.language import load_tagger
from evenreel.language.tokens import split_words
from evenreel.language.wording import EDITS, Wording, paraphrased, restyled, toggle_marks, wording
from evenreel.planted import vocabulary

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
