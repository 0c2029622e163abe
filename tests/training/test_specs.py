"""A matcher that reads words is built with those of the captions it learns from, once and for all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from evenreel.checkpoint import MatcherSpec
from evenreel.errors import UsageError
from evenreel.training import Recipe
from evenreel.training.batches import FeatureExamples, TrainingInputs
from evenreel.training.loop import RunHooks, train
from evenreel.training.material import fitted_spec, spec_of
from evenreel.types import RoleGraph, RoleNode
from tests.training.small_material import DIMENSION, small_examples, small_recipe

SIZES = {"size": 8, "word_size": 4}


def reading(*words: str) -> FeatureExamples:
    """Sixteen captions of one word each, in turn; two more of the table are those of no clip."""
    examples = small_examples(clips=16)
    graphs = tuple(RoleGraph((words[row % len(words)],), (RoleNode("NOUN", (0,)),)) for row in range(16))
    pairs = replace(examples.pairs, captions=examples.pairs.captions[:-2], clips=examples.pairs.clips[:-2])
    rare = RoleGraph(("never",))
    return replace(
        examples, pairs=pairs, text_features=replace(examples.text_features, graphs=(*graphs[:-2], rare, rare))
    )


def recipe(**changes: Any) -> Recipe:
    settings = {**SIZES, **changes.pop("settings", {})}
    return small_recipe(matcher={"name": "hgr", "settings": settings}, adapter=None, **changes)


def test_the_vocabulary_is_that_of_the_captions_learned_from() -> None:
    spec = fitted_spec(recipe(), TrainingInputs(reading("cut", "take", "cut"), DIMENSION))
    assert spec == MatcherSpec("hgr", {**SIZES, "vocabulary": ("cut", "take")})
    assert spec_of(recipe()) == MatcherSpec("hgr", SIZES), "a recipe stays as it was written"


def test_also_behind_an_adapter_and_not_where_the_recipe_names_one() -> None:
    adapted = replace(recipe(), adapter=small_recipe().adapter)
    assert fitted_spec(adapted, TrainingInputs(reading("cut"), DIMENSION)).wrapped[0].settings["vocabulary"] == ("cut",)
    given = recipe(settings={"vocabulary": ["plate"]})
    assert fitted_spec(given, TrainingInputs(reading("cut"), DIMENSION)).settings["vocabulary"] == ("plate",)


def test_a_matcher_that_reads_no_words_is_what_its_recipe_says() -> None:
    assert fitted_spec(small_recipe(), TrainingInputs(small_examples(), DIMENSION)) == spec_of(small_recipe())


def test_captions_that_are_no_graphs_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"hgr reads captions as role graphs .* train it on features \(data.features\)"
    ):
        fitted_spec(recipe(), TrainingInputs(small_examples(), DIMENSION))


def test_what_goes_on_from_a_checkpoint_keeps_its_words(tmp_path: Path) -> None:
    first = train(recipe(), TrainingInputs(reading("cut", "take"), DIMENSION), tmp_path / "first")
    weights = {name: tensor.clone() for name, tensor in first.matcher.state_dict().items()}  # type: ignore[attr-defined]
    still = recipe(optimiser={"lr": 0.0})
    material = TrainingInputs(reading("wash", "take", "fold"), DIMENSION, start=weights, start_spec=first.spec)
    second = train(still, material, tmp_path / "second")
    assert second.spec == first.spec
    empty = recipe(settings={"vocabulary": []})  # the default, spelt out
    begun = TrainingInputs(reading("wash"), DIMENSION, start_spec=first.spec)
    assert fitted_spec(empty, begun).settings["vocabulary"] == ("cut", "take")
    for name, tensor in second.matcher.state_dict().items():  # type: ignore[attr-defined]
        assert torch.equal(tensor, weights[name])


def test_word_vectors_are_read_when_training_begins_and_never_after(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("cut 1 2 3 4\nplate 5 6 7 8\n")
    still = recipe(settings={"vectors": str(path)}, optimiser={"lr": 0.0}, records={"save_every_steps": 1})
    material = TrainingInputs(reading("cut", "take"), DIMENSION)
    begun: Any = train(still, material, tmp_path / "run").matcher
    assert begun.texts.words.weight[1].tolist() == [1, 2, 3, 4]
    path.unlink()
    again: Any = train(still, material, tmp_path / "run", RunHooks(resume=True)).matcher
    assert torch.equal(again.texts.words.weight, begun.texts.words.weight)
    with pytest.raises(UsageError, match="cannot be read"):
        train(still, material, tmp_path / "another")
