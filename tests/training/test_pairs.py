"""Which captions and clips make up which batch."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError
from evenreel.training.pairs import Order, batch_seed, pairs_of, parts_of
from evenreel.training.recipe import Data
from tests.training.small_material import small_corpus

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


def test_no_pair_left_is_an_error() -> None:
    with pytest.raises(CorpusError, match="No caption of the training split"):
        pairs_of(make_corpus(CLIPS, CAPTIONS), ("1",), ("c",))


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


def test_batches_have_different_seeds_that_torch_takes() -> None:
    seeds = {batch_seed(seed, batch) for seed in range(20) for batch in range(50)}
    assert len(seeds) == 1000
    assert max(seeds) < 2**63


def test_parts_by_split() -> None:
    learned, selected = parts_of(make_corpus(CLIPS, CAPTIONS), Data("corpus"), seed=0)
    assert learned.clips["clip_id"].to_list() == ["a", "b"]
    assert selected is not None
    assert selected.clips["clip_id"].to_list() == ["c"]


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


def test_without_either_there_is_no_validation() -> None:
    assert parts_of(make_corpus(CLIPS, CAPTIONS), Data("corpus", validation=None), seed=0)[1] is None
