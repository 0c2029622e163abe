"""Degrees of relevance, strata and role graphs on their way from the corpus to the loss, and corpora that have none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from evenreel.corpus import class_relevance, load_corpus, make_corpus, save_corpus
from evenreel.errors import CorpusError
from evenreel.features import StoredSettings, store_features
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.batches import PairBatch
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.training.batches import Batches, FeatureExamples, Order, TrainingBatch, pairs_of
from evenreel.training.loop import train
from evenreel.training.material import load_material
from evenreel.training.module import RetrievalModule
from evenreel.training.recipe import Recipe
from evenreel.training.splits import mirrors_of
from evenreel.types import Corpus, RoleGraph
from tests.training.loop.test_run import figures_of
from tests.training.small_material import DIMENSION, small_recipe
from tests.training.small_mirrors import REAL, mirrored_corpus, mirrored_examples

BATCH = 8
GRAPH = '[{"ROOT": {"role": "ROOT", "words": ["cut"]}, "1": {"role": "V", "spans": [0]}}, []]'


class Listening(MeanPool):
    """It keeps the batch that its loss was given."""

    heard: PairBatch

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        self.heard = batch
        return super().loss(batch)


def with_classes() -> Corpus:
    """Clips that mirror others, of three verbs and five nouns."""
    corpus = mirrored_corpus()
    number = pl.col("clip_id").str.slice(1).cast(pl.Int64)
    classes = {"verb_classes": pl.concat_list(number % 3), "noun_classes": pl.concat_list(number % 5, number % 2 + 5)}
    return make_corpus(corpus.clips.with_columns(**classes), corpus.captions.with_columns(**classes))


@pytest.fixture(scope="module")
def examples() -> FeatureExamples:
    plain, corpus = mirrored_examples(), with_classes()
    texts, videos = plain.text_features.ids, plain.video_features.ids
    return replace(plain, pairs=pairs_of(corpus, texts, videos, mirrors_of(corpus), relevance=True))


def batch_of(examples: FeatureExamples, part: tuple[int, int] = (0, 1)) -> TrainingBatch:
    return Batches(examples, Order(REAL, BATCH, 0), part)[0]


def test_they_reach_the_loss_through_the_adapter_and_beside_mirrors(examples: FeatureExamples) -> None:
    matcher = Listening(DIMENSION, MeanPoolSettings())
    adapted = cast("Matcher", Adapted(matcher, DIMENSION, AdapterSettings()))
    recipe = small_recipe(debias={"preset": "neutral"})
    batch = batch_of(examples)
    RetrievalModule(adapted, None, recipe, 1).training_step(batch, 0)
    degrees = class_relevance(with_classes(), batch.caption_ids, batch.clip_ids, "iou")
    expected = torch.from_numpy(degrees.block(slice(0, BATCH), slice(0, BATCH))).float()
    assert matcher.heard.relevance is not None
    assert torch.equal(matcher.heard.relevance, expected)
    assert len(set(expected.flatten().tolist())) > 3


def test_every_device_has_those_of_the_whole_batch(examples: FeatureExamples) -> None:
    whole = batch_of(examples)
    for device in (0, 1):
        part = batch_of(examples, (device, 2))
        assert len(part.text.ids) == BATCH // 2
        assert part.relevance is not None
        assert torch.equal(part.relevance, cast("Tensor", whole.relevance))


def test_every_device_has_the_role_graphs_of_the_whole_batch(
    examples: FeatureExamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = tuple(RoleGraph((name,)) for name in examples.text_features.ids)
    captions = replace(examples, text_features=replace(examples.text_features, graphs=graphs))
    module = RetrievalModule(cast("Matcher", MeanPool(DIMENSION, MeanPoolSettings())), None, small_recipe(), 1)
    monkeypatch.setattr(module, "_gather", lambda part: torch.stack([part, part]))
    for device in (0, 1):
        text = module.joint_batch(batch_of(captions, (device, 2))).text
        assert text.graphs == tuple(RoleGraph((name,)) for name in text.ids)
    assert batch_of(examples).graphs is None


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """On features of half of the clips; those of `with_classes`, the other half to be selected on."""
    folder = tmp_path_factory.mktemp("classes")
    corpus = with_classes()
    number = pl.col("clip_id").str.slice(1).cast(pl.Int64)
    split = pl.when(number < REAL // 2).then(pl.lit("train")).otherwise(pl.lit("val"))
    clips = corpus.clips.with_columns(split=split, source=None, pair_id=None)
    corpus = make_corpus(clips, corpus.captions.with_columns(role_graph=pl.lit(GRAPH)))
    save_corpus(corpus, folder / "corpus")
    random = np.random.default_rng(0)
    for name in clips["clip_id"]:
        np.save(folder / f"{name}.npy", random.standard_normal((3, DIMENSION)))
    store_features(corpus, folder / "features", StoredSettings("small", {"rgb": [folder]}))
    return small_recipe(
        data={"corpus": str(folder / "corpus"), "features": str(folder / "features")},
        matcher={"name": "hgr", "settings": {"mining": "ranp", "size": 8, "word_size": 4}},
        adapter={"kind": "linear"},
        loop={"epochs": 1},
    )


def test_a_recipe_that_mines_by_relevance_learns_by_it(recipe: Recipe, tmp_path: Path) -> None:
    material = load_material(recipe)
    pairs, rows = material.examples.pairs, np.arange(8)
    numbers = [int(pairs.clip_ids[row][1:]) for row in pairs.clips[rows]]
    nouns = [{number % 5, number % 2 + 5} for number in numbers]
    degrees = [
        [((i - j) % 3 == 0) / 2 + len(n & m) / len(n | m) / 2 for j, m in zip(numbers, nouns, strict=True)]
        for i, n in zip(numbers, nouns, strict=True)
    ]
    torch.testing.assert_close(pairs.relevance(rows), torch.tensor(degrees))
    assert material.validation is not None
    assert material.validation.pairs.relevance(rows) is None, "nothing is learned from it"
    train(recipe, material, tmp_path)
    assert figures_of(tmp_path, "loss/text_to_video_positive")[1] > 0


def test_a_corpus_without_classes_does_not_begin(recipe: Recipe, tmp_path: Path) -> None:
    corpus = load_corpus(recipe.data.corpus)
    save_corpus(make_corpus(corpus.clips.drop("noun_classes", "verb_classes"), corpus.captions), tmp_path)
    plain = replace(recipe, data=replace(recipe.data, corpus=str(tmp_path)))
    with pytest.raises(
        CorpusError, match="Mining by relevance .* needs verb and noun classes of captions and of clips"
    ):
        load_material(plain)
