"""What the audit of lengths is made of: first clips, class lengths, and partial rank correlations, against loops."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise, permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from evenreel.audits.class_lengths import class_lengths, drawn_discrepancies
from evenreel.audits.inputs import OrderedRows
from evenreel.audits.length import DEPTHS, FirstClipLengths, LengthData, measure_first, rank_correlation
from evenreel.audits.settings import AuditSettings
from evenreel.corpus import make_corpus
from evenreel.corpus.actions import ActionLengths
from evenreel.evaluation.ranking import CheckedScores
from evenreel.types import Corpus, Scores
from tests.audits.small_lengths import TESTED, ranked_clips, ranking

NO_CAPTIONS = pl.DataFrame(schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String})
ROW = st.lists(st.sampled_from([0.0, 1.0, 2.0, -np.inf]), min_size=1, max_size=6)


def first_of(scores: Scores, corpus: Corpus, band_bytes: int = 2**26) -> FirstClipLengths:
    checked = CheckedScores(scores)
    return measure_first(checked, LengthData.of(checked, corpus, None), band_bytes)


@given(ROW, st.integers(1, 8))
def test_shares_of_the_first_are_those_of_all_orders(row: list[float], depth: int) -> None:
    columns, shares = OrderedRows.of(np.array([row])).first(depth)
    counts = np.zeros(len(row))
    every = permutations(range(len(row)))
    orders = [order for order in every if all(row[a] >= row[b] for a, b in pairwise(order))]
    for order in orders:
        counts[[one for one in order[:depth] if row[one] > -np.inf]] += 1
    found = np.zeros(len(row))
    found[columns[0]] = shares[0]
    np.testing.assert_allclose(found, counts / len(orders))


@given(st.integers(0, 10**6))
def test_without_classes_the_first_clips_are_held_against_all_others(seed: int) -> None:
    """Ties, clips that are not retrieved and unknown lengths, against loops; nobody knows what answers."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 50, 30).astype(np.float64)
    values = generator.choice([-np.inf, 0.0, 1.0, 2.0, 3.0], size=(3, 30))
    unknown = generator.random(30) < 0.2
    clips = pl.DataFrame(
        {
            "clip_id": [f"v{n}" for n in range(30)],
            "start_s": [0.0] * 30,
            "end_s": [None if gone else length for gone, length in zip(unknown, lengths, strict=True)],
        },
        schema_overrides={"end_s": pl.Float64},
    )
    found = first_of(Scores(values, ["q1", "q2", "q3"], clips["clip_id"].to_list()), make_corpus(clips, NO_CAPTIONS), 8)
    typical = np.log(lengths[~unknown]).mean()
    assert found.depths == (1, 5, 10, 20)
    for row in range(3):
        for place, depth in enumerate(found.depths):
            mean, excess = slow_first(values[row], np.where(unknown, np.nan, lengths), depth)
            np.testing.assert_allclose(found.means[place, row], mean)
            np.testing.assert_allclose(found.excess[place, row], excess - typical)
    assert np.isnan(found.rank).all()


def slow_first(row: np.ndarray, lengths: np.ndarray, depth: int) -> tuple[float, float]:
    """Mean length and mean logarithm of the first, each clip with its chance to be among them."""
    chance = np.zeros(len(row))
    for place, value in enumerate(row):
        above, equal = (row > value).sum(), (row == value).sum()
        chance[place] = 0 if value == -np.inf else min(1, max(0, (depth - above) / equal))
    chance[np.isnan(lengths)] = 0
    if not chance.sum():
        return np.nan, np.nan
    known = np.nan_to_num(lengths, nan=1.0)
    return (chance @ known) / chance.sum(), (chance @ np.log(known)) / chance.sum()


