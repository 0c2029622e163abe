"""Measurement of how long an epoch of a recipe takes, and of each of its members (frame-length bias, table 5)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch

from evenreel.progress import Progress
from evenreel.training.data.examples import TrainingInputs
from evenreel.training.ensemble.members import train_recipe
from evenreel.training.ensemble.runs import seeded_runs, stratum_runs, whole_run
from evenreel.training.loop.milestones import plan_of
from evenreel.training.loop.run import RunHooks
from evenreel.training.recipe import Recipe, Records

WARM_UP_STEPS = 5
STEPS = 20
"""Steps whose median is taken as what a step costs."""


@dataclass(frozen=True)
class EpochTime:
    """Duration of one epoch.

    Attributes:
        captions: number of training captions.
        steps: optimiser steps of an epoch; need not be whole where batches are accumulated.
        seconds: duration of an epoch, without evaluation and writing.
    """

    captions: int
    steps: float
    seconds: float


@dataclass(frozen=True)
class Times:
    """Durations of an epoch of a recipe's training and of its members.

    Attributes:
        alone: duration of an epoch of one training on all clips.
        members: duration of an epoch of each member; empty without members.
    """

    alone: EpochTime
    members: tuple[EpochTime, ...]

    @property
    def in_turn_s(self) -> float:
        """Seconds that an epoch of all members takes when they are trained one after the other."""
        return sum(one.seconds for one in self.members)

    @property
    def at_once_s(self) -> float:
        """Seconds that an epoch of all members takes on as many devices, which is that of the slowest."""
        return max((one.seconds for one in self.members), default=0.0)


def measured_times(
    recipe: Recipe, material: TrainingInputs, folder: Path, progress: Progress = lambda share: None
) -> Times:
    """Measure the duration of an epoch by training for a few steps, as `evenreel train` does.

    Args:
        recipe: recipe with or without members.
        material: inputs of the training.
        folder: folder for files of the trainings; it can be deleted afterwards.
        progress: called with the share that is done.

    Raises:
        UsageError: the recipe does not fit the data or the machine.
        CorpusError: there are fewer captions than a batch takes.
        TrainingError: a training fails.
    """
    parts = [(whole_run(recipe, material).recipe, material), *_member_parts(recipe, material)]
    times = []
    for number, (part, examples) in enumerate(parts):
        times.append(_epoch(part, examples, folder / str(number)))
        progress((number + 1) / len(parts))
    return Times(times[0], tuple(times[1:]))


def _member_parts(recipe: Recipe, material: TrainingInputs) -> list[tuple[Recipe, TrainingInputs]]:
    """What each member does and learns from."""
    members = recipe.members
    if members is None:
        return []
    runs = (
        seeded_runs(recipe, members, material) if members.by == "seed" else stratum_runs(recipe, members, material)[0]
    )
    chosen = runs if members.only is None else runs[members.only - 1 : members.only]
    return [(run.recipe, run.material) for run in chosen]


def _epoch(recipe: Recipe, material: TrainingInputs, folder: Path) -> EpochTime:
    steps = WARM_UP_STEPS + STEPS
    short = replace(
        recipe,
        loop=replace(recipe.loop, epochs=None, steps=steps),
        records=Records(every_steps=steps, save_every_steps=steps, tensorboard=False),
        selection=replace(recipe.selection, every_steps=steps),
    )
    moments: list[float] = []

    def watch(step: int, of: int, figures: Mapping[str, float]) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        moments.append(time.perf_counter())

    train_recipe(short, material, folder, RunHooks(watch=watch))
    captions = len(material.examples.pairs)
    per_epoch = plan_of(recipe, captions // recipe.loop.batch_size).steps_per_epoch
    step_s = median(after - before for before, after in pairwise(moments[WARM_UP_STEPS - 1 :]))
    return EpochTime(captions, per_epoch, step_s * per_epoch)
