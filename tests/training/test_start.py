"""Fine-tuning: training that begins with the weights of a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from evenreel.errors import UsageError
from evenreel.training.batches import TrainingInputs
from evenreel.training.loop import train
from tests.training.loop.test_run import check_resumed
from tests.training.small_material import DIMENSION, small_examples, small_material, small_recipe


def weights(matcher: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in matcher.state_dict().items()}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """Weights of a run that ended."""
    return weights(train(small_recipe(), small_material(), tmp_path_factory.mktemp("first")).matcher)


def test_training_begins_with_the_weights_that_are_given(first: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """At a rate of 0 they stay; fresh ones would be others."""
    recipe = small_recipe()
    still = replace(recipe, optimiser=replace(recipe.optimiser, lr=0.0), loop=replace(recipe.loop, seed=5))
    begun = train(still, replace(small_material(), start=first), tmp_path / "begun").matcher
    fresh = train(still, small_material(), tmp_path / "fresh").matcher
    for name, tensor in weights(begun).items():
        torch.testing.assert_close(tensor, first[name], rtol=0, atol=0)
    assert any(not torch.equal(tensor, first[name]) for name, tensor in weights(fresh).items())


def test_a_resumed_run_goes_on_from_its_own_checkpoint(first: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """And does not begin anew in the middle."""
    recipe = small_recipe(records={"save_every_steps": 2})
    check_resumed(recipe, TrainingInputs(small_examples(), DIMENSION, start=first), tmp_path)


def test_weights_of_another_matcher_are_refused_before_the_first_step(
    first: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    start = dict(first)
    start.pop(sorted(start)[0])
    with pytest.raises(UsageError, match=r"\(start\) are another matcher's"):
        train(small_recipe(), replace(small_material(), start=start), tmp_path)
