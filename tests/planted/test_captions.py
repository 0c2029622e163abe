"""Captions: they name what they should, nothing else, in many ways."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.planted import ATTRIBUTES, Scene, SceneRanges, caption, sample_scene, vocabulary

WITH_SIGNS = SceneRanges(sign_share=1.0)


def _phrases(attribute: str, value: str) -> tuple[str, ...]:
    if attribute == "activity":
        activity = vocabulary.activities()[value]
        return (*activity.does, *activity.doing)
    return vocabulary.words_for(attribute, value)


def _says(text: str, attribute: str, value: str) -> bool:
    return any(re.search(rf"\b{re.escape(phrase)}\b", text) for phrase in _phrases(attribute, value))


def _scene(seed: int) -> tuple[Scene, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return sample_scene(rng, WITH_SIGNS), rng


@given(st.integers(0, 10**6), st.sets(st.sampled_from(ATTRIBUTES), min_size=1))
def test_a_caption_names_what_was_asked_and_nothing_else(seed: int, names: set[str]) -> None:
    scene, rng = _scene(seed)
    text = caption(scene, rng, names)
    for attribute, value in scene.attributes.items():
        assert _says(text, attribute, value) == (attribute in names), (text, attribute)


def test_no_phrase_names_something_else_too() -> None:
    """A background that says green would name the colour of every green subject in it."""
    values = {
        "colour": tuple(vocabulary.colours()),
        "shape": vocabulary.shapes(),
        "size": tuple(vocabulary.sizes()),
        "activity": tuple(vocabulary.activities()),
        "background": tuple(vocabulary.backgrounds()),
    }
    phrases = [
        (attribute, value, phrase)
        for attribute in values
        for value in values[attribute]
        for phrase in _phrases(attribute, value)
    ]
    for attribute, value, phrase in phrases:
        said = [(other, one) for other in values for one in values[other] if _says(phrase, other, one)]
        assert said == [(attribute, value)], phrase


@given(st.integers(0, 10**6))
def test_the_words_on_a_sign_never_come_into_the_caption(seed: int) -> None:
    scene, rng = _scene(seed)
    words = set(re.findall(r"\w+", caption(scene, rng, ATTRIBUTES)))
    assert not words & set(scene.signs[0].text.lower().split())


@given(st.integers(0, 10**6), st.sets(st.sampled_from(ATTRIBUTES), min_size=1))
def test_the_article_fits_the_next_word(seed: int, names: set[str]) -> None:
    scene, rng = _scene(seed)
    for article, letter in re.findall(r"\b(an?) (\w)", caption(scene, rng, names)):
        assert (article == "an") == (letter in "aeiou")


def test_one_scene_has_many_phrasings() -> None:
    scene, rng = _scene(0)
    assert len({caption(scene, rng) for _ in range(200)}) > 25


@pytest.mark.parametrize("names", [(), ("taste",), ("colour", "taste")])
def test_names_that_do_not_exist_are_refused(names: tuple[str, ...]) -> None:
    scene, rng = _scene(0)
    with pytest.raises(UsageError, match="a caption names some of colour"):
        caption(scene, rng, names)
