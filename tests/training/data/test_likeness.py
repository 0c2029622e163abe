"""Pairs are drawn by how like their clips are to the searched ones, and what is fitted to pairs follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from evenreel.corpus import make_corpus, save_corpus, select
from evenreel.debias.likeness import likeness_weights
from evenreel.debias.without_habits import WithoutHabits
from evenreel.errors import UsageError
from evenreel.features import StoredSettings, store_features
from evenreel.training.batches import FeatureExamples
from evenreel.training.loop import train
from evenreel.training.material import drawn_alike, load_material, mean_frames
from evenreel.training.recipe import Recipe
from evenreel.types import VideoFeatures
from tests.training.small_material import DIMENSION, small_corpus, small_examples, small_material, small_recipe


def searched_like(examples: FeatureExamples, rows: slice) -> VideoFeatures:
    """Some clips of the examples once more, as those that are searched."""
    videos = examples.video_features
    return VideoFeatures(videos.ids[rows], videos.frames[rows], videos.frame_mask[rows], videos.times_s[rows])


def test_captions_weigh_what_their_clip_does_times_what_they_weighed() -> None:
    plain = small_examples(captions_each=2)
    known = np.where(np.arange(64) < 2, 3.0, 1.0)
    searched = searched_like(plain, slice(0, 8))
    found, said = drawn_alike(replace(plain, pairs=replace(plain.pairs, weights=known)), searched)
    own = likeness_weights(mean_frames(plain.video_features), mean_frames(searched))
    expected = [own[clip] * one for clip, one in zip(plain.pairs.clips, known, strict=True)]
    assert found.pairs.weights == pytest.approx(np.array(expected) / np.mean(expected))
    assert found.pairs.weights is not None and found.pairs.digest() != plain.pairs.digest()
    assert own[:8].mean() > 1 > own[8:].mean()
    worth = 32**2 / (own**2).sum()
    assert said == (
        f"Clips are drawn up to {own.max():.1f} times as often as on average, the more often the more they are like "
        f"the 8 clips that will be searched; that is worth {worth:.0f} clips drawn alike."
    )
    other = VideoFeatures(("a",), np.ones((1, 1, 3), np.float32), np.ones((1, 1), bool), np.zeros((1, 1)))
    with pytest.raises(UsageError, match="have 16 numbers and those of `likeness` 3"):
        drawn_alike(plain, other)


def test_habits_are_those_of_the_clips_that_are_drawn(tmp_path: Path) -> None:
    """The first 32 captions differ along one direction within a clip, the last 32 along another; these are drawn."""
    plain, rng = small_examples(clips=64), np.random.default_rng(1)
    habits = np.linalg.qr(rng.standard_normal((DIMENSION, 2)))[0].T
    rows = np.repeat(np.arange(32), 2)
    shown = rng.standard_normal((32, DIMENSION))[rows] + 0.05 * rng.standard_normal((64, DIMENSION))
    written = shown + rng.standard_normal((64, 1)) * habits[np.arange(64) // 32]
    sentence = written / np.linalg.norm(written, axis=1, keepdims=True)
    texts = replace(plain.text_features, sentence=sentence.astype(np.float32))
    weights = np.where(np.arange(64) < 32, 0.0, 2.0)
    examples = replace(plain, text_features=texts, pairs=replace(plain.pairs, clips=rows, weights=weights))
    matcher = train(small_recipe(without_habits={"beyond": 20.0}), small_material(examples), tmp_path).matcher
    assert isinstance(matcher, WithoutHabits)
    kept = (torch.from_numpy(habits).float() @ matcher.kept).norm(dim=1)
    assert kept[0] > 0.9 and kept[1] < 0.2


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """Clips around two places, half of them to learn from; those of the second place are searched."""
    folder, corpus = tmp_path_factory.mktemp("likeness"), small_corpus(36)
    number = pl.col("clip_id").str.slice(1).cast(pl.Int64)
    split = pl.when(number < 24).then(pl.lit("train")).otherwise(pl.lit("test"))
    corpus = make_corpus(corpus.clips.with_columns(split=split), corpus.captions)
    save_corpus(corpus, folder / "corpus")
    save_corpus(select(corpus, split="test"), folder / "elsewhere")
    for row, name in enumerate(corpus.clips["clip_id"]):
        np.save(folder / f"{name}.npy", np.random.default_rng(row).standard_normal((3, 4)) + 3 * (row >= 12))
    for name in ("features", "other"):
        store_features(corpus, folder / name, StoredSettings(name, {"rgb": [folder]}))
    data = {"corpus": str(folder / "corpus"), "features": str(folder / "features"), "validation": None}
    hgr = {"name": "hgr", "settings": {"size": 8, "word_size": 4}}  # needs no vectors of captions
    return small_recipe(data=data, matcher=hgr, likeness={})


def test_a_recipe_draws_clips_by_likeness_and_says_so(recipe: Recipe) -> None:
    loaded = load_material(recipe)
    weights = loaded.examples.pairs.weights
    assert weights is not None and weights[:12].max() < weights[12:].min()
    assert len(loaded.notes) == 1 and "like the 12 clips that will be searched" in loaded.notes[0]
    assert loaded.uses == ("frames of searched clips",)
    plain = load_material(replace(recipe, likeness=None))
    assert (plain.notes, plain.uses, plain.examples.pairs.weights) == ((), (), None)


def test_clips_of_another_corpus_are_of_the_same_encoder(recipe: Recipe) -> None:
    folder = Path(recipe.data.corpus).parent
    assert recipe.likeness is not None
    elsewhere = replace(recipe.likeness, split=None, corpus=str(folder / "elsewhere"))
    weights = [
        load_material(replace(recipe, likeness=one)).examples.pairs.weights for one in (recipe.likeness, elsewhere)
    ]
    assert np.array_equal(*weights)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="are of different encoders"):
        load_material(replace(recipe, likeness=replace(elsewhere, features=str(folder / "other"))))
