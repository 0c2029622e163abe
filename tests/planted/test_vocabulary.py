"""The data files agree with each other and with the painters, and are rich enough."""

from __future__ import annotations

import pytest

from evenreel.planted import vocabulary
from evenreel.planted.draw import OUTLINES, PAINTERS


def test_every_shape_has_an_outline_and_every_thing_a_painter() -> None:
    assert set(OUTLINES) == set(vocabulary.shapes())
    kinds = {rule.kind for background in vocabulary.backgrounds().values() for rule in background.things}
    assert kinds == set(PAINTERS)


def test_opposites_name_each_other() -> None:
    activities = vocabulary.activities()
    for name, activity in activities.items():
        if activity.opposite:
            assert activity.opposite != name
            assert activities[activity.opposite].opposite == name


@pytest.mark.parametrize("attribute", ["colour", "shape", "size", "background"])
def test_no_word_stands_for_two_values(attribute: str) -> None:
    values = {
        "colour": tuple(vocabulary.colours()),
        "shape": vocabulary.shapes(),
        "size": tuple(vocabulary.sizes()),
        "background": tuple(vocabulary.backgrounds()),
    }[attribute]
    words = [word for value in values for word in vocabulary.words_for(attribute, value)]
    assert len(words) == len(set(words))


def test_colours_are_far_apart() -> None:
    """At least 60 of 255 in one channel: two names never look like one colour."""
    colours = list(vocabulary.colours().values())
    for n, one in enumerate(colours):
        for other in colours[:n]:
            assert max(abs(a - b) for a, b in zip(one, other, strict=True)) >= 60
