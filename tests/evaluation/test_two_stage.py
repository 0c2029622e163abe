"""Two-stage search against one that is spelt out, and what must hold of it whatever the scores are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.evaluation.fusion import TwoStage, places, shortlists
from evenreel.types import ScoreNotes, Scores
from tests.evaluation.small_corpus import corpus_of, scores_of

Matrix = NDArray[np.float64]
VALUES = st.sampled_from([-np.inf, -1.0, 0.0, 0.25, 0.5, 2.0])  # few, so that many tie


def both(two: TwoStage) -> NDArray[np.float64]:
    return two.block(slice(0, len(two.caption_ids)), slice(0, len(two.video_ids)))


def order(cheap: Sequence[float], dear: Sequence[float], depth: int) -> list[int]:
    """The ranking of one caption where nothing ties."""
    by_cheap = sorted(range(len(cheap)), key=lambda video: -cheap[video])
    first, rest = by_cheap[:depth], by_cheap[depth:]
    return sorted(first, key=lambda video: -dear[video]) + rest


@given(st.integers(1, 5), st.integers(1, 8), st.integers(1, 9), st.integers(0, 2**20))
def test_without_ties_it_is_the_search_that_is_spelt_out(captions: int, videos: int, depth: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    cheap, dear = (random.permuted(np.tile(np.arange(float(videos)), (captions, 1)), axis=1) for _ in range(2))
    found = both(TwoStage(scores_of(cheap), scores_of(dear), depth))
    for row in range(captions):
        assert np.argsort(-found[row]).tolist() == order(cheap[row].tolist(), dear[row].tolist(), depth)


@given(st.data(), st.integers(1, 4), st.integers(1, 6), st.integers(1, 7), st.integers(0, 5))
def test_a_shortlist_holds_the_best_and_no_more_than_its_depth(
    data: st.DataObject, captions: int, videos: int, depth: int, seed: int
) -> None:
    rows = st.lists(st.lists(VALUES, min_size=videos, max_size=videos), min_size=captions, max_size=captions)
    cheap = np.array(data.draw(rows))
    depth = min(depth, videos)
    chosen = shortlists(cheap, depth, seed)
    assert chosen.shape == (captions, depth)
    for row, own in enumerate(chosen.tolist()):
        assert len(set(own)) == depth
        assert sorted(cheap[row, own], reverse=True) == sorted(cheap[row], reverse=True)[:depth]
        alone = shortlists(cheap[row : row + 1], depth, seed, first=row)
        assert alone[0].tolist() == own  # nothing that is drawn hangs on the captions beside it


def test_of_those_that_tie_at_the_end_each_is_drawn_as_often() -> None:
    drawn = shortlists(np.tile([1.0, 0.0, 0.0, 0.0, -1.0], (3000, 1)), 2)
    assert (drawn[:, 0] == 0).all()
    assert np.bincount(drawn[:, 1], minlength=5)[1:4] == pytest.approx([1000, 1000, 1000], abs=130)
    assert set(drawn[:, 1].tolist()) == {1, 2, 3}


@given(st.data(), st.integers(1, 6), st.integers(1, 6))
def test_with_all_videos_it_is_evaluated_as_the_dear_score(data: st.DataObject, captions: int, videos: int) -> None:
    rows = st.lists(st.lists(VALUES, min_size=videos, max_size=videos), min_size=captions, max_size=captions)
    cheap, dear = (scores_of(np.array(data.draw(rows))) for _ in range(2))
    wanted = EvaluationSettings(metrics=parse_metrics(["R@1", "R@2", "MeanR"]), directions=("t2v",), resamples=0)
    corpus = corpus_of([row % videos for row in range(captions)], videos)
    expected = evaluate(dear, corpus, wanted).directions["t2v"].per_query
    for depth in (None, videos, videos + 3):
        found = evaluate(TwoStage(cheap, dear, depth), corpus, wanted).directions["t2v"].per_query
        assert {name: values.tolist() for name, values in found.items()} == {
            name: values.tolist() for name, values in expected.items()
        }


def test_equal_scores_stay_equal_and_what_is_never_retrieved_stays_so() -> None:
    cheap = np.array([[0.9, 0.8, 0.7, -np.inf, 0.7]])
    dear = np.array([[0.5, 0.5, 0.1, 0.9, -np.inf]])
    (found,) = both(TwoStage(scores_of(cheap), scores_of(dear), 2))
    assert found[0] == found[1] > found[2] == found[4] > found[3] == -np.inf
    (all_but_none,) = both(TwoStage(scores_of(cheap), scores_of(dear), 4))
    assert all_but_none[3] == -np.inf  # a shortlist of four takes no clip that the cheap score never retrieves
    (everything,) = both(TwoStage(scores_of(cheap), scores_of(dear), None))
    assert everything.tolist() == dear[0].tolist()


def test_places_count_different_scores_below() -> None:
    rows = np.array([[3.0, 1.0, 3.0, -np.inf], [0.0, 0.0, 0.0, 0.0]])
    assert places(rows).tolist() == [[2, 1, 2, 0], [0, 0, 0, 0]]


def test_blocks_are_parts_of_the_whole() -> None:
    random = np.random.default_rng(3)
    cheap, dear = (scores_of(random.integers(0, 3, (6, 7)).astype(np.float64)) for _ in range(2))
    two = TwoStage(cheap, dear, 3)
    whole = both(two)
    assert two.block(slice(2, 5), slice(1, 4)).tolist() == whole[2:5, 1:4].tolist()


def test_cheap_scores_go_by_their_ids() -> None:
    random = np.random.default_rng(5)
    values, dear = random.standard_normal((4, 5)), scores_of(random.standard_normal((4, 5)))
    rows, columns = random.permutation(4), random.permutation(5)
    shuffled = Scores(values[np.ix_(rows, columns)], [f"c{r}" for r in rows], [f"v{c}" for c in columns])
    assert both(TwoStage(shuffled, dear, 2)).tolist() == both(TwoStage(scores_of(values), dear, 2)).tolist()


def test_a_score_that_is_no_number_is_refused() -> None:
    sound, broken = scores_of(np.eye(2)), scores_of(np.array([[1.0, 0.0], [np.nan, 0.0]]))
    for cheap, dear, depth in ((broken, sound, 1), (sound, broken, 1), (sound, broken, None)):
        with pytest.raises(ScoresError, match="caption 'c1' and video 'v0' is NaN"):
            both(TwoStage(cheap, dear, depth))


def test_what_the_stages_use_is_kept() -> None:
    cheap = replace(scores_of(np.eye(3)), about=ScoreNotes(("word counts of the gallery", "a bank")))
    dear = replace(scores_of(np.eye(3)), about=ScoreNotes(("a bank", "other queries")))
    assert TwoStage(cheap, dear, 1).about.uses == ("word counts of the gallery", "a bank", "other queries")
    turned = Scores(np.eye(3), ["c2", "c1", "c0"], cheap.video_ids, cheap.about)
    assert TwoStage(turned, dear, 1).about.uses == ("word counts of the gallery", "a bank", "other queries")
    for depth in (None, 3):  # the cheap one has no part
        assert TwoStage(cheap, dear, depth).about.uses == dear.about.uses


def test_what_cannot_be_is_refused() -> None:
    dear = scores_of(np.zeros((2, 3)))
    with pytest.raises(UsageError, match="depth of a shortlist is 0"):
        TwoStage(dear, dear, 0)
    with pytest.raises(ScoresError, match="lack 1 of 3 clips of those that they go with, 'v2' for example"):
        TwoStage(scores_of(np.zeros((2, 2))), dear, 2)
