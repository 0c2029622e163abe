"""Splits of drawn worlds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from benchmarks.worlds import SplitSizes, annotated_clips, draw_splits
from evenreel.errors import CorpusError
from tests.planted.worlds.tables import made_up_table

if TYPE_CHECKING:
    from evenreel.corpus import Imported


def actions_of(clips: pl.DataFrame, split: str) -> list[tuple[int, int]]:
    return sorted(clips.filter(pl.col("split") == split).select("verb", "noun").iter_rows())


def test_the_test_split_has_one_clip_of_each_action() -> None:
    table = made_up_table()
    clips = annotated_clips(table, SplitSizes(), 0)
    shown = table.clips.filter(pl.col("split") == "test")
    actions = {(verbs[0], nouns[0]) for verbs, nouns in shown.select("verb_classes", "noun_classes").iter_rows()}
    assert actions_of(clips, "test") == sorted(actions)


def test_val_has_one_clip_of_each_action_and_train_the_other_clips() -> None:
    table = made_up_table()
    clips = annotated_clips(table, SplitSizes(), 0)
    val, train = actions_of(clips, "val"), actions_of(clips, "train")
    assert len(set(val)) == len(val) and set(train) <= set(val)
    names = clips.filter(pl.col("split") != "test")["clip_id"].to_list()
    assert sorted(names) == sorted(table.clips.filter(pl.col("split") == "train")["clip_id"])


def test_sizes_are_the_most_clips_and_order_is_the_tables() -> None:
    table = made_up_table()
    clips = annotated_clips(table, SplitSizes(100, 10, 20), 0)
    assert clips["split"].to_list() == ["train"] * 100 + ["val"] * 10 + ["test"] * 20
    place = {name: row for row, name in enumerate(table.clips["clip_id"])}
    for split in ("train", "val", "test"):
        rows = [place[name] for name in clips.filter(pl.col("split") == split)["clip_id"]]
        assert rows == sorted(rows)
    assert not annotated_clips(table, SplitSizes(100, 10, 20), 1).equals(clips)
    assert annotated_clips(table, SplitSizes(100, 0, 20), 0)["split"].unique().sort().to_list() == ["test", "train"]


def test_any_columns_may_be_the_answer() -> None:
    table = pl.DataFrame({"clip_id": [*"abcdef"], "split": ["train"] * 3 + ["test"] * 3, "word": [*"xxyzzz"]})
    drawn = draw_splits(table, SplitSizes(), 0, ("word",))
    assert drawn.columns == table.columns
    assert drawn.filter(pl.col("split") == "val")["word"].sort().to_list() == ["x", "y"]
    assert drawn.filter(pl.col("split") == "train")["word"].to_list() == ["x"]
    assert drawn.filter(pl.col("split") == "test")["word"].to_list() == ["z"]


def test_clips_without_a_class_or_a_length_are_left_out() -> None:
    table = made_up_table(train=5, test=2)
    clips = table.clips.with_columns(
        verb_classes=pl.when(pl.col("clip_id") == "clip 0").then(None).otherwise("verb_classes"),
        end_s=pl.when(pl.col("clip_id") == "clip 1").then(None).otherwise("end_s"),
    )
    kept = annotated_clips(replace(table, clips=clips), SplitSizes(10, 0, 1), 0)
    assert kept["clip_id"].to_list()[:3] == ["clip 2", "clip 3", "clip 4"] and kept.height == 4


def test_a_table_without_one_of_the_splits_is_refused() -> None:
    with pytest.raises(CorpusError, match="split test"):
        annotated_clips(made_up_table(test=0), SplitSizes(), 0)


def test_kitchens(epic_kitchens: Imported) -> None:
    clips = annotated_clips(epic_kitchens.corpus, SplitSizes(train=10**6, val=0), 0)
    train = clips.filter(pl.col("split") == "train")
    assert train.height == 67_217 and train["verb"].n_unique() == 97 and train["noun"].n_unique() == 289
    most = {kind: train[kind].value_counts().sort("count")["count"][-2:].sum() for kind in ("verb", "noun")}
    assert {kind: round(100 * count / 67_217) for kind, count in most.items()} == {"verb": 40, "noun": 9}
