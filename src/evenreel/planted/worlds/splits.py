"""Splits of a drawn world: training, validation and test clips, taken from an annotation table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.errors import CorpusError, UsageError
from evenreel.planted.worlds.vectors import Stream, stream
from evenreel.types import Corpus

LEARNED = ("train", "val")
"""Splits that a bias is planted in: a validation split that is held out of the training clips shares their bias."""
ANSWER = ("verb", "noun")
"""Columns that a caption of an annotated clip names."""


def check_strength(strength: float) -> None:
    """Check the probability with which a bias holds in a world."""
    if not 0 <= strength <= 1:
        raise UsageError(f"A strength is between 0 and 1; it was {strength}.")


def rows_of_splits(clips: pl.DataFrame, splits: Sequence[str]) -> NDArray[np.bool_]:
    """Return which of V clips are of some splits that are learned from, (V,)."""
    rows = clips["split"].is_in(splits).to_numpy()
    if not rows.any():
        raise UsageError("A world needs clips of the split train.")
    return rows


class SplitSizes(NamedTuple):
    """Greatest number of clips of each split.

    Attributes:
        train: clips to train on.
        val: clips of the train split to select a model on.
        test: clips to test on.
    """

    train: int = 20_000
    val: int = 1_000
    test: int = 2_000


def annotated_clips(corpus: Corpus, sizes: SplitSizes, seed: int) -> pl.DataFrame:
    """Draw clips of an annotation table whose verb, noun, length and video are known.

    Args:
        corpus: tables of an annotated dataset, such as EPIC-KITCHENS-100.
        sizes: greatest number of clips of each split.
        seed: seed of the draw.

    Returns:
        Columns `clip_id, path, split, verb, noun, length_s, annotator`; the classes are the first of each clip. The
        annotator is the participant, where the table has one, else the video. See `draw_splits`.
    """
    person = "participant" if "participant" in corpus.clips.columns else "path"
    known = corpus.clips.select(
        "clip_id",
        "path",
        "split",
        pl.col("verb_classes").list.first().alias("verb"),
        pl.col("noun_classes").list.first().alias("noun"),
        (pl.col("end_s") - pl.col("start_s")).alias("length_s"),
        pl.col(person).alias("annotator"),
    ).drop_nulls()
    return draw_splits(known, sizes, seed, ANSWER)


def draw_splits(clips: pl.DataFrame, sizes: SplitSizes, seed: int, answer: Sequence[str]) -> pl.DataFrame:
    """Draw the splits train, val and test of a table of clips.

    Val and test have one clip of each answer, so that a caption has one right clip: among several, a model that prefers
    a certain length, place or look would find one that has it. Val is taken from the clips of the train split, and the
    rest of those are trained on.

    Args:
        clips: table with a column `split` that is train or test; clips of other splits are left out.
        sizes: greatest number of clips of each split.
        seed: seed of the draw.
        answer: columns that a caption names, whose values make an answer.

    Returns:
        Rows of the table, in its order, train before val before test.
    """
    drawn = []
    for number, split in enumerate(("train", "test")):
        own = clips.filter(pl.col("split") == split)
        if own.is_empty():
            raise CorpusError(f"No clip of the split {split} has all that a drawn world needs.")
        shuffled = own.with_row_index("row")[stream(seed, Stream.CLIPS, number).permutation(own.height)]
        first = shuffled.unique(answer, keep="first", maintain_order=True)
        if split == "test":
            drawn.append(first.head(sizes.test))
            continue
        held = first.head(sizes.val).with_columns(split=pl.lit("val"))
        drawn += [shuffled.join(held, on="row", how="anti", maintain_order="left").head(sizes.train), held]
    return pl.concat([part.sort("row").drop("row") for part in drawn])
