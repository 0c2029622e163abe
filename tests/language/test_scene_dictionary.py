"""Scene dictionaries: what captions name, counted once a caption, within limits; lists; functions of the user's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies

from evenreel.errors import UsageError
from evenreel.language.scene_elements import (
    Elements,
    MiningSettings,
    SceneDictionary,
    dictionary_of,
    given,
    mine,
    packaged,
    read_elements,
)
from evenreel.language.synonyms import Synonyms
from evenreel.language.taggers import PatternTagger

EVERY = MiningSettings("pattern", min_captions=1)


def named(caption: str, settings: MiningSettings = EVERY) -> Elements:
    return read_elements([caption], settings=settings)[0]


@pytest.mark.parametrize(
    ("caption", "entities", "activities"),
    [
        ("Kick a big red ball.", "big red ball; red ball; ball", "kick big red ball; kick red ball; kick ball; kick"),
        ("Someone is showing how to cut ripe tomatoes", "ripe tomato; tomato", "cut ripe tomato; cut tomato; cut"),
        ("several people eating hot dogs", "people; hot dog", "eat hot dog; eat"),
        ("a woman turns on the tap", "woman; tap", "turn on tap; turn on"),
        ("the car drives down the street", "car; street", "drive down street; drive"),
        ("her dog sits on a chair", "dog; chair", "sit on chair; sit"),
        ("video of a girl playing the guitar", "girl; guitar", "play guitar; play"),
        ("a pair of scissors cutting 3 pieces of paper", "scissors; paper", "cut"),
        ("he is there", "", ""),
        ("!!! 12", "", ""),
    ],
)  # fmt: skip
def test_what_a_caption_names(caption: str, entities: str, activities: str) -> None:
    found = named(caption)
    assert ("; ".join(found.entities), "; ".join(found.activities)) == (entities, activities)


def test_forms() -> None:
    caption = "a man kicks a small red ball"
    whole = named(caption, MiningSettings("pattern", modifiers="whole", objects="whole"))
    assert whole == Elements(("man", "small red ball"), ("kick small red ball",))
    bare = named(caption, MiningSettings("pattern", modifiers="bare", objects="bare"))
    assert bare == Elements(("man", "ball"), ("kick",))
    plain = named(caption, MiningSettings("pattern", modifiers="bare", objects="whole"))
    assert plain.activities == ("kick ball",)


def test_synonyms_stand_for_each_other() -> None:
    groups = Synonyms({"chop": "cut"}, {"couch": "sofa"})
    found = named("a man chops an old couch", MiningSettings("pattern", synonyms=groups))
    assert found == Elements(("man", "old sofa", "sofa"), ("cut old sofa", "cut sofa", "cut"))


def test_a_caption_counts_once_and_the_most_frequent_come_first() -> None:
    captions = ["a dog and a dog run", "a dog runs", "a cat sleeps", "a bird sleeps"]
    found = mine(captions, settings=EVERY)
    assert (found.entities, found.entity_counts) == (("dog", "bird", "cat"), (2, 1, 1))
    assert (found.activities, found.activity_counts) == (("run", "sleep"), (2, 2))
    assert (found.captions, found.source) == (4, f"captions, read by {PatternTagger().name}")


@for_all(
    strategies.lists(strategies.lists(strategies.sampled_from("abcdef"), max_size=5), max_size=12),
    strategies.integers(1, 4),
    strategies.integers(1, 5),
)
def test_limits_keep_the_most_frequent(captions: list[list[str]], least: int, most: int) -> None:
    rows = [Elements(tuple(dict.fromkeys(names)), ("do",)) for names in captions]
    limits = MiningSettings(min_captions=least, max_entities=most)
    by_hand = Counter({letter: sum(letter in names for names in captions) for letter in "abcdef"})
    expected = [letter for letter, count in sorted(by_hand.items(), key=lambda one: -one[1]) if count >= least][:most]
    if len(rows) < least:
        with pytest.raises(UsageError, match="No phrase is named by"):
            dictionary_of(rows, limits, "")
        return
    found = dictionary_of(rows, limits, "letters")
    assert list(found.entities) == expected
    assert found.entity_counts == tuple(by_hand[letter] for letter in expected)


def test_a_function_of_the_users_is_asked_once_for_each_caption() -> None:
    asked: list[str] = []

    def extract(captions: Sequence[str]) -> list[Mapping[str, Sequence[str]]]:
        asked.extend(captions)
        return [{"entities": ["The Red Balls", " "], "activities": ["is kicking the balls"]} for _ in captions]

    found = mine(["one", "two", "one"], extract, MiningSettings(min_captions=3))
    assert (found.entities, found.entity_counts, found.activities) == (("red ball",), (3,), ("kick ball",))
    assert (asked, found.source) == (["one", "two"], "captions, read by a function of the user's")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("no list", "gave 'no list' for 2 captions; it is to give a list"),
        ([{"entities": [], "activities": []}], "gave 1 answers for 2 captions, the first of which is 'a cat'"),
        ([None, None], "For the caption 'a cat' .* gave None"),
        ([{"entities": ["cat"]}] * 2, "two lists of phrases"),
        ([{"entities": "cat", "activities": []}] * 2, "two lists of phrases"),
        ([{"entities": [3], "activities": []}] * 2, "two lists of phrases"),
    ],
)
def test_wrong_answers_are_told_with_their_caption(answers: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        mine(["a cat", "a dog"], lambda captions: answers)


def test_lists_are_kept_as_they_are_written() -> None:
    found = given([" Red   Ball", "Tomatoes"], ["is running"])
    assert (found.entities, found.activities) == (("Red Ball", "Tomatoes"), ("is running",))
    assert (found.entity_counts, found.captions, found.uses) == ((), 0, ())


@pytest.mark.parametrize(
    ("entities", "activities", "said"),
    [
        ([], [], "neither entities nor activities"),
        (["ball", " "], [], "Phrase 2 of the entities is empty"),
        ([], ["run", "run "], "'run' is there more than once among the activities"),
    ],
)
def test_lists_that_are_none_are_refused(entities: list[str], activities: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        given(entities, activities)


def test_the_digest_is_of_the_phrases_and_their_order() -> None:
    one = SceneDictionary(("a", "b"), ("c",), (2, 1), (1,), 9, "x", ("train",))
    assert one.digest == given(["a", "b"], ["c"]).digest
    others = [given(["b", "a"], ["c"]), given(["a"], ["b", "c"]), given(["a", "b"], [])]
    assert len({one.digest, *(other.digest for other in others)}) == 4


def test_captions_of_a_test_split_are_told() -> None:
    assert SceneDictionary(("a",), (), splits=("train",)).uses == ()
    assert SceneDictionary(("a",), (), splits=("val", "test")).uses == ("scene elements from captions of val and test",)


def test_a_kind_without_phrases_is_told() -> None:
    silent = mine(["a red ball", "two balls"], settings=EVERY)
    assert (silent.activities, silent.lacks, len(silent.notices)) == ((), ("activities",), 1)
    assert silent.notices[0].startswith("The dictionary has no activities, so clips get none;")
    assert (given([], ["run"]).lacks, given(["dog"], ["run"]).notices) == (("entities",), ())


def test_nothing_that_is_frequent_enough_is_refused() -> None:
    with pytest.raises(UsageError, match=r"by 5 of the 1 captions or more \(1 entities and 1 activities"):
        mine(["a dog runs"], settings=MiningSettings("pattern"))


@pytest.mark.parametrize("wrong", [{"min_captions": 0}, {"max_entities": 0}, {"modifiers": "some"}])
def test_settings_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        MiningSettings(**wrong)


def test_the_packaged_phrases_are_spelt_as_captions_are_read() -> None:
    """Else a caption that names one would not be counted as naming it."""
    own = packaged()
    assert len(own.entities) >= 400
    assert len(own.activities) >= 200
    reading = read_elements([f"There is a {phrase}." for phrase in own.entities], settings=EVERY)
    read = [phrase in one.entities for phrase, one in zip(own.entities, reading, strict=True)]
    assert sum(read) / len(read) > 0.9
