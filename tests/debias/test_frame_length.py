"""Trimming, strata and weights against the printed algorithms, slow loops and the published figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from evenreel.corpus import Imported, select
from evenreel.corpus.actions import actions_of, clip_lengths
from evenreel.corpus.relevance import RelevantPairs
from evenreel.debias import frame_length as fusion
from evenreel.debias.frame_length import (
    PRESETS,
    Fusion,
    Trimming,
    adjusted_strata,
    equal_strata,
    learned_weights,
    pair_loss,
    prior_weights,
    standardisation,
    strata_at,
    trim_class,
    trimmed,
    trimmed_at_random,
    uniform_weights,
)
from evenreel.errors import ScoresError, UsageError
from evenreel.types import Scores

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


LENGTHS = st.lists(st.integers(1, 9), min_size=8, max_size=40).map(lambda values: np.array(values, np.float64))


def printed(order: list[int], count: int, fraction: float) -> list[list[int]]:
    """Algorithm 2 as it is printed, on a sorted list."""
    out, rest = [], order
    while count > 2:
        half = len(rest) // 2
        out.append(rest[:half])
        rest = rest[half:]
        count -= 1
    return [*out, rest[: int(fraction * len(rest))], rest[int(fraction * len(rest)) :]]


@given(LENGTHS, st.integers(2, 4), st.sampled_from([0.5, 0.748]))
def test_adjusted_strata_are_those_of_the_printed_algorithm(lengths: np.ndarray, count: int, fraction: float) -> None:
    order = sorted(range(len(lengths)), key=lambda row: (lengths[row], row))
    expected = printed(order, count, fraction)
    if not all(expected):
        with pytest.raises(UsageError, match="would be empty"):
            adjusted_strata(lengths, count, fraction)
        return
    assert [stratum.tolist() for stratum in adjusted_strata(lengths, count, fraction)] == expected


@given(LENGTHS, st.integers(1, 8))
def test_equal_strata_hold_every_clip_once_from_short_to_long(lengths: np.ndarray, count: int) -> None:
    strata = equal_strata(lengths, count)
    assert sorted(row for stratum in strata for row in stratum.tolist()) == list(range(len(lengths)))
    assert max(map(len, strata)) - min(map(len, strata)) <= 1
    ordered = lengths[np.concatenate(strata)]
    assert (np.diff(ordered) >= 0).all()


@given(LENGTHS, st.integers(1, 9))
def test_a_threshold_parts_the_shorter_clips_from_the_others(lengths: np.ndarray, threshold: int) -> None:
    short = {row for row, length in enumerate(lengths) if length < threshold}
    if not 0 < len(short) < len(lengths):
        with pytest.raises(UsageError, match="would be empty"):
            strata_at(lengths, [threshold])
        return
    first, second = strata_at(lengths, [threshold])
    assert set(first.tolist()) == short
    assert set(second.tolist()) == set(range(len(lengths))) - short


def test_a_share_is_of_whole_clips_whatever_floats_make_of_it() -> None:
    """0.29 of 100 is 28.999999999999996 in floats."""
    assert [len(stratum) for stratum in adjusted_strata(np.arange(100.0), 2, 0.29)] == [29, 71]


def test_long_clips_may_come_first() -> None:
    first, second = adjusted_strata(np.array([1.0, 2.0, 3.0, 4.0]), 2, 0.5, longest_first=True)
    assert (first.tolist(), second.tolist()) == ([3, 2], [1, 0])


def test_one_stratum_keeps_every_clip() -> None:
    assert adjusted_strata(np.arange(5.0), 1, 0.5)[0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("divide", "sentence"),
    [
        (lambda: equal_strata(np.arange(2.0), 3), "2 clips cannot be divided into 3 strata"),
        (lambda: adjusted_strata(np.arange(9.0), 2, 1.0), "between 0 and 1"),
        (lambda: strata_at(np.arange(9.0), [3.0, 3.0]), "each is more than the one before"),
        (lambda: equal_strata(np.array([1.0, np.nan]), 2), "1 of 2 clips is not known"),
    ],
)
def test_wrong_divisions_get_a_sentence(divide: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        divide()  # type: ignore[operator]


def test_the_published_strata_of_epic_kitchens(epic_kitchens: Imported) -> None:
    """The paper's first split holds 50,282 of 67,217 clips, a fraction of 0.748; they have up to 172 frames."""
    lengths, _ = clip_lengths(select(epic_kitchens.corpus, split="train"))
    first, second = adjusted_strata(lengths, 2, 50_282.5 / 67_217)
    assert (len(first), len(second)) == (50_282, 16_935)
    assert lengths[first].max() == pytest.approx(171.7, abs=0.1)
    below_the_mean, _ = strata_at(lengths, [lengths.mean()])
    assert len(below_the_mean) == 50_393


