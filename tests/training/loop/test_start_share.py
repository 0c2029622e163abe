"""What is kept lies between the weights that training began with and those it came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from evenreel.training import Recipe
from evenreel.training.data.examples import TrainingInputs
from evenreel.training.loop.run import RunHooks, train
from evenreel.training.recipe.recipe import RecipeError
from evenreel.types import ScoreBlocks
from tests.training.loop.test_run import CutShortError, cut_short_after_7, figures_of, weights_of
from tests.training.small_material import (
    DIMENSION,
    recall_at_1,
    small_examples,
    small_material,
    small_recipe,
    tower_material,
)


def sharing(share: float, **changes: Any) -> Recipe:
    return small_recipe(selection={"start_share": share}, **changes)


def never_learning(recipe: Recipe) -> Recipe:
    """Its last weights are its first."""
    return replace(recipe, optimiser=replace(recipe.optimiser, lr=0.0, backbone_lr=0.0))


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_the_mean_of_first_and_last_weights_is_kept(tmp_path: Path, share: float) -> None:
    material = replace(small_material(), validation=None)
    first = weights_of(train(never_learning(sharing(0.0)), material, tmp_path / "first"))
    last = weights_of(train(sharing(0.0), material, tmp_path / "last"))
    kept = weights_of(train(sharing(share), material, tmp_path / "kept"))
    for name, tensor in kept.items():
        torch.testing.assert_close(tensor, (1 - share) * last[name] + share * first[name], rtol=0, atol=1e-6)
    assert any(not torch.equal(first[name], last[name]) for name in first)


def test_it_begins_with_the_weights_of_a_checkpoint(tmp_path: Path) -> None:
    given = weights_of(train(small_recipe(), small_material(), tmp_path / "given"))
    material = TrainingInputs(small_examples(), DIMENSION, start=given)
    kept = weights_of(train(sharing(1.0), material, tmp_path / "kept"))
    assert all(torch.equal(kept[name], given[name]) for name in given)


def test_what_is_kept_is_what_is_evaluated(tmp_path: Path) -> None:
    """With a share of 1 nothing that is learned is ever seen; training itself goes on as without."""
    for name, share in (("start", 1.0), ("trained", 0.0)):
        train(sharing(share, loop={"epochs": 10}), small_material(), tmp_path / name, RunHooks(recall_at_1))
    evaluated, of_trained = (figures_of(tmp_path / name, "validation/R@1") for name in ("start", "trained"))
    assert len(set(evaluated.values())) == 1 < len(set(of_trained.values()))
    losses, of_trained = (figures_of(tmp_path / name, "loss/contrastive") for name in ("start", "trained"))
    assert losses == of_trained


def test_a_resumed_run_remembers_how_it_began(tmp_path: Path) -> None:
    recipe = sharing(0.5, records={"save_every_steps": 2})
    whole = train(recipe, small_material(), tmp_path / "whole", RunHooks(recall_at_1))
    with pytest.raises(CutShortError):
        train(recipe, small_material(), tmp_path / "broken", RunHooks(recall_at_1, watch=cut_short_after_7))
    again = train(recipe, small_material(), tmp_path / "broken", RunHooks(recall_at_1, resume=True))
    assert whole.step == again.step
    assert all(torch.equal(tensor, weights_of(again)[name]) for name, tensor in weights_of(whole).items())


def a_recall(scores: ScoreBlocks) -> Mapping[str, float]:
    return {"R@1": 1.0}


@pytest.mark.parametrize("learns", [True, False])
def test_towers_that_learn_take_part(tmp_path: Path, clip_folder: Path, learns: bool) -> None:
    backbone = {"model": str(clip_folder), "train": learns}
    data = {"corpus": "corpus", "features": None}
    changes = {"backbone": backbone, "data": data, "optimiser": {"lr": 0.01, "backbone_lr": 0.01}}
    material = tower_material(clip_folder)
    assert material.towers is not None
    before = {name: tensor.clone() for name, tensor in material.towers.model.state_dict().items()}
    trained = train(sharing(1.0, **changes), material, tmp_path, RunHooks(a_recall))
    assert trained.towers is not None
    assert all(torch.equal(tensor, before[name]) for name, tensor in trained.towers.model.state_dict().items())


def test_a_share_is_no_more_than_all() -> None:
    with pytest.raises(RecipeError, match=r"selection.start_share is 1.5; it must be 0 to 1"):
        sharing(1.5)
