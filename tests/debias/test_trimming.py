"""Trimming against the loop that the paper prints, mended, and on the annotations it was published for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import Imported
from evenreel.corpus.actions import actions_of
from evenreel.debias.frame_length import PRESETS, Trimming, trim_class, trimmed, trimmed_at_random
from evenreel.errors import UsageError

TAKE_RUBBISH = 54  # verb 0, noun 54


def slow(clips: dict[int, float], target: float, margin: float, least: int) -> set[int]:
    """One class, clip by clip: the mean anew each time, the least number looked at first, one side only."""
    left, mean = dict(clips), np.mean(list(clips.values()))
    short, long = target >= mean + margin, target <= mean - margin
    while (short or long) and len(left) > least:
        mean = np.mean(list(left.values()))
        if (short and target < mean + margin) or (long and target > mean - margin):
            break
        ends = sorted(left, key=lambda row: (left[row], row))
        left.pop(ends[0] if short else ends[-1])
    return set(clips) - set(left)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 30)), min_size=1, max_size=25),
    st.dictionaries(st.integers(0, 2), st.integers(1, 30)),
    st.integers(1, 5),
    st.integers(1, 4),
)
def test_each_class_is_trimmed_clip_by_clip(
    clips: list[tuple[int, int]], targets: dict[int, int], margin: int, least: int
) -> None:
    classes, lengths = np.array([c for c, _ in clips]), np.array([float(length) for _, length in clips])
    wanted = {name: float(length) for name, length in targets.items()}
    found = trimmed(lengths, classes, wanted, Trimming(margin, least))
    expected: set[int] = set()
    for name, target in wanted.items():
        own = {row: lengths[row] for row in np.flatnonzero(classes == name).tolist()}
        expected |= slow(own, target, margin, least) if own else set()
    assert found.tolist() == sorted(expected)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=25), st.integers(0, 35))
def test_a_single_class_is_trimmed_up_to_its_target(lengths: list[int], target: int) -> None:
    """Clip by clip from one end, as long as the mean does not pass the target."""
    left = sorted(range(len(lengths)), key=lambda row: (lengths[row], row))
    short = target >= np.mean(lengths)
    if not short:
        left = sorted(left, key=lambda row: (-lengths[row], row))
    while len(left) > 1:
        after = np.mean([lengths[row] for row in left[1:]])
        if after > target if short else after < target:
            break
        left.pop(0)
    found = trim_class(np.array(lengths, np.float64), target)
    assert found.tolist() == sorted(set(range(len(lengths))) - set(left))


def test_as_many_are_left_out_at_random() -> None:
    classes = np.repeat([0, 1, 2], 20)
    like = np.array([0, 1, 2, 25])
    drawn = trimmed_at_random(classes, like, np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 4
    assert np.bincount(
        classes[trimmed_at_random(classes, like, np.random.default_rng(0), by_class=True)], minlength=3
    ).tolist() == [3, 1, 0]


@pytest.mark.parametrize(
    "trim",
    [
        lambda: trimmed(np.array([1.0, np.nan, 3.0]), np.zeros(3, np.int64), {0: 9.0}, Trimming(1.0, 1)),
        lambda: trimmed(np.array([1.0, 2.0, 3.0]), np.zeros(3, np.int64), {0: np.nan}, Trimming(1.0, 1)),
        lambda: trim_class(np.array([1.0, np.inf]), 3.0),
        lambda: trim_class(np.array([1.0, 2.0]), np.nan),
    ],
)
def test_lengths_that_nobody_knows_trim_nothing_in_silence(trim: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="1 of . lengths are not known; trimming needs all of them"):
        trim()


def test_settings_that_cannot_end_are_refused() -> None:
    with pytest.raises(UsageError, match="above 0"):
        Trimming(0.0, 5)


@pytest.fixture(scope="module")
def epic(epic_kitchens: Imported) -> tuple[np.ndarray, np.ndarray, dict[int, float]]:
    """Lengths in frames and classes of the training clips, and the mean length of each class in the test split."""
    corpus = epic_kitchens.corpus
    found = actions_of(corpus)
    names = np.array([verb * 1000 + noun for verb, noun in found.pairs])[found.classes]
    tested = (corpus.clips["split"] == "test").to_numpy()[found.clips]
    means = pl.DataFrame({"name": names[tested], "length": found.lengths[tested]}).group_by("name").mean()
    return found.lengths[~tested], names[~tested], dict(means.iter_rows())


@pytest.mark.parametrize(
    ("preset", "clips", "of_classes"), [("paper_literal", 6_999, 158), ("paper_reproducing", 2_448, 168)]
)
def test_what_the_published_algorithm_leaves_out(
    epic: tuple[np.ndarray, np.ndarray, dict[int, float]], preset: str, clips: int, of_classes: int
) -> None:
    """The paper reports 2,392 clips of 164 classes, of lengths that are not re-timed."""
    lengths, classes, targets = epic
    assert len(set(classes.tolist()) & set(targets)) == 1_114
    found = trimmed(lengths, classes, targets, PRESETS[preset])
    assert (len(found), len(set(classes[found].tolist()))) == (clips, of_classes)


def test_what_was_left_of_a_single_class(epic: tuple[np.ndarray, np.ndarray, dict[int, float]]) -> None:
    """Table 8: 95 clips of take + rubbish, whose 43 longest are nearest to the test split's 305.5 from below."""
    lengths, classes, targets = epic
    own = np.sort(lengths[classes == TAKE_RUBBISH])
    found = trim_class(own, targets[TAKE_RUBBISH])
    assert (len(own), targets[TAKE_RUBBISH]) == (95, 305.5)
    assert found.tolist() == list(range(52))
    assert own[52:].mean() == pytest.approx(302.32, abs=0.2)
    assert own[:43].mean() == pytest.approx(64.69, abs=0.5)
