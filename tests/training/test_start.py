"""Fine-tuning: training that begins with the weights of a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from evenreel.errors import UsageError
from evenreel.training.run import Outside, train
from tests.training.small_material import recall_at_1, small_material, small_recipe


def weights(matcher: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in matcher.state_dict().items()}


def test_training_begins_with_the_weights_that_are_given(tmp_path: Path) -> None:
    """At a rate of 0 they stay; fresh ones would be others."""
    recipe = small_recipe()
    first = train(recipe, small_material(), tmp_path / "first").matcher
    still = replace(recipe, optimiser=replace(recipe.optimiser, lr=0.0), loop=replace(recipe.loop, seed=5))
    begun = train(still, replace(small_material(), start=weights(first)), tmp_path / "begun").matcher
    fresh = train(still, small_material(), tmp_path / "fresh").matcher
    for name, tensor in weights(begun).items():
        torch.testing.assert_close(tensor, weights(first)[name], rtol=0, atol=0)
    assert any(not torch.equal(tensor, weights(first)[name]) for name, tensor in weights(fresh).items())


def test_a_resumed_run_goes_on_from_its_own_checkpoint(tmp_path: Path) -> None:
    recipe = small_recipe()
    material = replace(small_material(), start=weights(train(recipe, small_material(), tmp_path / "first").matcher))
    outside = Outside(recall_at_1)
    once = weights(train(recipe, material, tmp_path / "run", outside).matcher)
    again = weights(train(recipe, material, tmp_path / "run", replace(outside, resume=True)).matcher)
    assert all(torch.equal(tensor, again[name]) for name, tensor in once.items())


def test_weights_of_another_matcher_are_refused_before_the_first_step(tmp_path: Path) -> None:
    recipe = small_recipe()
    start = weights(train(recipe, small_material(), tmp_path / "first").matcher)
    start.pop(sorted(start)[0])
    with pytest.raises(UsageError, match=r"\(start\) are another matcher's"):
        train(recipe, replace(small_material(), start=start), tmp_path / "other")
