"""Figures of lengths: of a corpus alone, and of rankings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import select
from evenreel.errors import CorpusError, UsageError
from evenreel.papers import Workspace, run_study
from evenreel.types import Scores
from tests.papers.class_clips import NOUNS, VERBS, class_material, quick_settings

SETTINGS = quick_settings()


def means(split: str) -> dict[tuple[int, int], float]:
    """Mean length of each class, by a query of the tables."""
    clips = select(class_material().whole, split=split).clips
    pair = [pl.col(kind).list.first() for kind in ("verb_classes", "noun_classes")]
    return {(v, n): mean for v, n, mean in clips.group_by(pair).agg(pl.col("frame_count").mean()).iter_rows()}


def by_length(sign: int) -> Workspace:
    """A system that ranks every caption's clips by their length alone, the short ones first for -1."""
    material = class_material()
    lengths = sign * material.test.clips["frame_count"].to_numpy().astype(np.float64)
    captions = material.test.captions["caption_id"].to_list()
    scores = Scores(np.tile(lengths, (len(captions), 1)), captions, material.test.clips["clip_id"].to_list())
    return replace(material, models=(), scores={"by length": scores})


def test_how_far_classes_differ() -> None:
    found = run_study("length/f2", class_material(), SETTINGS)
    train, test = means("train"), means("test")
    gaps = [test[pair] - train[pair] for pair in train]
    assert found.effect.value == pytest.approx(np.mean(gaps))
    assert found.sentence.startswith(f"Of {len(VERBS) * len(NOUNS)} classes in both splits {sum(g > 0 for g in gaps)} ")
    bars = found.figures[0].draw().data
    assert list(bars[0].y) == pytest.approx(sorted(gaps, reverse=True), abs=0.01)
    assert list(bars[1].y) == pytest.approx(sorted(map(abs, gaps), reverse=True), abs=0.01)


def test_how_lengths_are_spread() -> None:
    found = run_study("length/f7", class_material(), SETTINGS)
    lengths = [select(class_material().whole, split=split).clips["frame_count"] for split in ("train", "test")]
    assert [row[1:3] for row in found.tables[0].rows] == [(len(one), pytest.approx(one.mean())) for one in lengths]
    assert found.effect.value == pytest.approx(lengths[1].mean() - lengths[0].mean())  # type: ignore[operator]


def test_which_lengths_a_class_is_shown() -> None:
    """A ranking by length shows every class the 20 shortest clips."""
    found = run_study("length/f1", by_length(-1), replace(SETTINGS, action="take cup"))
    ((system, name, train, test, first, _),) = found.tables[0].rows
    shortest = np.sort(class_material().test.clips["frame_count"].to_numpy())[:20]
    assert (system, name) == ("by length", "take cup")
    assert (train, test) == (pytest.approx(means("train")[1, 2]), pytest.approx(means("test")[1, 2]))
    assert first == pytest.approx(shortest.mean())
    assert "take cup" in found.figures[0].draw().layout.annotations[1].text
    both = replace(class_material(), scores=by_length(1).scores)
    rows = run_study("length/f1", both, SETTINGS).tables[0].rows
    assert [row[0] for row in rows] == ["mean_pool", "by length"] and rows[0][1] == rows[1][1]


def test_how_relevant_the_first_clips_are() -> None:
    material = by_length(1)
    caption = material.test.captions["caption_id"][5]
    found = run_study("length/f5", material, replace(SETTINGS, queries=(caption,)))
    assert [row[:2] for row in found.tables[0].rows] == [
        ("by length: text to video", "take plate"), ("by length: video to text", "take plate"),
    ]  # fmt: skip
    verb, noun = 5 // len(NOUNS), 5 % len(NOUNS)
    clips = material.test.clips.sort("frame_count", descending=True).head(50)
    degrees = [((v == [verb]) + (n == [noun])) / 2 for v, n in clips.select("verb_classes", "noun_classes").iter_rows()]
    assert found.tables[0].rows[0][2] == pytest.approx(np.mean(degrees))
    assert len(found.figures[0].draw().data) == 2
    both = replace(material, models=class_material().models)
    compared = run_study("length/f5", both, SETTINGS)
    assert compared.effect.name.endswith("last system less first")
    assert len(compared.figures[0].draw().data) == 4


@pytest.mark.parametrize(
    ("name", "changes", "kind", "sentence"),
    [
        ("f5", {"queries": ("nobody",)}, UsageError, "no caption 'nobody'; --query takes ids"),
        ("f1", {"action": "eat soup"}, UsageError, "No class 'eat soup' is in both"),
    ],
)
def test_what_is_not_there_is_said(name: str, changes: dict[str, object], kind: type, sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        run_study(f"length/{name}", class_material(), replace(SETTINGS, **changes))  # type: ignore[arg-type]


def test_splits_without_a_class_in_common_cannot_be_compared() -> None:
    material = class_material()
    verbs = pl.col("verb_classes").list.first()
    apart = replace(
        material, test=select(material.test, where=verbs == 0), learned=select(material.whole, where=verbs > 0)
    )
    with pytest.raises(CorpusError, match="No class of verb and noun is in both splits"):
        run_study("length/f2", apart, SETTINGS)
