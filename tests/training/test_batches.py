"""Which captions and clips make up which batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import class_relevance, make_corpus
from evenreel.errors import CorpusError
from evenreel.training.batches import Order, Pairs, batch_seed, pairs_of
from evenreel.training.recipe import Data, MatcherChoice
from evenreel.training.splits import needs_relevance, parts_of
from tests.training.small_material import small_corpus, small_recipe

CLIPS = pl.DataFrame({"clip_id": ["a", "b", "c"], "split": ["train", "train", "val"]})
CAPTIONS = pl.DataFrame(
    {
        "caption_id": ["1", "2", "3", "4"],
        "clip_id": ["a", "a", "b", "c"],
        "text": ["A dog  runs", "a cat", " a dog runs", "a bird"],
    }
)


def test_same_holds_for_the_clip_itself_and_for_equal_texts() -> None:
    pairs = pairs_of(make_corpus(CLIPS, CAPTIONS), ("1", "2", "3", "4"), ("a", "b", "c"))
    assert pairs.same(np.arange(4)).tolist() == [
        [True, True, True, False],  # caption 1 describes clip a twice, and b, whose caption 3 has the same text
        [True, True, False, False],
        [True, False, True, False],
        [False, False, False, True],
    ]


def test_rows_are_those_of_the_tables_given() -> None:
    pairs = pairs_of(make_corpus(CLIPS, CAPTIONS), ("4", "3", "1"), ("c", "a"))
    named = [
        (pairs.caption_ids[row], pairs.clip_ids[clip]) for row, clip in zip(pairs.captions, pairs.clips, strict=True)
    ]
    assert named == [("1", "a"), ("4", "c")]  # 2 has no features, and clip b was set aside


COOKED = pl.DataFrame(
    {
        "clip_id": ["tomato", "chicken", "plate", "both"],
        "verb_classes": [[0], [0], [1], [0, 1]],
        "noun_classes": [[10], [11], [12], [10, 11]],
    }
)
SAID = COOKED.with_columns(
    caption_id=pl.concat_str(pl.lit("of "), "clip_id"),
    text=pl.Series(["cut tomato", "cut chicken", "take plate", "cut tomato and take chicken"]),
)


def cooked_pairs(captions: list[str], clips: list[str]) -> Pairs:
    """Pairs with degrees of relevance; the captions are named by their clips."""
    return pairs_of(make_corpus(COOKED, SAID), [f"of {name}" for name in captions], clips, relevance=True)


NAMES = ["tomato", "chicken", "plate", "both"]
MIXED = cooked_pairs(["both", "plate", "chicken", "tomato"], ["chicken", "tomato", "both", "plate"])
DEGREES = class_relevance(make_corpus(COOKED, SAID), [f"of {name}" for name in NAMES], NAMES, "iou").block(
    slice(0, 4), slice(0, 4)
)


def relevance(pairs: Pairs, rows: list[int]) -> list[list[float]]:
    found = pairs.relevance(np.array(rows))
    assert found is not None
    assert found.dtype == torch.float32
    return found.tolist()


def test_relevance_is_that_of_the_classes_of_captions_and_clips() -> None:
    """Cut tomato, cut chicken and take plate: of the first they are 1, one half and 0."""
    pairs = cooked_pairs(["tomato", "chicken", "plate"], ["tomato", "chicken", "plate"])
    assert relevance(pairs, [0, 1, 2]) == [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]


@given(rows=st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_relevance_of_a_batch_is_the_block_of_its_rows(rows: list[int]) -> None:
    """Whatever the order of the tables, and where a pair comes twice; clips of two verbs have part of each."""
    np.testing.assert_allclose(relevance(MIXED, rows), DEGREES[np.ix_(rows, rows)], atol=1e-7)


def test_relevance_of_some_pairs_of_the_tables() -> None:
    """What was set aside, is no part of what is learned from, or is left out of the pairs later moves no row."""
    pairs = cooked_pairs(["plate", "tomato"], ["plate", "chicken", "both", "tomato"])
    assert relevance(pairs, [0, 1]) == [[1.0, 0.0], [0.0, 1.0]]
    corpus = make_corpus(COOKED[1:3], SAID[1:3])
    fewer = pairs_of(corpus, SAID["caption_id"].to_list(), COOKED["clip_id"].to_list(), relevance=True)
    assert relevance(fewer, [0, 1]) == [[1.0, 0.0], [0.0, 1.0]]
    later = replace(MIXED, captions=MIXED.captions[2:], clips=MIXED.clips[2:], texts=MIXED.texts[2:])
    np.testing.assert_allclose(relevance(later, [0, 1]), DEGREES[2:, 2:], atol=1e-7)


@pytest.mark.parametrize(
    ("clips", "mined", "sentence"),
    [
        (("a",), True, r"Mining by relevance .* the training split has none; fill them with"),
        (("c",), False, "No caption of the training split"),
    ],
)
def test_pairs_that_cannot_be_made(clips: tuple[str, ...], mined: bool, sentence: str) -> None:
    with pytest.raises(CorpusError, match=sentence):
        pairs_of(make_corpus(CLIPS, CAPTIONS), ("1",), clips, relevance=mined)


def test_the_digest_knows_classes() -> None:
    pairs = cooked_pairs(NAMES, NAMES)
    plain = replace(pairs, classes=None)
    others = COOKED.with_columns(noun_classes=pl.Series([[10], [11], [11], [10, 11]]))
    renamed = pairs_of(make_corpus(others, SAID), SAID["caption_id"].to_list(), NAMES, relevance=True)
    assert len({one.digest() for one in (pairs, plain, renamed)}) == 3
    assert pairs.digest() == cooked_pairs(NAMES, NAMES).digest()


@pytest.mark.parametrize(("mining", "asked"), [("hardest", False), ("all", False), ("ran", True), ("ranp", True)])
def test_relevance_is_needed_by_two_kinds_of_mining(mining: str, asked: bool) -> None:
    recipe = small_recipe()
    assert not needs_relevance(recipe)
    mined = replace(recipe, matcher=MatcherChoice("mean_pool", {"mining": mining}))
    assert needs_relevance(mined) is asked


@given(pairs=st.integers(2, 60), batch_size=st.integers(1, 20), seed=st.integers(0, 2**63 - 1), epoch=st.integers(0, 5))
def test_an_epoch_has_every_pair_once_at_most(pairs: int, batch_size: int, seed: int, epoch: int) -> None:
    order = Order(pairs, min(batch_size, pairs), seed)
    first = epoch * order.batches_per_epoch
    rows = np.concatenate([order.rows(first + place) for place in range(order.batches_per_epoch)])
    assert len(rows) == order.batches_per_epoch * order.batch_size
    assert len(rows) > pairs - order.batch_size
    assert len(set(rows.tolist())) == len(rows)
    assert set(rows.tolist()) <= set(range(pairs))


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    assert np.array_equal(Order(50, 10, 3).rows(7), Order(50, 10, 3).rows(7))
    assert not np.array_equal(Order(50, 50, 3).rows(0), Order(50, 50, 3).rows(1))
    assert not np.array_equal(Order(50, 50, 3).rows(0), Order(50, 50, 4).rows(0))


@given(
    weights=st.lists(st.floats(0.05, 4), min_size=2, max_size=40), seed=st.integers(0, 2**32), epoch=st.integers(0, 3)
)
def test_an_epoch_has_a_pair_as_often_as_its_weight(weights: list[float], seed: int, epoch: int) -> None:
    """All pairs of an epoch in one batch: each is there its weight (of a mean of 1), rounded down or up."""
    scaled = np.array(weights) / np.mean(weights)
    rows = Order(len(weights), len(weights), seed, scaled).rows(epoch)
    counts = np.bincount(rows, minlength=len(weights))
    assert counts.sum() == len(weights)
    assert (np.abs(counts - scaled) < 1 + 1e-9).all()


def test_weights_hold_on_average_and_mix_the_order() -> None:
    weights = np.array([0.25, 0.5, 0.75, 2.5])
    order = Order(4, 4, 0, weights)
    drawn = np.stack([order.rows(epoch) for epoch in range(2000)])
    assert np.bincount(drawn.ravel(), minlength=4) / 2000 == pytest.approx(weights, abs=0.05)
    assert [(drawn[:, place] == 3).mean() for place in range(4)] == pytest.approx([2.5 / 4] * 4, abs=0.05)


def test_batches_have_different_seeds_that_torch_takes() -> None:
    seeds = {batch_seed(seed, batch) for seed in range(20) for batch in range(50)}
    assert len(seeds) == 1000
    assert max(seeds) < 2**63


def test_a_share_can_be_held_out() -> None:
    corpus = small_corpus(50, captions_each=2)
    corpus = make_corpus(corpus.clips.with_columns(split=pl.lit("train")), corpus.captions)
    learned, selected = parts_of(corpus, Data("corpus", validation=None, held_out=0.2), seed=1)
    assert selected is not None
    assert selected.clips.height == 10
    assert selected.captions.height == 20
    assert not set(learned.clips["clip_id"]) & set(selected.clips["clip_id"])
    assert learned.clips.height + selected.clips.height == 50


def test_a_share_that_leaves_nothing_is_an_error() -> None:
    corpus = make_corpus(pl.DataFrame({"clip_id": ["a"], "split": ["train"]}), CAPTIONS.head(1))
    with pytest.raises(CorpusError, match="data.held_out is 0.2"):
        parts_of(corpus, Data("corpus", validation=None, held_out=0.2), seed=0)
