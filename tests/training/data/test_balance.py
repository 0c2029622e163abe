"""Pairs are weighed by the class and length of their clips, and what that did is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, UsageError
from evenreel.training.data.balance import balanced
from evenreel.training.data.pairs import Pairs, pairs_of
from evenreel.training.recipe.recipe import RecipeError
from evenreel.training.recipe.sections import LengthBalance, Members
from evenreel.types import Corpus
from tests.training.small_material import small_recipe

CLASS = [0] * 4 + [1] * 4
FRAMES = [10, 11, 12, 90, 13, 91, 92, 93]
"""Class 0 has three short clips and a long one, class 1 one short clip and three long ones."""


def corpus_of(frames: list[int | None], verbs: list[list[int]], captions_each: int = 1) -> Corpus:
    names = [f"clip{number}" for number in range(len(frames))]
    clips = pl.DataFrame(
        {"clip_id": names, "frame_count": frames, "verb_classes": verbs, "noun_classes": [[0] for _ in names]},
        schema_overrides={"frame_count": pl.Int64, "verb_classes": pl.List(pl.Int64)},
    )
    of = [name for name in names for _ in range(captions_each)]
    captions = pl.DataFrame({"caption_id": [str(row) for row in range(len(of))], "clip_id": of, "text": of})
    return make_corpus(clips, captions)


def pairs_in(corpus: Corpus) -> Pairs:
    return pairs_of(corpus, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list()[::-1])


def test_rare_lengths_of_a_class_weigh_more() -> None:
    """P(short) is a half; of class 0 three quarters are short: 2/3 each, and 2 for the long one. Rows are turned."""
    corpus = corpus_of(list(FRAMES), [[one] for one in CLASS], captions_each=2)
    found, said = balanced(pairs_in(corpus), corpus, LengthBalance(2, 10))
    expected = np.repeat([2 / 3, 2 / 3, 2 / 3, 2, 2, 2 / 3, 2 / 3, 2 / 3], 2)
    assert found.weights == pytest.approx(expected)
    assert (said.strata, said.heaviest) == (2, pytest.approx(2))
    assert said.after == pytest.approx(0, abs=1e-9)
    held = 1 + 0.25 * np.log2(0.25) + 0.75 * np.log2(0.75)  # one bit less what is open once the class is known
    assert said.before == pytest.approx(held)
    assert said.sentence == (
        "Clips are drawn up to 2.0 times as often as on average, so that classes hold 0.0 % of the information on 2 "
        "strata of length instead of 18.9 %."
    )
    assert found.digest() != pairs_in(corpus).digest()


def test_what_cannot_be_balanced_is_refused_in_a_sentence() -> None:
    unknown = corpus_of([10, None, 30], [[0], [0], [1]])
    with pytest.raises(UsageError, match="The length of 3 of 3 training clips is not known, and balance needs all"):
        balanced(pairs_in(unknown), unknown, LengthBalance())
    even = corpus_of([10, 10], [[0], [1]])
    with pytest.raises(UsageError, match="All 2 training clips are 10 frames long, so there is nothing to balance"):
        balanced(pairs_in(even), even, LengthBalance())
    unnamed = corpus_of([10, 20], [[], []])
    with pytest.raises(CorpusError, match="No clip has a verb class"):
        balanced(pairs_in(unnamed), unnamed, LengthBalance())


def test_a_recipe_does_not_balance_what_it_divides() -> None:
    recipe = replace(small_recipe(), balance=LengthBalance())
    assert replace(recipe, members=Members(by="seed")).balance == LengthBalance()
    with pytest.raises(RecipeError, match="balance undoes what members.by=length divides by"):
        replace(recipe, members=Members())
    with pytest.raises(RecipeError, match=r"balance.most is 0.5; it must be 1 to 1,000,000,000"):
        replace(recipe, balance=LengthBalance(most=0.5))
