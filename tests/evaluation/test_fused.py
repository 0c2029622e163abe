"""Several systems as one: sums and ranks against slow loops, the order of ids, what is used, and bad input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from evenreel.corpus.relevance import RelevantPairs
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation import Validation, fuse
from evenreel.evaluation.fusion import RANKS, TEST_SPREAD
from evenreel.types import ScoreBlocks, ScoreNotes, Scores
from tests.evaluation.small_corpus import scores_of

tables = st.tuples(st.integers(2, 4), st.integers(2, 5)).flatmap(
    lambda shape: st.lists(arrays(np.float64, shape, elements=st.integers(-4, 4)), min_size=2, max_size=3)
)


def values(scores: ScoreBlocks) -> np.ndarray:
    return scores.block(slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids)))


def named(found: list[np.ndarray]) -> dict[str, ScoreBlocks]:
    return {f"s{number}.npz": scores_of(table) for number, table in enumerate(found)}


def shuffled(scores: Scores, rows: list[int], columns: list[int]) -> Scores:
    ids = [scores.caption_ids[row] for row in rows], [scores.video_ids[column] for column in columns]
    return Scores(np.asarray(scores.values)[np.ix_(rows, columns)], *ids, scores.about)


@dataclass
class Blocks:
    """Scores that are had block by block alone."""

    scores: Scores

    @property
    def caption_ids(self) -> Any:
        return self.scores.caption_ids

    @property
    def video_ids(self) -> Any:
        return self.scores.video_ids

    @property
    def about(self) -> ScoreNotes:
        return self.scores.about

    def block(self, captions: slice, videos: slice) -> np.ndarray:
        return self.scores.block(captions, videos)


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
