"""Several systems as one: sums, ranks and two stages against slow loops, ids, what is used, and bad input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import sparse

from evenreel.corpus.relevance import RelevantPairs
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation import EvaluationSettings, Validation, evaluate, fuse, parse_metrics
from evenreel.evaluation.fusion import RANKS, TEST_SPREAD, TwoStage, places, shortlists
from evenreel.types import ScoreBlocks, ScoreNotes, Scores
from tests.evaluation.small_corpus import Blocks, corpus_of, scores_of
from tests.evaluation.small_corpus import values_of as values

tables = st.tuples(st.integers(2, 4), st.integers(2, 5)).flatmap(
    lambda shape: st.lists(arrays(np.float64, shape, elements=st.integers(-4, 4)), min_size=2, max_size=3)
)


def named(found: list[np.ndarray]) -> dict[str, ScoreBlocks]:
    return {f"s{number}.npz": scores_of(table) for number, table in enumerate(found)}


def shuffled(scores: Scores, rows: list[int], columns: list[int]) -> Scores:
    ids = [scores.caption_ids[row] for row in rows], [scores.video_ids[column] for column in columns]
    return Scores(np.asarray(scores.values)[np.ix_(rows, columns)], *ids, scores.about)


def slow_ranks(found: list[np.ndarray], weights: list[float]) -> np.ndarray:
    """Reciprocal rank fusion in loops, over the rows."""
    total = np.zeros(found[0].shape)
    for table, weight in zip(found, weights, strict=True):
        for row in range(table.shape[0]):
            for column in range(table.shape[1]):
                better = sum(other > table[row, column] for other in table[row])
                alike = sum(other == table[row, column] for other in table[row])
                if table[row, column] > -np.inf:
                    total[row, column] += weight / (60 + better + (alike + 1) / 2)
    heard = [table for table, weight in zip(found, weights, strict=True) if weight > 0]
    never = np.all([np.isneginf(table) for table in heard], axis=0)
    return np.where(never, -np.inf, total)


def test_what_no_system_lists_is_never_retrieved() -> None:
    nothing = -np.inf
    lists = {"a": scores_of([[1.0, nothing], [nothing, 1.0]]), "b": scores_of([[nothing, nothing], [1.0, 2.0]])}
    for direction in ("t2v", "v2t"):
        found = values(fuse(lists, "rank", direction=direction))  # type: ignore[arg-type]
        assert np.isneginf(found).tolist() == [[False, True], [False, False]]


def test_a_case_worked_by_hand() -> None:
    systems = {"a": scores_of([[1.0, 3.0], [1.0, 3.0]]), "b": scores_of([[10.0, 10.0], [10.0, 30.0]])}
    fused = fuse(systems, weights=[0.75, 0.25])
    # a: mean 2, deviation 1; b: mean 15, deviation sqrt(75) = 8.660254
    low, high = (10 - 15) / 75**0.5, (30 - 15) / 75**0.5
    expected = [[-0.75 + 0.25 * low, 0.75 + 0.25 * low], [-0.75 + 0.25 * low, 0.75 + 0.25 * high]]
    np.testing.assert_allclose(values(fused), expected, rtol=1e-6)
    np.testing.assert_allclose(values(fuse(systems, "sum")), [[5.5, 6.5], [5.5, 16.5]])
    ranks = [[0.5 / 62 + 0.5 / 61.5, 0.5 / 61 + 0.5 / 61.5], [0.5 / 62 + 0.5 / 62, 0.5 / 61 + 0.5 / 61]]
    np.testing.assert_allclose(values(fuse(systems, "rank")), ranks, rtol=1e-6)


@given(tables)
def test_ranks_are_those_of_the_loops_in_both_directions(found: list[np.ndarray]) -> None:
    weights = [1 / len(found)] * len(found)
    np.testing.assert_allclose(values(fuse(named(found), "rank")), slow_ranks(found, weights), rtol=1e-6)
    turned = slow_ranks([table.T for table in found], weights).T
    np.testing.assert_allclose(values(fuse(named(found), "rank", direction="v2t")), turned, rtol=1e-6)


@given(tables, st.floats(0.1, 10), st.floats(-50, 50))
def test_the_scale_and_the_mean_of_a_system_do_not_matter_where_it_is_standardised(
    found: list[np.ndarray], scale: float, shift: float
) -> None:
    spread = [table + np.linspace(0, 1, table.size).reshape(table.shape) for table in found]
    changed = [scale * spread[0] + shift, *spread[1:]]
    np.testing.assert_allclose(values(fuse(named(changed))), values(fuse(named(spread))), atol=1e-5)


@given(tables, st.data())
def test_ids_and_not_places_say_what_belongs_together(found: list[np.ndarray], data: st.DataObject) -> None:
    first, *others = named(found).items()
    rows = data.draw(st.permutations(range(found[0].shape[0])))
    columns = data.draw(st.permutations(range(found[0].shape[1])))
    moved = {name: shuffled(scores, rows, columns) for name, scores in others}  # type: ignore[arg-type]
    blocks = {name: Blocks(scores) for name, scores in moved.items()}
    for way in ("sum", "rank"):
        plain = fuse(named(found), way)  # type: ignore[arg-type]
        for others_given in (moved, blocks):
            fused = fuse(dict([first]) | others_given, way)  # type: ignore[arg-type]
            assert np.array_equal(values(fused), values(plain))
            assert (fused.caption_ids, fused.video_ids) == (plain.caption_ids, plain.video_ids)


@given(tables, st.sampled_from(["standard", "sum", "rank"]), st.sampled_from(["t2v", "v2t"]), st.data())
def test_a_block_is_a_part_of_the_table(found: list[np.ndarray], way: Any, direction: Any, data: st.DataObject) -> None:
    spread = [table + np.linspace(0, 1, table.size).reshape(table.shape) for table in found]
    fused = fuse(named(spread), way, direction=direction)
    first, stop = sorted(data.draw(st.tuples(*[st.integers(0, found[0].shape[0])] * 2)))
    left, right = sorted(data.draw(st.tuples(*[st.integers(0, found[0].shape[1])] * 2)))
    assume(first < stop and left < right)
    block = fused.block(slice(first, stop), slice(left, right))
    assert np.array_equal(block, values(fused)[first:stop, left:right])


def test_lists_that_leave_pairs_out_are_fused_by_rank_alone() -> None:
    gaps = {"a": scores_of([[0.5, -np.inf]]), "b": scores_of([[0.1, 0.9]])}
    np.testing.assert_allclose(values(fuse(gaps, "rank")), [[0.5 / 61 + 0.5 / 62, 0.5 / 61]], rtol=1e-6)
    with pytest.raises(ScoresError, match=r"^a: the score of 'c0' and 'v1' is -inf, .* are fused by rank\.$"):
        fuse(gaps)


def test_what_the_systems_use_is_kept_and_statistics_of_the_test_are_told() -> None:
    one, two = (
        scores_of([[1.0, 2.0]], about=ScoreNotes(("other queries",))),
        scores_of([[2.0, 1.0]], about=ScoreNotes(("a bank", "other queries"))),
    )
    systems = {"a": one, "b": two}
    assert fuse(systems).about.uses == ("other queries", "a bank", TEST_SPREAD)
    assert fuse(systems, "sum").about.uses == ("other queries", "a bank")
    assert fuse(systems, "rank").about.uses == ("other queries", "a bank", RANKS["t2v"])
    assert fuse(systems, "rank", direction="v2t").about.uses[-1] == RANKS["v2t"]
    held_out = Validation([Scores(np.array([[0.0, 4.0]]), ["x"], ["y", "z"])] * 2)
    fused = fuse(systems, validation=held_out)
    assert fused.about.uses == ("other queries", "a bank")
    assert (fused.fusion.means, fused.fusion.scales) == ((2.0, 2.0), (2.0, 2.0))


def test_weights_are_learned_from_what_answers_other_captions() -> None:
    rng = np.random.default_rng(0)
    right = RelevantPairs(sparse.csr_array(np.eye(40, dtype=np.bool_)))
    ids = [f"x{n}" for n in range(40)], [f"y{n}" for n in range(40)]
    knows, guesses = np.eye(40) + 0.3 * rng.normal(size=(40, 40)), rng.normal(size=(40, 40))
    held_out = Validation([Scores(100 * knows, *ids), Scores(guesses, *ids)], right)
    systems = named([rng.normal(size=(3, 3)), rng.normal(size=(3, 3))])
    fused = fuse(systems, validation=held_out)
    assert fused.fusion.weights[0] > 0.9
    assert sum(fused.fusion.weights) == pytest.approx(1)
    assert fuse(systems, weights=[0.5, 0.5], validation=held_out).fusion.weights == (0.5, 0.5)


GOOD = scores_of([[1.0, 2.0], [3.0, 5.0]])
EVEN = Scores(np.full((2, 2), 3.0), ["x", "y"], ["z", "w"])
OTHERS = Scores(GOOD.values, ["x", "y"], ["z", "w"])
TWICE = Scores(GOOD.values, ["c0", "c0"], GOOD.video_ids)
OTHER_CLIPS = Scores(GOOD.values, ["c0", "c1"], ["v0", "w"])


def two(other: ScoreBlocks = GOOD) -> dict[str, ScoreBlocks]:
    return {"a": GOOD, "b": other}


@pytest.mark.parametrize(
    ("systems", "settings", "sentence"),
    [
        ({"a": GOOD}, {}, "A fusion needs the scores of two systems or more; 1 is given."),
        (two(), {"weights": [0.5]}, "There are 1 weights for 2 systems"),
        (two(), {"weights": [0.5, 0.6]}, "0.5, 0.6, which add up to 1.1; they must be"),
        (two(), {"weights": [1.5, -0.5]}, "they must be at least 0 and add up to 1."),
        (two(), {"weights": [np.nan, 0.5]}, "they must be at least 0 and add up to 1."),
        (two(), {"way": "mean"}, "'mean' is no way to fuse; there are: standard, sum"),
        (two(), {"direction": "both"}, "'both' is no direction; there are: t2v, v2t."),
        (two(scores_of([[1.0, 2.0]])), {}, "a and b are not of the same captions: 1 are in one alone, 'c1' for"),
        (two(OTHER_CLIPS), {}, "a and b are not of the same clips: 2 are in one alone, 'v1' for example"),
        (two(TWICE), {}, "b names a caption twice"),
        (two(scores_of([[1.0, np.nan], [0.0, 0.0]])), {}, "b: The score of caption 'c0' and video 'v1' is NaN"),
        (two(scores_of([[1.0, np.inf], [0.0, 0.0]])), {"way": "rank"}, "b: the score of 'c0'"),
        (two(scores_of([[1.0, 1.0], [1.0, 1.0]])), {}, "All scores of b are 1, so they have no scale; leave them out"),
        (two(), {"validation": Validation([OTHERS, EVEN])}, "All scores of the validation scores of b are 3, so they"),
        (
            two(),
            {"way": "sum", "weights": [0.5, 0.5], "validation": Validation([EVEN, EVEN])},
            "Sums need no scale, so nothing but weights is taken from validation scores; let these be learned from",
        ),
        (two(), {"way": "sum", "validation": Validation([EVEN, EVEN])}, "Sums need no scale, so nothing but weights"),
        (two(), {"validation": Validation([GOOD])}, "of 1 systems, and 2 are fused"),
        (two(), {"validation": Validation([GOOD, GOOD])}, "2 captions are in the validation scores and among those to"),
        (two(), {"way": "rank", "validation": Validation([GOOD, GOOD])}, "Ranks need no scale, and their weights are"),
    ],
)
def test_bad_input_is_refused(systems: dict[str, ScoreBlocks], settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises((UsageError, ScoresError)) as caught:
        values(fuse(systems, **settings))
    assert sentence in str(caught.value)


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
