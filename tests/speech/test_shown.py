"""Cues of what is on screen from which time on."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from evenreel.speech.streams import LONGEST_S, cues_of
from evenreel.speech.streams import ShownPicture as Shown

Cue = tuple[str, float, float]


def cues(*shown: Shown) -> list[Cue]:
    return [(one.text, one.start_s, one.end_s) for one in cues_of(shown, "en")]


def test_a_cue_ends_with_its_own_end_a_clear_the_next_or_after_a_while() -> None:
    assert cues(Shown(1.0, 2.0, "own"), Shown(5.0, None)) == [("own", 1.0, 2.0)]
    assert cues(Shown(1.0, None, "cleared"), Shown(60.0, None)) == [("cleared", 1.0, 60.0)]
    assert cues(Shown(1.0, 30.0, "next"), Shown(3.0, 4.0, "one")) == [
        ("next", 1.0, 3.0),
        ("one", 3.0, 4.0),
    ]
    assert cues(Shown(1.0, None, "alone")) == [("alone", 1.0, 1.0 + LONGEST_S)]
    assert cues(Shown(1.0, None, "long"), Shown(99.0, 99.5, "after")) == [
        ("long", 1.0, 11.0),
        ("after", 99.0, 99.5),
    ]
    assert cues(Shown(1.0, 0.5, "ends before"), Shown(2.0, None)) == [("ends before", 1.0, 2.0)]


def test_neighbours_of_the_same_words_are_one_cue_with_the_surer_confidence() -> None:
    fade = [
        Shown(1.0, 1.1, "Hello there.", 0.6),
        Shown(1.1, None, "Hello  there.", 0.9),
        Shown(2.0, None),
    ]
    (one,) = cues_of(fade, "en")
    assert (one.text, one.start_s, one.end_s, one.confidence) == ("Hello there.", 1.0, 2.0, 0.9)
    assert (one.source, one.language) == ("stream", "en")
    twice = [Shown(1.0, 2.0, "Yes."), Shown(3.0, 4.0, "Yes.")]
    assert cues(*twice) == [("Yes.", 1.0, 2.0), ("Yes.", 3.0, 4.0)]


def test_order_does_not_count_and_what_says_nothing_is_left_out() -> None:
    shown = [
        Shown(5.0, 6.0, "third"),
        Shown(1.0, 2.0, "first"),
        Shown(3.0, 4.0, "♪"),
        Shown(4.0, 4.5, "second"),
    ]
    assert [text for text, *_ in cues(*shown)] == ["first", "second", "third"]
    assert cues(Shown(-5.0, -4.0, "before the film"), Shown(-1.0, 1.0, "as it begins")) == [("as it begins", 0.0, 1.0)]
    at_once = cues(Shown(1.0, None, "one"), Shown(1.0, None, "other"), Shown(2.0, None))
    assert at_once == [("one", 1.0, 2.0), ("other", 1.0, 2.0)]


times = st.integers(-20, 200).map(lambda n: n / 4)
something = st.builds(
    Shown, times, st.none() | times, st.sampled_from(["", "a", "b", "c"]), st.floats(0, 1, allow_nan=False)
)


@given(st.lists(something, max_size=12, unique_by=lambda one: one.start_s))
def test_whatever_is_shown_cues_follow_one_another(shown: list[Shown]) -> None:
    found = list(cues_of(shown, None))
    words = {one.words for one in shown}
    for one in found:
        assert one.text in words
        assert 0 <= one.start_s < one.end_s
    for one, then in pairwise(found):
        assert one.end_s <= then.start_s
    for time_s in {one.start_s for one in shown if one.start_s >= 0}:
        there = {one.words for one in shown if one.start_s == time_s and one.words}
        assert there <= {one.text for one in found if one.start_s <= time_s <= one.end_s}
