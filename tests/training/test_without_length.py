"""Training where what lengths explain is taken off the frames."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from evenreel.debias.without_length import WithoutLength
from evenreel.training.batches import FeatureExamples
from evenreel.training.loop import train
from tests.training.loop.test_run import check_resumed
from tests.training.small_material import small_examples, small_material, small_recipe

RECIPE = {"without_length": {"terms": 2}, "records": {"save_every_steps": 2}}


def examples() -> FeatureExamples:
    plain = small_examples(clips=64)
    lengths = np.random.default_rng(1).lognormal(0, 1, 64)
    return replace(plain, video_features=replace(plain.video_features, times_s=lengths[:, None] * np.arange(4)))


def test_it_is_fitted_before_the_first_step_and_kept(tmp_path: Path) -> None:
    trained = train(small_recipe(**RECIPE), small_material(examples()), tmp_path)
    assert isinstance(trained.matcher, WithoutLength) and trained.spec.name == "without_length"
    assert trained.matcher.effect.abs().max() > 0
    assert trained.spec.wrapped[0].name == "adapted"


def test_a_resumed_run_ends_as_one_that_was_left_alone(tmp_path: Path) -> None:
    check_resumed(small_recipe(**RECIPE), small_material(examples()), tmp_path)
