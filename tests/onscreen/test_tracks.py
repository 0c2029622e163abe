"""Signs over time: worked cases, invariants, and the vectorised geometry against plain loops."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from evenreel.onscreen.reader import follow, grouped
from evenreel.types import Word

Box = tuple[float, float, float, float]
HERE: Box = (0.1, 0.1, 0.3, 0.2)
THERE: Box = (0.6, 0.7, 0.8, 0.8)


def word(text: str, time_s: float, confidence: float = 0.95, box: Box = HERE) -> Word:
    return Word(text, confidence, box, time_s)


def test_one_sign_is_one_track_with_its_best_reading_and_all_others() -> None:
    readings = [("HYUNDRI", 0.89), ("HYUNDAI", 0.98), ("HYUNG", 0.82), ("HYUNDRI", 0.91)]
    words = [word(text, float(second), sure) for second, (text, sure) in enumerate(readings)]
    (track,) = follow(words)
    assert (track.text, track.confidence) == ("HYUNDAI", 0.98)
    assert (track.start_s, track.end_s) == (0.0, 3.0)
    assert track.readings == ("HYUNDAI", "HYUNDRI", "HYUNG")


def test_two_signs_that_follow_each_other_in_one_place_stay_two() -> None:
    words = [word("ARRIVALS", 0.0), word("ARRIVALS", 1.0), word("TICKETS", 2.0), word("TICKETS", 3.0)]
    assert [(t.text, t.start_s, t.end_s) for t in follow(words)] == [("ARRIVALS", 0, 1), ("TICKETS", 2, 3)]


def test_certain_numbers_tell_signs_apart_and_doubtful_ones_do_not() -> None:
    assert len(follow([word("GATE 12", 0.0, 0.97), word("GATE 15", 1.0, 0.98)])) == 2
    assert len(follow([word("GATE 12", 0.0, 0.97), word("GATE I2", 1.0, 0.7)])) == 1
    between = [word("9:16", 0.0, 0.97), word("9:1", 1.0, 0.6), word("9:17", 2.0, 0.97)]
    assert len(follow(between)) == 2


def test_a_sign_may_be_missed_in_one_frame() -> None:
    times = [0.0, 10.0, 20.0, 30.0]
    assert len(follow([word("EXIT", 0.0), word("EXIT", 20.0)], times)) == 1
    assert len(follow([word("EXIT", 0.0), word("EXIT", 30.0)], times)) == 2


def test_a_sign_that_comes_back_is_two_tracks() -> None:
    words = [word("EXIT", second) for second in (2.0, 3.0, 10.0, 11.0)]
    tracks = follow(words, [float(second) for second in range(13)])
    assert [(t.start_s, t.end_s) for t in tracks] == [(2, 3), (10, 11)]


def test_a_moving_sign_stays_one_track_while_its_copy_beside_it_stays_another() -> None:
    first = [word("BREAKING NEWS", float(i), box=(0.7 - 0.1 * i, 0.9, 0.9 - 0.1 * i, 0.95)) for i in range(5)]
    copy = [word("BREAKING NEWS", float(i), box=(0.7 - 0.1 * i, 0.1, 0.9 - 0.1 * i, 0.15)) for i in range(5)]
    tracks = follow(first + copy)
    assert [(t.start_s, t.end_s) for t in tracks] == [(0, 4), (0, 4)]


def test_a_jump_over_the_picture_is_another_sign() -> None:
    assert len(follow([word("EXIT", 0.0, box=HERE), word("EXIT", 1.0, box=THERE)])) == 2


def test_the_cost_grows_with_the_words_and_not_with_their_square() -> None:
    words = [word(f"{row} line {'abcdefgh'[row]}", float(s), box=(0.1, row / 8, 0.9, row / 8 + 0.1))
             for s in range(600) for row in range(8)]  # fmt: skip
    assert len(follow(words)) == 8


fractions = st.integers(0, 20).map(lambda step: step / 20)
boxes: st.SearchStrategy[Box] = st.builds(
    lambda x, y, w, h: (x, y, min(x + w, 1.0), min(y + h, 1.0)), fractions, fractions, fractions, fractions
)
texts = st.sampled_from(["EXIT", "EXIF", "EX1T 4", "EX1T 5", "TAXI", "出口", "", "a"])
some_words = st.lists(
    st.builds(Word, texts, st.sampled_from([0.5, 0.9, 1.0]), boxes, st.integers(0, 6).map(float)), max_size=25
)


@given(some_words, st.randoms(use_true_random=False))
def test_the_order_of_words_has_no_influence(words: list[Word], chance: random.Random) -> None:
    shuffled = list(words)
    chance.shuffle(shuffled)
    assert follow(shuffled) == follow(words)


@given(some_words)
def test_every_word_is_in_one_track_whose_times_cover_it(words: list[Word]) -> None:
    groups = grouped(words)
    assert sorted(map(repr, (w for group in groups for w in group))) == sorted(map(repr, words))
    for group in groups:
        (track,) = follow(group, [w.time_s for w in words])
        assert track.start_s == group[0].time_s and track.end_s == group[-1].time_s
        assert set(track.readings) == {w.text for w in group}
        assert len({w.time_s for w in group}) == len(group)
