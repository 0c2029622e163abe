"""Training runs of a recipe with members: the data and the number of steps of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import CorpusError
from evenreel.training.data.examples import TrainingInputs
from evenreel.training.ensemble.strata import Stratum, described, divided, known, taken
from evenreel.training.loop.milestones import StepSchedule, plan_of
from evenreel.training.loop.run import RunHooks, TrainedModel, train_held
from evenreel.training.loop.run_folder import MEMBERS, held
from evenreel.training.recipe import Members, Recipe
from evenreel.training.specs import fitted_spec

ALL = "all"
"""Name of a training on all clips that others begin with."""


@dataclass(frozen=True, eq=False)
class MemberRun:
    """Training of one member of an ensemble.

    Attributes:
        name: name of its folder.
        recorded: recipe that is saved in its folder, and that repeats this run alone.
        recipe: the recipe with the seed and the steps of this member.
        material: inputs of its training.
    """

    name: str
    recorded: Recipe
    recipe: Recipe
    material: TrainingInputs

    @property
    def steps(self) -> int:
        """Number of optimiser steps of the training."""
        return plan_of(self.recipe, len(self.material.examples.pairs) // self.recipe.loop.batch_size).steps

    def train(self, folder: Path, outside: RunHooks) -> TrainedModel:
        """Train the member, or go on with its training, in a folder below that of the whole run."""
        place = folder / MEMBERS / self.name
        with held(place, self.recorded, resume=True):
            return train_held(self.recipe, self.material, place, replace(outside, resume=True))


def whole_run(recipe: Recipe, material: TrainingInputs) -> MemberRun:
    """Return the run that trains on all clips."""
    plain = replace(recipe, members=None)
    return MemberRun(ALL, plain, replace(plain, name=f"{recipe.name}/{ALL}"), material)


def seeded_runs(recipe: Recipe, members: Members, material: TrainingInputs) -> list[MemberRun]:
    """Return the runs of members that train on all clips, with consecutive seeds from that of the recipe."""
    runs = [_run(recipe, members, number, material) for number in range(1, members.count + 1)]
    seeds = range(recipe.loop.seed, recipe.loop.seed + members.count)
    return [
        replace(run, recipe=replace(run.recipe, loop=replace(run.recipe.loop, seed=seed)))
        for run, seed in zip(runs, seeds, strict=True)
    ]


def stratum_runs(
    recipe: Recipe, members: Members, material: TrainingInputs
) -> tuple[list[MemberRun], tuple[Stratum, ...]]:
    """Return the runs of members that each train on one stratum of clip lengths, and the strata.

    Each takes its stratum's share of the steps of a training on all clips, or as many (`members.steps`). A matcher with
    a vocabulary has the words of all strata in each member, as published: a word of another stratum keeps its initial
    vector.

    Raises:
        UsageError: clips cannot be divided as the recipe says, or their lengths are not known.
        CorpusError: a stratum has fewer captions than a batch.
    """
    examples, lengths = material.examples, known(material.lengths)
    pairs = examples.pairs
    numbers = divided(pairs, lengths, members, recipe.loop.seed)
    strata = described(pairs, lengths, numbers)
    _check_sizes([one for one in strata if members.only in (None, one.number)], recipe.loop.batch_size, len(strata))
    material = replace(material, start_spec=fitted_spec(replace(recipe, members=None), material))
    runs = [
        _run(recipe, members, one.number, _part(material, numbers[pairs.clips] == one.number - 1)) for one in strata
    ]
    if members.steps == "full":
        plan = plan_of(recipe, len(pairs) // recipe.loop.batch_size)
        return [_timed_as(run, plan) for run in runs], strata
    return _with_shares(runs, recipe.loop.steps, [one.captions for one in strata]), strata


def shares(steps: int, sizes: Sequence[int]) -> list[int]:
    """Divide a number of steps in proportion to sizes; every part gets at least one step.

    >>> shares(10, [3, 1]), shares(7, [1, 1, 1]), shares(3, [99, 1])
    ([8, 2], [2, 3, 2], [3, 1])
    """
    edges = np.round(np.cumsum([0, *sizes]) * (steps / sum(sizes))).astype(int)
    return [max(1, int(share)) for share in np.diff(edges)]


def _run(recipe: Recipe, members: Members, number: int, material: TrainingInputs) -> MemberRun:
    recorded = replace(recipe, members=replace(members, only=number))
    return MemberRun(str(number), recorded, replace(recipe, members=None, name=f"{recipe.name}/{number}"), material)


def _timed_as(run: MemberRun, plan: StepSchedule) -> MemberRun:
    """The run with as many steps, and from one evaluation to the next, as a training on all clips."""
    loop = replace(run.recipe.loop, epochs=None, steps=plan.steps)
    selection = replace(run.recipe.selection, every_steps=plan.evaluate_every)
    return replace(run, recipe=replace(run.recipe, loop=loop, selection=selection))


def _with_shares(runs: list[MemberRun], steps: int | None, sizes: Sequence[int]) -> list[MemberRun]:
    """Epochs of a stratum are as much shorter as it is smaller; steps are dealt."""
    if steps is None:
        return runs
    return [
        replace(run, recipe=replace(run.recipe, loop=replace(run.recipe.loop, steps=share)))
        for run, share in zip(runs, shares(steps, sizes), strict=True)
    ]


def _part(material: TrainingInputs, kept: NDArray[np.bool_]) -> TrainingInputs:
    """Some of the pairs; the model is selected on all that it is otherwise."""
    examples = cast("Any", material.examples)  # features, or pixels
    return replace(material, examples=replace(examples, pairs=taken(examples.pairs, kept)))


def _check_sizes(strata: Sequence[Stratum], batch_size: int, count: int) -> None:
    small = next((one for one in strata if one.captions < batch_size), None)
    if small is not None:
        raise CorpusError(
            f"Stratum {small.number} of {count} has {small.captions:,} captions, fewer than "
            f"loop.batch_size={batch_size}; make the batch smaller, or divide otherwise (members)."
        )