def scores(values: Any) -> Scores:
    table = np.asarray(values, np.float32)
    return Scores(table, tuple(f"c{row}" for row in range(len(table))), tuple(f"v{row}" for row in range(len(table.T))))


def answers(table: Any) -> RelevantPairs:
    return RelevantPairs(sparse.csr_array(np.asarray(table, np.bool_)))


def noise(seed: int, size: tuple[int, int] = (12, 12)) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=size)


# The numbers


def test_the_share_of_the_clips_is_the_weight() -> None:
    """The published strata of EPIC-KITCHENS-100."""
    assert prior_weights([50_282, 16_935]) == pytest.approx((0.748055, 0.251945), abs=1e-6)
    assert uniform_weights(4) == (0.25,) * 4
    for sizes in ([], [3, 0]):
        with pytest.raises(UsageError, match="at least one clip"):
            prior_weights(sizes)


@given(sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=9))
def test_weights_by_size_are_those_of_a_fusion(sizes: list[int]) -> None:
    assert Fusion(prior_weights(sizes)).weights == prior_weights(sizes)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "weights of the fusion is (); it must be a list of numbers"),
        ({"weights": (0.5, 0.6)}, "add up to 1"),
        ({"weights": (-0.5, 1.5)}, "at least 0"),
        ({"weights": (math.nan,)}, "a list of numbers"),
        ({"weights": "half"}, "'half'; it must be a list"),
        ({"weights": (1.0,), "means": (0.0, 0.1)}, "a number for each weight"),
        ({"weights": (1.0,), "scales": (0.0,)}, "above 0"),
        ({"weights": (0.5, 0.5), "scales": (1.0,)}, "for each weight"),
    ],
)
def test_settings_that_are_no_fusion(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        Fusion(**given)
    assert words in str(error.value)


def test_lists_of_a_file_are_as_good() -> None:
    assert Fusion([0.5, 0.5], [], [1, 2]) == Fusion((0.5, 0.5), (), (1, 2))  # type: ignore[arg-type]


# A common scale


@given(seed=st.integers(0, 99), band=st.integers(1, 200), offset=st.sampled_from([0.0, 1e4]))
@settings(max_examples=15)
def test_mean_and_deviation_are_those_of_the_whole_table(seed: int, band: int, offset: float) -> None:
    given_scores = [scores(noise(seed, (9, 7)) + offset), scores(3 * noise(seed + 1, (9, 7)))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "BAND_SCORES", band)
        means, scales = standardisation(given_scores)
    whole = [one.values.astype(np.float64) for one in given_scores]
    np.testing.assert_allclose(means, [one.mean() for one in whole], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scales, [one.std() for one in whole], rtol=1e-6)


def test_scores_without_a_scale_are_refused() -> None:
    with pytest.raises(ScoresError, match=r"All scores of member 2 are 0.5, so they have no scale"):
        standardisation([scores(noise(0)), scores(np.full((2, 2), 0.5))])
    equal = replace(scores(np.zeros((300, 130))), values=np.full((300, 130), 0.3))  # deviate by 6e-17 in floats
    with pytest.raises(ScoresError, match=r"All scores of member 1 are 0.3, so they have no scale"):
        standardisation([equal])
    with pytest.raises(ScoresError, match="A score of member 1 is no finite number"):
        standardisation([scores([[0.1, np.nan]])])


# Weights from validation


def slow_loss(logits: NDArray[np.float64], same: NDArray[np.bool_]) -> float:
    """One pair at a time: the pair against all that are no pairs in its row, and in its column."""
    terms = [
        math.log(1 + sum(math.exp(other - logits[i, j]) for other in line))
        for i, j in np.argwhere(same)
        for line in (logits[i][~same[i]], logits[:, j][~same[:, j]])
    ]
    return sum(terms) / len(terms)


@given(seed=st.integers(0, 999), size=st.tuples(st.integers(1, 5), st.integers(1, 5)))
def test_the_loss_is_that_of_pairs_one_by_one(seed: int, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    logits, same = 3 * rng.normal(size=size), rng.random(size) < 0.4
    same.flat[0] = True
    found = pair_loss(torch.from_numpy(logits), torch.from_numpy(np.argwhere(same).T))
    assert found.item() == pytest.approx(slow_loss(logits, same), rel=1e-9, abs=1e-12)


def test_who_knows_the_answers_has_the_weight() -> None:
    perfect = np.eye(12) + 0.1 * noise(0)
    weights = learned_weights([scores(noise(1)), scores(perfect)], answers(np.eye(12)))
    assert weights[1] > 0.95
    assert sum(weights) == pytest.approx(1)


def test_equal_members_share() -> None:
    one = scores(0.5 * np.eye(12) + noise(0))
    assert learned_weights([one, one, one], answers(np.eye(12))) == pytest.approx((1 / 3,) * 3, abs=1e-3)


def test_members_that_know_half_each_share_and_their_scales_are_made_up_for() -> None:
    """The second one's scores are ten times as large; its weight is a tenth, or the same where the scale is taken."""
    known = np.repeat([1.0, 0.0], 10)
    first, second = np.diag(known) + 0.3 * noise(2, (20, 20)), np.diag(1 - known) + 0.3 * noise(3, (20, 20))
    members, truth = [scores(first), scores(10 * second)], answers(np.eye(20))
    alone = learned_weights([scores(first), scores(second)], truth)
    scaled = learned_weights(members, truth, scales=(1.0, 10.0))
    assert 0.35 < alone[0] < 0.65
    np.testing.assert_allclose(scaled, alone, atol=2e-3)
    ratio = learned_weights(members, truth)
    assert ratio[0] / ratio[1] == pytest.approx(10 * alone[0] / alone[1], rel=0.02)


def test_the_weights_are_those_of_least_loss() -> None:
    """No other mix of the two, at any temperature of a fine grid, costs less."""
    members = [0.6 * np.eye(12) + 0.4 * noise(4), 0.3 * np.eye(12) + 0.4 * noise(5)]
    first, second = learned_weights([scores(one) for one in members], answers(np.eye(12)))
    least = {
        weight: min(
            slow_loss(factor * (weight * members[0] + (1 - weight) * members[1]), np.eye(12) > 0)
            for factor in np.geomspace(0.5, 50, 25)
        )
        for weight in (first, *np.linspace(0, 1, 11))
    }
    assert least[first] <= min(least.values()) + 1e-3
    assert first > second > 0


def test_they_are_the_same_each_time() -> None:
    members = [scores(0.5 * np.eye(12) + 0.4 * noise(seed)) for seed in range(3)]
    assert learned_weights(members, answers(np.eye(12))) == learned_weights(members, answers(np.eye(12)))


def test_what_weights_cannot_be_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    good, truth = scores(np.eye(2)), answers(np.eye(2))
    with pytest.raises(UsageError, match="at least one member and one caption with an answer"):
        learned_weights([good], answers(np.zeros((2, 2))))
    with pytest.raises(UsageError, match="not of the same captions and clips"):
        learned_weights([good, scores(np.eye(3))], truth)
    with pytest.raises(ScoresError, match="no member scores answers higher"):
        learned_weights([scores(-np.eye(2))], truth)
    monkeypatch.setattr(fusion, "MOST_SCORES", 7)
    with pytest.raises(UsageError, match="learned from 8 scores, 2 captions and 2 clips by 2 members, and at most 7"):
        learned_weights([good, good], truth)
