"""Clips are left out of training by the lengths of classes elsewhere, and that is said."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError
from evenreel.training.recipe import Trim, uses_of
from evenreel.training.splits import trimmed_corpus
from evenreel.types import Corpus
from tests.training.small_material import small_recipe


def corpus_of(prefix: str, clips: list[tuple[int, list[int], list[int]]]) -> Corpus:
    """Clips of (frames, verbs, nouns), each with one caption."""
    names = [f"{prefix}{number}" for number in range(len(clips))]
    table = pl.DataFrame(
        {
            "clip_id": names,
            "frame_count": [frames for frames, _, _ in clips],
            "verb_classes": [verbs for _, verbs, _ in clips],
            "noun_classes": [nouns for _, _, nouns in clips],
        }
    )
    captions = pl.DataFrame({"caption_id": [f"c-{name}" for name in names], "clip_id": names, "text": names})
    return make_corpus(table, captions)


LEARNED = corpus_of(
    "t", [(10, [0], [0]), (20, [0], [0]), (90, [0], [0]), (30, [1], [1]), (40, [1], [1]), (7, [2], [2])]
)
TARGET = corpus_of("v", [(80, [0], [0]), (100, [0], [0]), (35, [1], [1]), (5, [3], [3])])


def test_a_class_is_trimmed_to_its_mean_elsewhere() -> None:
    """Class <0, 0> has mean 40 in training and 90 elsewhere: both short clips go; <1, 1> fits, <2, 2> is not there."""
    found = trimmed_corpus(LEARNED, TARGET, Trim(margin=10, least=1), seed=0)
    assert found.corpus.clips["clip_id"].to_list() == ["t2", "t3", "t4", "t5"]
    assert found.corpus.captions["clip_id"].to_list() == ["t2", "t3", "t4", "t5"]
    assert (found.clips, found.classes) == (2, 1)
    assert found.sentence == (
        "Left out for their length: 2 of 6 training clips (33.3%; classes that are trimmed: 1; margin 10 frames; clips "
        "that a class keeps at least: 1)."
    )


def test_as_many_are_drawn_at_random_by_the_seed() -> None:
    kept = [
        trimmed_corpus(LEARNED, TARGET, Trim("random", margin=10, least=1), seed).corpus.clips["clip_id"].to_list()
        for seed in range(20)
    ]
    assert {len(one) for one in kept} == {4}
    assert len({tuple(one) for one in kept}) > 5
    again = trimmed_corpus(LEARNED, TARGET, Trim("random", margin=10, least=1), 3)
    assert again.corpus.clips["clip_id"].to_list() == kept[3]
    assert again.sentence.startswith("Left out at random, as many as for their length: 2 of 6 training clips (33.3%;")


def test_a_clip_of_two_actions_goes_with_one_of_them() -> None:
    """Its length counts half for each: 20 for verb 0, which is to last 90, and 20 for verb 1, which is not trimmed."""
    learned = corpus_of("t", [(40, [0, 1], [0]), (95, [0], [0]), (20, [1], [0])])
    target = corpus_of("v", [(90, [0], [0]), (20, [1], [0])])
    found = trimmed_corpus(learned, target, Trim(margin=10, least=1), seed=0)
    assert found.corpus.clips["clip_id"].to_list() == ["t1", "t2"]
    assert (found.clips, found.classes) == (1, 1)


def test_lengths_that_nobody_knows_are_refused() -> None:
    unknown = Corpus(LEARNED.clips.with_columns(frame_count=pl.lit(None, pl.Int64)), LEARNED.captions)
    with pytest.raises(CorpusError, match="The length of 10 of 10 clips is not known, and trim compares lengths"):
        trimmed_corpus(unknown, TARGET, Trim(), seed=0)


def test_classes_that_nobody_gave_are_asked_for() -> None:
    empty = pl.lit(np.array([], np.int32).tolist(), pl.List(pl.Int32))
    bare = Corpus(LEARNED.clips.with_columns(verb_classes=empty), LEARNED.captions)
    other = Corpus(TARGET.clips.with_columns(verb_classes=empty), TARGET.captions)
    with pytest.raises(CorpusError, match="No clip has a verb class"):
        trimmed_corpus(bare, other, Trim(), seed=0)


@pytest.mark.parametrize(("target", "uses"), [(None, ()), ("val", ()), ("test", ("class lengths of the split test",))])
def test_a_model_says_what_it_knows_of_a_test_split(target: str | None, uses: tuple[str, ...]) -> None:
    assert uses_of(small_recipe(trim={"target": target})) == uses
    assert uses_of(small_recipe()) == ()
