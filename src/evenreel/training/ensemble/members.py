"""Training of a recipe that may have members, several trainings that become one matcher.

(Frame-length bias, section 3: the backdoor adjustment.) Each member learns from the clips of one stratum of length, or
from all clips with a seed of its own, and is a plain run in a folder of its own, `members/1`, `members/2`, ..., with
the recipe that makes it alone. A resumed run goes on with the member that was interrupted; finished ones are only read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from evenreel.checkpoint.architecture import module
from evenreel.errors import UsageError
from evenreel.training.data.examples import TrainingInputs
from evenreel.training.ensemble.fused import ensemble_of
from evenreel.training.ensemble.processes import train_apart
from evenreel.training.ensemble.runs import MemberRun, seeded_runs, stratum_runs, whole_run
from evenreel.training.loop.milestones import Watch
from evenreel.training.loop.run import RunHooks, TrainedModel, facts_of, train_held
from evenreel.training.loop.run_folder import held, remember
from evenreel.training.recipe import Recipe

ALONE = RunHooks()
"""Nobody measures or watches."""


def train_recipe(recipe: Recipe, material: TrainingInputs, folder: Path, outside: RunHooks = ALONE) -> TrainedModel:
    """Train a recipe: one matcher, or as many members as it has, which become one matcher.

    On a CPU equal recipes and material give equal bytes, whether the run was broken off and resumed or not, and with
    `members.at_once` as in sequence if each training has as many threads.

    Args:
        recipe: recipe to train.
        material: training data, made by the same recipe; with lengths where members are divided by length.
        folder: folder of the run.
        outside: callbacks; for `members.at_once` with a measure that can be pickled.

    Raises:
        UsageError: the folder holds another run or another process has it, the recipe does not fit the data or the
            machine, or clips cannot be divided into strata as the recipe says.
        CorpusError: there are fewer pairs than a batch takes, also in a stratum, or a resumed run began with others.
        TrainingError: the loss is not finite, the metric of the selection is not measured, or the process of a member
            died.
        CheckpointError: a checkpoint cannot be read or written.
        RunFolderError: the folder cannot be written.
    """
    with held(folder, recipe, resume=outside.resume):
        return train_recipe_held(recipe, material, folder, outside)


def train_recipe_held(
    recipe: Recipe, material: TrainingInputs, folder: Path, outside: RunHooks = ALONE
) -> TrainedModel:
    """Train a recipe, with any members, in a folder that the caller has locked (see `run_folder.held`)."""
    members = recipe.members
    if members is None:
        return train_held(recipe, material, folder, outside)
    if material.towers is not None and members.only is None:
        raise UsageError(
            "Members with a backbone have an encoder each, so they become no single matcher: train them one by one, by "
            "the recipes of `evenreel.training.ensemble.towers`."
        )
    runs, strata = (
        (seeded_runs(recipe, members, material), ())
        if members.by == "seed"
        else stratum_runs(recipe, members, material)
    )
    if members.only is None:
        remember(folder, facts_of(material))
    if members.begin == "full":
        runs = _begun_with(whole_run(recipe, material).train(folder, outside), runs)
    if members.only is not None:
        run = runs[members.only - 1]
        trained = train_held(run.recipe, run.material, folder, outside)
        return replace(trained, strata=strata[members.only - 1 : members.only])
    if members.at_once > 1:
        train_apart(runs, folder, members.at_once, outside)
    return ensemble_of(recipe, material, _in_turn(runs, folder, outside), strata, outside)


def _in_turn(runs: Sequence[MemberRun], folder: Path, outside: RunHooks) -> list[TrainedModel]:
    """Train one after the other; a run that is over takes no step."""
    trained, before, total = [], 0, sum(run.steps for run in runs)
    for run in runs:
        trained.append(run.train(folder, replace(outside, watch=partial(_further, outside.watch, before, total))))
        before += run.steps
    return trained


def _further(watch: Watch, before: int, total: int, step: int, steps: int, figures: Mapping[str, float]) -> None:
    """Tell of a step as one of all members."""
    watch(before + step, total, figures)


def _begun_with(trained: TrainedModel, runs: Sequence[MemberRun]) -> list[MemberRun]:
    """The runs, beginning with the weights of another."""
    start = module(trained.matcher).state_dict()
    return [replace(run, material=replace(run.material, start=start, start_spec=trained.spec)) for run in runs]