def test_with_classes_each_is_held_against_those_of_its_own() -> None:
    corpus, lengths = ranked_clips()
    scores = ranking(0.1)
    found = first_of(scores, corpus, 2**16)
    verbs, nouns = (corpus.clips[name].list.first().to_numpy() for name in ("verb_classes", "noun_classes"))
    logs = np.log(lengths)
    for row in range(0, len(lengths), 17):
        kind = 2 * (verbs == verbs[row]) + (nouns == nouns[row])
        order = np.argsort(-scores.values[row])[:20]
        expected = np.mean([logs[(verbs == verbs[clip]) & (nouns == nouns[clip])].mean() for clip in order])
        assert found.expected[3, row] == pytest.approx(expected)
        assert found.excess[3, row] == pytest.approx(logs[order].mean() - expected)
        answers = np.flatnonzero(kind == 3)
        assert len(answers) == TESTED
        ranks = 1 + (scores.values[row] > scores.values[row][answers].max()).sum()
        assert (found.rank[row], found.recall[row]) == (ranks, 100.0 * (ranks <= 10))
    assert found.shown.sum() == pytest.approx(20 * len(lengths))
    assert found.depths == DEPTHS


def test_a_clip_of_several_verbs_is_held_against_each_of_its_classes_and_one_without_against_its_like() -> None:
    clips = pl.DataFrame(
        {
            "clip_id": list("abcde"), "frame_count": [90, 20, 8, 2, 6], "verb_classes": [[1, 2], [1], [2], None, None],
            "noun_classes": [[0], [0], [0], None, [0]],
        }
    )  # fmt: skip
    corpus = make_corpus(clips, NO_CAPTIONS)
    logs = LengthData.of(CheckedScores(Scores(np.ones((1, 5)), ["q"], list("abcde"))), corpus, None).class_logs
    one, two, none = np.log([45, 20]).mean(), np.log([45, 8]).mean(), np.log([2, 6]).mean()
    assert logs is not None
    np.testing.assert_allclose(logs, [(one + two) / 2, one, two, none, none])


def test_known_answers_are_left_out_where_classes_are_not_known() -> None:
    clips = pl.DataFrame({"clip_id": ["a", "b", "c"], "start_s": [0.0] * 3, "end_s": [1.0, 2.0, 8.0]})
    captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["c"], "text": ["x"]})
    found = first_of(Scores(np.array([[1, 2, 3]]), ["0"], ["a", "b", "c"]), make_corpus(clips, captions))
    assert (found.depths, found.means.tolist(), found.rank.tolist()) == ((1,), [[2.0]], [1.0])
    assert found.excess[0, 0] == pytest.approx(np.log(2) - (np.log(1) + np.log(2)) / 2)


# Class lengths against a dictionary of lists; those of EPIC-KITCHENS-100 are in `test_length_epic`.


Clips = list[tuple[int, float]]
CLIPS = st.lists(st.tuples(st.integers(0, 4), st.floats(1, 100) | st.just(float("nan"))), max_size=20)


def actions_of(clips: Clips) -> ActionLengths:
    return ActionLengths(
        np.array([c for c, _ in clips], np.int64), np.array([length for _, length in clips], np.float64)
    )


def listed(clips: Clips) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for name, length in clips:
        if not np.isnan(length):
            found[name].append(length)
    return found


@given(CLIPS, CLIPS)
def test_means_of_the_classes_that_both_have(train: Clips, test: Clips) -> None:
    found, first, second = class_lengths(actions_of(train), actions_of(test)), listed(train), listed(test)
    assert found.classes.tolist() == sorted(first.keys() & second.keys())
    for place, name in enumerate(found.classes.tolist()):
        assert found.discrepancy[place] == pytest.approx(np.mean(second[name]) - np.mean(first[name]))
        assert (found.train_count[place], found.test_count[place]) == (len(first[name]), len(second[name]))


def test_a_discrepancy_counts_either_way() -> None:
    found = class_lengths(
        ActionLengths(np.array([0, 1, 2]), np.array([10.0, 10.0, 10.0])),
        ActionLengths(np.array([0, 1, 2]), np.array([13.0, 7.0, 12.0])),
    )
    assert (found.count_above(2), found.count_above(3), found.count_above(3, or_equal=True)) == (2, 0, 2)


