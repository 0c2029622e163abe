"""Edits of one role, attribute or relation, by hand, and what holds of any caption."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.language.composition import ANSWERS, EDITS, SWAPS, attribute_values, opposites, recomposed, with_articles
from evenreel.language.taggers import PatternTagger
from evenreel.language.tokens import split_words

TAGGER = PatternTagger()


def edited(edit: str, *texts: str, clips: list[str] | None = None, seed: int = 0) -> list[str]:
    return recomposed(edit, texts, clips or [f"v{place}" for place in range(len(texts))], TAGGER, seed)


ROLES = [
    ("A dog chases a cat.", "A cat chases a dog."),
    ("the old man is carrying a small boy", "a small boy is carrying the old man"),
    ("a woman was bitten by a man", "a man was bitten by a woman"),
    ("two men follow three women", "three women follow two men"),
    # The verb would have the wrong number, or the sentence would be of nobody, or mean the same, or nothing sensible.
    ("a dog chases two cats", None),
    ("a man plays a guitar", None),
    ("a man kisses a woman", None),
    ("a man rides a horse", None),
    ("a man pets his dog", None),
    ("a group of men follow the women", None),
    ("a man pulls a woman's hair", None),
    ("a man and a woman follow a boy", None),
    ("a dog runs after a cat", "a cat runs after a dog"),
]


@pytest.mark.parametrize(("text", "expected"), ROLES, ids=[text for text, _ in ROLES])
def test_who_does_what_to_whom(text: str, expected: str | None) -> None:
    assert edited("role-swapped", text) == [expected or text]


ATTRIBUTES = [
    ("A red ball lies on an orange box.", "An orange ball lies on a red box."),
    ("an old man", "a young man"),
    ("an old car", "a new car"),
    ("the short man wears short trousers", "the tall man wears short trousers"),
    ("she wears short trousers", "she wears long trousers"),
    ("the bottle is empty", "the bottle is full"),
    ("a hot dog on a white board", None),
    ("a young girl sings", None),
    ("a black and white dog", None),
    ("he opens the open door", "he opens the closed door"),
    ("a man sings", None),
]


@pytest.mark.parametrize(("text", "expected"), ATTRIBUTES, ids=[text for text, _ in ATTRIBUTES])
def test_which_thing_has_which_attribute(text: str, expected: str | None) -> None:
    assert edited("attribute-swapped", text) == [expected or text]


def test_where_there_is_one_attribute_another_value_of_its_kind_is_drawn() -> None:
    drawn = {edited("attribute-swapped", "a red ball", seed=seed)[0] for seed in range(40)}
    colours = ("blue", "green", "yellow", "orange", "purple", "pink", "black", "white", "brown", "gray", "grey")
    assert drawn <= {with_articles(f"a {colour} ball") for colour in colours}
    assert len(drawn) > 5


RELATIONS = [
    ("a cat jumps into the box", "a cat jumps out of the box"),
    ("a man climbs up the ladder", "a man climbs down the ladder"),
    ("A cup stands on the table.", "A cup stands under the table."),
    ("the ball is in front of a dog", "the ball is behind a dog"),
    ("the camera pans from left to right", "the camera pans from right to left"),
    ("a man on the left waves", "a man on the right waves"),
    ("he washes his hands before eating lunch", "he washes his hands after eating lunch"),
    # Parts of verbs and other senses.
    ("a man picks up the ball", None),
    ("she left the room", None),
    ("a woman looks after a baby", None),
    ("a man sits down", None),
    ("a man cuts an apple into pieces", None),
    ("a man plays a song on the guitar", None),
    ("do it the right way", None),
]


@pytest.mark.parametrize(("text", "expected"), RELATIONS, ids=[text for text, _ in RELATIONS])
def test_where_and_when(text: str, expected: str | None) -> None:
    assert edited("relation-swapped", text) == [expected or text]


def test_an_absent_thing_is_one_that_only_other_clips_name() -> None:
    texts = ["A man holds a ball.", "a woman with an owl", "a boy holds a ball", "the man holds a bat"]
    clips = ["a", "b", "c", "a"]
    for seed in range(8):
        negated, affirmed = (edited(edit, *texts, clips=clips, seed=seed) for edit in ("negated", "affirmed"))
        # A ball is the only thing of two clips, so it alone is drawn, and nothing for those that have one.
        assert negated == [texts[0], "a woman with an owl, with no ball in sight", texts[2], texts[3]]
        assert affirmed == [texts[0], "a woman with an owl, with a ball in sight", texts[2], texts[3]]
    # Of things that one clip names alone any is drawn, but nobody where a person is named.
    texts, clips = ["A man holds a ball.", "a woman with an owl"], ["a", "b"]
    assert edited("affirmed", *texts, clips=clips)[0] == "A man holds a ball, with an owl in sight."
    assert edited("negated", "a man runs", "a man runs", clips=["a", "a"]) == ["a man runs", "a man runs"]


def test_six_answers_name_a_thing_that_is_shown_and_the_one_that_negated_denies() -> None:
    texts = ["An owl sees a red ball.", "a woman with a hat", "the boys without a hat", "an owl with a hat"]
    clips = ["a", "b", "c", "d"]
    found = {name: edited(name, *texts, clips=clips, seed=2) for name in ANSWERS}
    assert [one[0] for one in found.values()] == [
        "a video with an owl",
        "a video with no hat",
        "a video with an owl and no hat",
        "a video with a hat",
        "a video with no owl",
        "a video with a hat and no owl",
    ]
    assert found["false-hybrid"][1] == "a video with an owl and no woman"
    # Of the third nothing is said to be there, and all that two clips name the fourth has.
    assert {one[2] for one in found.values()} == {texts[2]}
    assert {one[3] for one in found.values()} == {texts[3]}
    for seed in range(5):
        no = [text.rpartition(" no ")[2] for text in edited("true-negation", *texts, seed=seed)]
        denied = [text.rpartition(" no ")[2].split()[0] for text in edited("negated", *texts, seed=seed)]
        assert no[:2] == denied[:2]


WORDS = sorted({*attribute_values(), *(word for relation, *_ in opposites() for word in relation)})
SOME = st.lists(st.sampled_from([*WORDS, "a", "the", "dog", "cat", "man", "chases", "is", "runs", ",", "’s", "İ", "x"]))


@given(SOME.map(" ".join), st.integers(0, 3))
def test_any_words_stay_or_change_as_the_edit_says(text: str, seed: int) -> None:
    for edit in SWAPS:
        (found,) = edited(edit, text, seed=seed)
        assert edited(edit, text, "a red ball", text, seed=seed)[::2] == [found, found]
        lost, gained = (Counter(split_words(one.lower())) for one in (text, found))
        for article in ("a", "an"):
            lost.pop(article, None)
            gained.pop(article, None)
        if edit == "role-swapped":
            assert lost == gained
        if edit == "attribute-swapped":
            assert (lost - gained).total() == (gained - lost).total() <= 1


@given(st.text(max_size=40))
def test_any_text_is_edited_or_stays(text: str) -> None:
    for edit in EDITS:
        assert len(edited(edit, text, "a cat sees a bird on a red table")) == 2


def test_articles_go_by_the_sound() -> None:
    assert with_articles("an one-eyed a uniform a umbrella an European a honest") == (
        "a one-eyed a uniform an umbrella a European an honest"
    )
    assert with_articles("vitamin A and an FBI agent, a X") == "vitamin A and an FBI agent, a X"


def test_an_unknown_edit_is_refused() -> None:
    with pytest.raises(UsageError, match="'style-removed' is no edit of what captions say of what; there are: role-sw"):
        edited("style-removed", "a man runs")
