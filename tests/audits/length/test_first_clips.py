"""Lengths of first clips against every order of equals, and against loops over classes."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.audits.inputs import OrderedRows
from evenreel.audits.length.data import LengthData
from evenreel.audits.length.first_clips import DEPTHS, FirstClipLengths, measure_first
from evenreel.corpus import make_corpus
from evenreel.evaluation.ranking import CheckedScores
from evenreel.types import Corpus, Scores
from tests.audits.length.small_lengths import TESTED, ranked_clips, ranking

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
