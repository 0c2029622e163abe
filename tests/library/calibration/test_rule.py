"""Probabilities by hand, in bounds, and the state of each clip."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.encoders import load_encoder
from evenreel.errors import LibraryError
from evenreel.features.sealed import seal, unseal
from evenreel.library.calibration.file import FILE, calibration_of, read_calibration, write_calibration
from evenreel.library.calibration.rule import AnswerCalibration, AnswerProbabilities, LogisticRule, Thresholds, logistic
from evenreel.library.calibration.signals import NearestClips, asked_words, rivals
from evenreel.library.search.hits import STATES

ONE, MANY = (9.0, 0.0, 9.0, 0.0, 0.0, 0.0), (0.9, 0.0, 0.3, 0.0, 0.0, 0.0)
HAND = AnswerCalibration(
    encoder_id="words",
    weights_hash="words-1",
    fitted_on="a case worked by hand",
    date="2026-11-23",
    phrases=("a red circle", "blue star"),
    vectors=np.eye(2, 3, dtype=np.float32),
    anything=LogisticRule(-3.0, (1.0, 0.5, 2.0, 0.25, 0.125, -0.1, *(0.0,) * 5, *ONE, *MANY)),
    clip=LogisticRule(-1.0, (1.0, -2.0, 0.5, *(0.0,) * 4, *(5.0, 0.0, 5.0, 0.0), *(0.7, 0.0, 0.25, 0.0))),
    thresholds=(
        Thresholds((5, 500), (0.9, 0.9), (0.3, 0.3)),
        Thresholds((5, 500), (0.97, 0.97), (0.3, 0.3)),
        Thresholds((5, 500), (0.6, 0.8), (0.3, 0.3)),
    ),
)
THREE = NearestClips(
    clips=100, median=-1.0, z=np.array([4.0, 3.0, 1.0]), margins=np.array([1.0, 2.0, -1.0]), words=2.0, asked=3
)
PACKAGED = calibration_of(None, load_encoder("builtin", device="cpu").weights_hash)


def told(found: AnswerProbabilities) -> list[str]:
    return [STATES[place] for place in found.states]


def test_a_case_worked_by_hand() -> None:
    found = HAND.probabilities(THREE)
    odds = -3 + 4 + 0.5 * 2 + 2 * (2 / 3) + 0.25 * 2 + 0.125 * 5 - 0.1 * math.log(100)
    odds += 0.9 + 0.3 * 2
    anything = 1 / (1 + math.exp(-odds))
    assert found.anything == pytest.approx(anything)
    each = [odds - 1 + 0.7 - (2 - 0.25) * (4 - z) + 0.5 * margin for z, margin in ((4, 1), (3, 2), (1, -1))]
    expected = [min(anything, 1 / (1 + math.exp(-one))) for one in each]
    assert found.clips.tolist() == pytest.approx(expected)
    assert told(found) == ["fits", "fits", "may_fit"], "over the half, and over a tenth"


@pytest.mark.parametrize(("words", "weights"), [(1, ONE), (2, ()), (3, MANY), (6, MANY)])
def test_queries_of_one_word_two_and_more_have_rules_of_their_own(words: int, weights: tuple[float, ...]) -> None:
    two = logistic_odds(replace(THREE, asked=2))
    more = weights[0] + weights[2] * 2 if weights else 0.0
    assert logistic_odds(replace(THREE, asked=words)) == pytest.approx(two + more)


@pytest.mark.parametrize(("words", "state"), [(1, "may_fit"), (2, "may_fit"), (3, "fits"), (6, "fits")])
def test_they_have_thresholds_of_their_own(words: int, state: str) -> None:
    always = replace(HAND, anything=LogisticRule(math.log(0.85 / 0.15), (0.0,) * 23))
    assert told(always.probabilities(replace(THREE, asked=words)))[0] == state


def logistic_odds(near: NearestClips) -> float:
    return float(HAND.anything.log_odds(near.query_row()[None])[0])


def test_between_sizes_a_threshold_goes_straight_with_the_logarithm() -> None:
    middle = HAND.thresholds[2]
    assert middle.state(0.701, 50) == "fits"  # 50 is half-way from 5 to 500
    assert middle.state(0.699, 50) == "may_fit"
    assert middle.state(0.29, 50) == "nothing"


def test_where_the_library_answers_the_nearest_clip_fits() -> None:
    none = Thresholds((5, 500), (0.0, 0.0), (0.0, 0.0))
    sure = replace(HAND, thresholds=(none,) * 3, clip=LogisticRule(-9.0, (0.0,) * 15))
    assert told(sure.probabilities(THREE)) == ["fits", "nothing", "nothing"]


def test_phrases_that_say_as_much_more_or_less_are_no_rivals() -> None:
    assert rivals("the circle", HAND.phrase_words).tolist() == [False, True]
    assert rivals("a circle, red and large", HAND.phrase_words).tolist() == [False, True]
    assert rivals("red star", HAND.phrase_words).tolist() == [True, True]
    assert rivals("a red circle on a blue star", HAND.phrase_words).tolist() == [True, True], "all, where none is left"


@pytest.mark.parametrize("text", ["!!!", "?", "\u266b"])
def test_a_text_without_words_is_its_own_only_word(text: str) -> None:
    assert asked_words(text) == [text]


@given(st.floats(-1e6, 1e6))
def test_the_logistic_function_is_its_formula(odds: float) -> None:
    found = float(logistic(np.array(odds)))
    assert 0 <= found <= 1
    if abs(odds) < 500:
        assert found == pytest.approx(1 / (1 + math.exp(-odds)))


numbers = st.floats(-8, 12)


@given(
    z=st.lists(numbers, min_size=1, max_size=12),
    margins=st.lists(numbers, min_size=12, max_size=12),
    words=numbers,
    clips=st.integers(5, 8000),
    asked=st.integers(1, 6),
)
def test_what_is_told_is_a_probability_and_grows_with_z(
    z: list[float], margins: list[float], words: float, clips: int, asked: int
) -> None:
    assert PACKAGED is not None
    ordered = np.sort(np.array(z))[::-1]
    near = NearestClips(clips, -9.0, ordered, np.full(len(z), margins[0]), words, asked)
    found = PACKAGED.probabilities(replace(near, margins=np.array(margins[: len(z)])))
    assert 0 <= found.clips.min() <= found.clips.max() <= found.anything <= 1
    equal = PACKAGED.probabilities(near).clips
    assert (np.diff(equal) <= 1e-12).all(), "of clips that are described as well, the nearer is as likely at least"


@given(st.floats(-8, 11.9), st.floats(0, 5), st.integers(5, 8000), st.integers(1, 6))
def test_a_library_with_a_nearer_clip_is_as_likely_at_least(z: float, more: float, clips: int, asked: int) -> None:
    assert PACKAGED is not None
    near = NearestClips(clips, -9.0, np.array([z]), np.array([0.5]), 1.0, asked)
    nearer = replace(near, z=np.array([z + more]))
    assert PACKAGED.probabilities(nearer).anything >= PACKAGED.probabilities(near).anything - 1e-12


def test_a_calibration_is_kept_as_it_is(tmp_path: Path) -> None:
    write_calibration(tmp_path / FILE, HAND)
    found = read_calibration(tmp_path / FILE)
    np.testing.assert_array_equal(found.vectors, HAND.vectors)
    assert (found.anything, found.clip, found.thresholds) == (HAND.anything, HAND.clip, HAND.thresholds)
    told = ("encoder_id", "weights_hash", "fitted_on", "date", "phrases")
    assert [getattr(found, name) for name in told] == [getattr(HAND, name) for name in told]


def test_a_calibration_of_another_model_is_none(tmp_path: Path) -> None:
    write_calibration(tmp_path / FILE, HAND)
    assert calibration_of(tmp_path, "words-1") is not None
    assert calibration_of(tmp_path, "words-2") is None
    assert calibration_of(None, "words-1") is None, "the packaged one is of another model"


@pytest.mark.parametrize(("number", "remedy"), [(2, "fit it again with `evenreel calibrate`"), (4, "update evenreel")])
def test_one_of_another_format_is_said_in_a_sentence(tmp_path: Path, number: int, remedy: str) -> None:
    path = tmp_path / FILE
    write_calibration(path, HAND)
    arrays, record = unseal(path.read_bytes())
    path.write_bytes(seal(arrays, record | {"format": number}))
    with pytest.raises(LibraryError, match=f"has format {number}, not 3; {remedy}"):
        read_calibration(path)


@pytest.mark.parametrize("damage", [b"", b"nothing", "cut", "changed"])
def test_a_damaged_one_is_said_in_a_sentence(tmp_path: Path, damage: bytes | str) -> None:
    path = tmp_path / FILE
    write_calibration(path, HAND)
    whole = path.read_bytes()
    spoilt = {"cut": whole[:-3], "changed": whole[:-3] + b"abc"}
    path.write_bytes(damage if isinstance(damage, bytes) else spoilt[damage])
    with pytest.raises(LibraryError, match=r"is damaged \(.*\); fit it again with `evenreel calibrate`\.$"):
        calibration_of(tmp_path, "words-1")


def _without(*path: str) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        *parents, last = path
        for parent in parents:
            record = record[parent]
        del record[last]

    return change


@pytest.mark.parametrize(
    "change",
    [
        _without("format"),
        _without("phrases"),
        _without("clip", "weights"),
        lambda record: record["anything"]["weights"].pop(),
        lambda record: record["thresholds"][1].update(more=1),
        lambda record: record["thresholds"][2].update(sizes=[5]),
        lambda record: record["thresholds"][2].update(sizes=[5, 501]),
        lambda record: record["thresholds"][0].update(fits=[0.5]),
        lambda record: record["thresholds"].pop(),
        lambda record: record.update(phrases=["one"]),
        lambda record: record.update(format="1"),
    ],
)
def test_a_record_that_is_none_of_a_calibration_is_said_in_a_sentence(
    tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    path = tmp_path / FILE
    write_calibration(path, HAND)
    arrays, record = unseal(path.read_bytes())
    change(record)
    path.write_bytes(seal(arrays, record))
    with pytest.raises(LibraryError, match=r"is damaged \(.*\); fit it again with `evenreel calibrate`\.$"):
        calibration_of(tmp_path, "words-1")