def test_draws_are_of_all_ways_to_choose_as_many_test_clips_of_a_class() -> None:
    """Two of four clips: each of the six choices about as often; a class of one split has no part."""
    lengths = [1.0, 2.0, 4.0, 8.0]
    train = ActionLengths(np.array([0, 0, 5, 7]), np.array([*lengths[:2], 3.0, 9.0]))
    test = ActionLengths(np.array([0, 0, 0, 5, 6]), np.array([*lengths[2:], float("nan"), 3.0, 9.0]))
    found = drawn_discrepancies(train, test, draws=6000, seed=1)
    assert found.shape == (6000, 2) and not found[:, 1].any()
    choices = [np.mean(chosen) - np.mean([*set(lengths) - set(chosen)]) for chosen in combinations(lengths, 2)]
    values, counts = np.unique(found[:, 0].round(6), return_counts=True)
    assert values.tolist() == pytest.approx(sorted(choices))
    assert np.abs(counts - 1000).max() < 4 * (6000 / 6 * 5 / 6) ** 0.5
    assert np.array_equal(found, drawn_discrepancies(train, test, draws=6000, seed=1))


# Rank correlations against scipy and regressions of ranks; samples against columns that are drawn by hand.


QUIET = AuditSettings(resamples=0)


def columns(seed: int, count: int, size: int = 60) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.integers(0, 12, size) + generator.integers(0, 2, size) * 0.5 for _ in range(count)]


def slow(one: np.ndarray, other: np.ndarray, *given_: np.ndarray) -> float:
    """The correlation of what regressions of the ranks leave."""
    design = np.stack([np.ones(len(one)), *map(rankdata, given_)], axis=1)
    left = [rankdata(x) - design @ np.linalg.lstsq(design, rankdata(x), rcond=None)[0] for x in (one, other)]
    return float(np.corrcoef(*left)[0, 1])


@given(st.integers(0, 10**6), st.integers(0, 3))
def test_it_is_the_correlation_of_what_regressions_of_ranks_leave(seed: int, more: int) -> None:
    found = columns(seed, 2 + more)
    value = rank_correlation(found, np.arange(60), QUIET, "r").value
    assert value == pytest.approx(slow(*found), abs=1e-9)
    if not more:
        assert value == pytest.approx(spearmanr(*found).statistic, abs=1e-12)


def test_a_column_that_is_told_by_the_others_has_no_correlation() -> None:
    one, other = columns(0, 2)
    groups = np.arange(60)
    for told in ([one, other, one], [np.ones(60), other], [one[:0], other[:0]]):
        assert np.isnan(rank_correlation(told, groups[: len(told[0])], AuditSettings(resamples=20), "r").value)
    twice = rank_correlation([one, other, one * 0 + 1, one * 0], groups, QUIET, "r").value
    assert twice == pytest.approx(spearmanr(one, other).statistic)


def test_a_sample_counts_a_drawn_row_as_often_as_it_is_drawn() -> None:
    """The interval is of the correlations of the rows that a sample repeats, calculated anew."""
    one, other, held = columns(3, 3)
    groups = np.repeat(np.arange(12), 5)
    how = AuditSettings(resamples=40, seed=5, confidence=0.9)
    found = rank_correlation([one, other, held], groups, how, "r")
    picks = np.random.default_rng(5).integers(0, 12, size=(40, 12))
    drawn = []
    for pick in picks:
        rows = np.concatenate([np.flatnonzero(groups == group) for group in pick])
        drawn.append(slow(one[rows], other[rows], held[rows]))
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.05, 0.95]).tolist())
    below, above = np.sum(np.array(drawn) <= 0), np.sum(np.array(drawn) >= 0)
    assert found.p_value == pytest.approx(min(1, 2 * (1 + min(below, above)) / 41))
