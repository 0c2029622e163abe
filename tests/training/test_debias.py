"""Training on clips beside those that mirror them: what a batch holds, what changes by it, and what does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from evenreel.checkpoint import load_matcher
from evenreel.cli.train import write_results
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.debias.source import PRESETS, SourceDebias
from evenreel.errors import CorpusError, UsageError
from evenreel.matchers.batches import video_batch
from evenreel.matchers.scoring import matcher_scores
from evenreel.training import Recipe, RecipeError, load_recipe, recipe_text
from evenreel.training.batches import Batches, Draw, FeatureExamples, Order, TrainingInputs, mirror_rows, pairs_of
from evenreel.training.loop import RunHooks, TrainedModel, train
from evenreel.training.material import load_material
from evenreel.training.pixels import PixelExamples
from evenreel.training.recipe import Data
from evenreel.training.splits import mirrors_of, parts_of
from evenreel.types import Corpus
from tests.training.small_material import (
    DIMENSION,
    MIRRORED,
    REAL,
    check_resumed,
    figures_of,
    mirrored_corpus,
    mirrored_examples,
    small_corpus,
    small_examples,
    small_recipe,
    weights_of,
)


@pytest.fixture(scope="module")
def examples() -> FeatureExamples:
    return mirrored_examples()


def debiasing(**settings: Any) -> Recipe:
    return small_recipe(debias={"preset": "neutral", **settings}, loop={"epochs": 5}, adapter={"dropout": 0.0})


def batch_of(examples: FeatureExamples, part: tuple[int, int] = (0, 1)) -> Any:
    return Batches(examples, Order(REAL, 8, 0), part)[0]


def test_each_caption_has_the_mirror_of_its_clip(examples: FeatureExamples) -> None:
    batch = batch_of(examples)
    numbers = [int(clip_id[1:]) for clip_id in batch.clip_ids]
    assert any(number >= MIRRORED for number in numbers), "one of the batch has none"
    assert batch.other_ids == tuple(f"g{n}" if n < MIRRORED else f"v{n}" for n in numbers)
    assert batch.present.tolist() == [n < MIRRORED for n in numbers]
    assert not batch.generated.any()
    rows = np.array([examples.video_features.ids.index(clip_id) for clip_id in batch.other_ids])
    assert batch.other.ids == batch.other_ids
    assert torch.equal(batch.other.frames, video_batch(examples.video_features, rows).frames)


def test_devices_share_the_others_as_they_share_the_batch(examples: FeatureExamples) -> None:
    whole, halves = batch_of(examples), [batch_of(examples, (rank, 2)) for rank in range(2)]
    assert halves[0].other.ids + halves[1].other.ids == whole.other_ids == halves[0].other_ids
    assert torch.equal(halves[1].present, whole.present)


def test_the_term_falls_and_so_does_the_preference(examples: FeatureExamples, tmp_path: Path) -> None:
    material = TrainingInputs(examples, DIMENSION)
    alone = train(replace(debiasing(), debias=None), material, tmp_path / "alone")
    neutral = train(debiasing(), material, tmp_path / "neutral")
    terms = figures_of(tmp_path / "neutral", "loss/source")
    assert terms[15] < 0.5 * terms[1]
    assert abs(lead(neutral, examples)) < 0.5 * abs(lead(alone, examples))


def lead(trained: TrainedModel, examples: FeatureExamples) -> float:
    """Mean score of mirrors less that of their real clips."""
    scores = matcher_scores(trained.matcher, examples.text_features, examples.video_features)
    values = scores.block(slice(0, MIRRORED), slice(0, REAL + MIRRORED))
    return float(values[:, REAL:].diagonal().mean() - values.diagonal().mean())


def test_a_weight_of_zero_is_training_without_it(examples: FeatureExamples, tmp_path: Path) -> None:
    """To the byte, dropout and all, whatever share is drawn."""
    plain = small_recipe()
    zero = small_recipe(debias={"weight": 0.0, "share": 0.5})
    without = replace(examples, pairs=replace(examples.pairs, mirrors=None))
    ends = [
        weights_of(train(recipe, TrainingInputs(given, DIMENSION), tmp_path / name))
        for name, recipe, given in (("plain", plain, without), ("zero", zero, examples))
    ]
    assert all(torch.equal(tensor, ends[1][name]) for name, tensor in ends[0].items())
    losses = [figures_of(tmp_path / name, "loss/contrastive") for name in ("plain", "zero")]
    assert losses[0] == losses[1]


def test_a_resumed_run_ends_as_one_that_was_left_alone(examples: FeatureExamples, tmp_path: Path) -> None:
    recipe = small_recipe(debias={"share": 0.5}, records={"save_every_steps": 2})
    check_resumed(recipe, TrainingInputs(examples, DIMENSION), tmp_path)


def test_a_run_is_resumed_with_its_own_debias_and_mirrors(examples: FeatureExamples, tmp_path: Path) -> None:
    train(small_recipe(debias={"weight": 0.1}), TrainingInputs(examples, DIMENSION), tmp_path)
    with pytest.raises(RecipeError, match="debias.weight was 0.1 and is 0.2"):
        train(
            small_recipe(debias={"weight": 0.2}), TrainingInputs(examples, DIMENSION), tmp_path, RunHooks(resume=True)
        )
    mirrors = mirror_rows(examples.pairs.clip_ids, {"v0": "g0"})
    fewer = replace(examples, pairs=replace(examples.pairs, mirrors=mirrors))
    with pytest.raises(CorpusError, match="train_pairs was "):
        train(small_recipe(debias={"weight": 0.1}), TrainingInputs(fewer, DIMENSION), tmp_path, RunHooks(resume=True))


@pytest.mark.parametrize("mirrors", [None, {"v0": "not there"}])
def test_without_counterparts_it_does_not_start(tmp_path: Path, mirrors: dict[str, str] | None) -> None:
    examples = small_examples()
    corpus = small_corpus(32)
    pairs = pairs_of(corpus, examples.text_features.ids, examples.video_features.ids, mirrors)
    with pytest.raises(UsageError, match="no clip of the training split has one that can be used"):
        train(small_recipe(debias={}), TrainingInputs(replace(examples, pairs=pairs), DIMENSION), tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.75])
def test_mirrors_stand_in_for_a_share_of_what_is_learned_from(share: float) -> None:
    learned, _ = parts_of(mirrored_corpus(), Data("corpus", validation=None, generated_share=share), seed=0)
    assert (learned.clips.height, learned.captions.height) == (REAL, REAL)
    generated = learned.clips.filter(pl.col("source") == "sora")
    assert generated.height == share * REAL
    assert set(generated["clip_id"]) <= set(learned.captions["clip_id"])
    with pytest.raises(CorpusError, match="only 18 have a counterpart"):
        parts_of(mirrored_corpus(), Data("corpus", validation=None, generated_share=0.9), seed=0)


def test_a_model_is_selected_on_real_clips() -> None:
    corpus = mirrored_corpus()
    others = called(corpus.clips, "other ", "clip_id", "pair_id").with_columns(split=pl.lit("val"))
    both = make_corpus(
        pl.concat([corpus.clips, others]),
        pl.concat([corpus.captions, called(corpus.captions, "other ", "caption_id", "clip_id")]),
    )
    _, selected = parts_of(both, Data("corpus", generated_share=0.5), seed=0)
    assert selected is not None
    assert selected.clips["source"].unique().to_list() == ["camera"]
    assert selected.clips.height == REAL
    _, held_out = parts_of(corpus, Data("corpus", validation=None, held_out=0.3, generated_share=0.5), seed=0)
    assert held_out is not None
    assert held_out.clips["source"].unique().to_list() == ["camera"]


def called(table: pl.DataFrame, prefix: str, *columns: str) -> pl.DataFrame:
    """The table with other ids."""
    return table.with_columns((prefix + pl.col(column)).alias(column) for column in columns)


def two_generators() -> Corpus:
    corpus = mirrored_corpus()
    mirrors = corpus.clips.filter(pl.col("source") == "sora").with_columns(source=pl.lit("kling"))
    return make_corpus(pl.concat([corpus.clips, called(mirrors, "k", "clip_id")]), corpus.captions)


def test_which_mirrors_has_to_be_said_where_there_are_several() -> None:
    with pytest.raises(CorpusError, match="generated clips of sora, kling; name the group"):
        mirrors_of(two_generators())
    assert mirrors_of(two_generators(), "kling")["v3"] == "kg3"


def test_a_preset_is_written_out_and_takes_the_place_of_all_that_the_file_says(tmp_path: Path) -> None:
    path, small = tmp_path / "recipe.yaml", small_recipe(debias={"preset": "release", "share": 0.25})
    path.write_text(recipe_text(small))
    assert load_recipe(path).debias == replace(PRESETS["release"], share=0.25)
    assert small_recipe(debias={}).debias == SourceDebias() == PRESETS["neutral"]
    assert load_recipe(path, ["debias.preset=paper"]).debias == PRESETS["paper"]
    for changes in (["debias.preset=neutral", "debias.weight=3"], ["debias.weight=3", "debias.preset=neutral"]):
        assert load_recipe(path, changes).debias == SourceDebias(weight=3)


# --- from a corpus of videos


@pytest.fixture(scope="module")
def loaded_recipe(corpus_folder: Path, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """Of the first six clips v3, which cannot be read, v4 and v5 mirror v0, v1 and v2; v9 mirrors one to select on."""
    folder = tmp_path_factory.mktemp("mirrored")
    corpus = load_corpus(corpus_folder)
    mirrored = {"v3": "v0", "v4": "v1", "v5": "v2", "v9": "v6"}
    pair_id = pl.col("clip_id").replace_strict(mirrored, default=None, return_dtype=pl.String)
    source = pl.when(pair_id.is_null()).then(pl.lit("camera")).otherwise(pl.lit("sora"))
    save_corpus(make_corpus(corpus.clips.with_columns(pair_id=pair_id, source=source), corpus.captions), folder)
    return small_recipe(
        data={"corpus": str(folder), "features": None, "videos": str(corpus_folder)},
        backbone={"model": str(clip_folder), "train": True, "rule": "3 midpoints", "augment": "crop_and_flip"},
        optimiser={"backbone_lr": 1e-4},
        loop={"batch_size": 4, "epochs": 1},
        adapter=None,  # type: ignore[arg-type]
        debias={"preset": "neutral"},
    )


@pytest.fixture(scope="module")
def loaded(loaded_recipe: Recipe) -> TrainingInputs:
    return load_material(loaded_recipe)


def test_mirrors_are_read_beside_what_is_learned_from(loaded: TrainingInputs) -> None:
    examples = loaded.examples
    assert isinstance(examples, PixelExamples)
    assert [file.clip_id for file in examples.files] == ["v0", "v1", "v2", "v4", "v5"]
    assert examples.pairs.mirrors is not None
    assert examples.pairs.mirrors.other.tolist() == [-1, 3, 4, 1, 2], "the mirror of v0 cannot be read"
    assert {examples.pairs.clip_ids[row] for row in examples.pairs.clips} == {"v0", "v1", "v2"}
    assert [one.clip_id for one in loaded.set_aside] == ["v3"]
    assert loaded.selected is not None
    assert loaded.selected.clips["clip_id"].to_list() == ["v6", "v7", "v8"]


def test_a_clip_and_its_mirror_are_cropped_alike(loaded: TrainingInputs) -> None:
    """As the clip at its place, whichever file it is; the files of v1 and v4 are given the same pictures."""
    examples = loaded.examples
    assert isinstance(examples, PixelExamples)
    files = list(examples.files)
    files[3] = replace(files[1], clip_id="v4")
    twins = replace(examples, files=tuple(files))
    own, other = twins.videos(np.array([1]), Draw(0, 5)), twins.videos(np.array([3]), Draw(0, 5, np.array([1])))
    assert torch.equal(own.pixels, other.pixels)
    assert not torch.equal(own.pixels, twins.videos(np.array([3]), Draw(0, 5)).pixels)


def test_the_checkpoint_is_the_matchers_own(loaded_recipe: Recipe, loaded: TrainingInputs, tmp_path: Path) -> None:
    trained = train(loaded_recipe, loaded, tmp_path)
    assert figures_of(tmp_path, "loss/source").keys() == {1}
    write_results(tmp_path, loaded_recipe, loaded, trained)
    again = load_matcher(tmp_path / "checkpoint")
    assert type(again.matcher) is type(trained.matcher)
    assert again.spec.name == "mean_pool"
    for name, tensor in weights_of(trained).items():
        assert torch.equal(again.matcher.state_dict()[name], tensor)  # type: ignore[attr-defined]
    card = (tmp_path / "checkpoint" / "README.md").read_text()
    assert "debias:\n  form: neutral\n  weight: 1.0\n" in card
    assert (tmp_path / "set_aside.csv").read_text().count("\n") == 2
