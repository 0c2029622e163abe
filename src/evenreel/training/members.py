"""Training of a recipe that may have members, several trainings that become one matcher (frame-length bias, section 3).

The backdoor adjustment cuts what a clip's length says of its content: each member learns from the clips of one stratum
of length (`evenreel.debias.frame_length`), or, in the plain ensemble, from all clips with a seed of its own; their
scores are added with weights (equation 5, `evenreel.debias.ensemble`). A member is a plain run in a folder of its own,
`members/1`, `members/2`, ..., with the recipe that makes it alone. A resumed run goes on with the member that was
interrupted; finished ones are only read. Members with towers of their own encode the gallery differently, so only their
scores can be combined, after training.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from evenreel.arrays import Indices
from evenreel.checkpoint import MatcherSpec
from evenreel.checkpoint.architecture import module
from evenreel.checkpoint.records import ENCODER
from evenreel.corpus.relevance import RelevantPairs
from evenreel.debias.ensemble import Ensemble
from evenreel.debias.frame_length import (
    Fusion,
    adjusted_strata,
    equal_strata,
    learned_weights,
    prior_weights,
    random_strata,
    standardisation,
    strata_at,
    uniform_weights,
)
from evenreel.encoders.towers import usable_device
from evenreel.errors import CorpusError, EvenreelError, UsageError
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.media.workers import safe_path
from evenreel.training.batches import FeatureExamples, Pairs, TrainingInputs
from evenreel.training.loop import (
    RunHooks,
    SelectionProgress,
    TrainedModel,
    TrainingError,
    facts_of,
    plan_of,
    train_held,
)
from evenreel.training.material import fitted_spec
from evenreel.training.recipe import Members, Recipe
from evenreel.training.run_folder import MEMBERS, held, remember
from evenreel.training.splits import ClipLengths, Stratum
from evenreel.types import ScoreBlocks

NONE = -1
"""Stratum of a clip that no caption is learned with."""
ALL = "all"
"""Name of a training on all clips that others begin with."""
ALONE = RunHooks()
"""Nobody measures or watches."""
CONTEXT: Any = multiprocessing.get_context("spawn")
"""A fork of a process with threads may hang."""

Working = dict[Connection, tuple["MemberRun", BaseProcess]]
Message = tuple[int, Mapping[str, float]] | EvenreelError
"""The number of a step with the latest figures, or why the training ended."""


def train_recipe(recipe: Recipe, material: TrainingInputs, folder: Path, outside: RunHooks = ALONE) -> TrainedModel:
    """Train a recipe: one matcher, or as many members as it has, which become one matcher.

    Towers are trained too where the recipe says so. On a CPU equal recipes and material give equal bytes, whether the
    run was broken off and resumed or not, and with `members.at_once` as in sequence if each training has as many
    threads; on a GPU with `loop.deterministic`.

    Args:
        recipe: recipe to train.
        material: training data, made by the same recipe; with lengths where members are divided by length.
        folder: folder of the run, for its checkpoints, metrics and logs; no other process writes it meanwhile.
        outside: callbacks and flags; for `members.at_once` with a measure that can be pickled.

    Raises:
        UsageError: the folder holds another run, or one without `resume`, or another process has it; the recipe does
            not fit the data or the machine; the weights to begin with are another matcher's; or clips cannot be divided
            into strata as the recipe says.
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
            "the recipes of `evenreel.training.members.tower_member_recipes`."
        )
    runs, strata = member_runs(recipe, members, material)
    if members.only is None:
        remember(folder, facts_of(material))
    if members.begin == "full":
        whole = whole_run(recipe, material).train(folder, outside)
        start = module(whole.matcher).state_dict()
        runs = [replace(run, material=replace(run.material, start=start, start_spec=whole.spec)) for run in runs]
    if members.only is not None:
        run = runs[members.only - 1]
        trained = train_held(run.recipe, run.material, folder, outside)
        return replace(trained, strata=strata[members.only - 1 : members.only])
    if members.at_once > 1:
        train_apart(runs, folder, members.at_once, outside)
    done, before, total = list[TrainedModel](), 0, sum(run.steps for run in runs)
    for run in runs:  # one that is over takes no step
        done.append(run.train(folder, replace(outside, watch=_further(outside, before, total))))
        before += run.steps
    return _fused(recipe, material, done, strata, outside)


def _further(outside: RunHooks, before: int, total: int) -> Callable[[int, int, Mapping[str, float]], object]:
    """Tell of a step as one of all members."""
    return lambda step, steps, figures: outside.watch(before + step, total, figures)


# Dividing: which clips a member learns from, and for how many steps ---------------------------------------------------


@dataclass(frozen=True, eq=False)
class MemberRun:
    name: str  # name of its folder
    recorded: Recipe  # recipe that is saved in its folder, and that repeats this run alone
    recipe: Recipe  # the recipe with the seed and the steps of this member
    material: TrainingInputs

    @property
    def steps(self) -> int:
        return plan_of(self.recipe, len(self.material.examples.pairs) // self.recipe.loop.batch_size).steps

    def train(self, folder: Path, outside: RunHooks) -> TrainedModel:
        place = folder / MEMBERS / self.name
        with held(place, self.recorded, resume=True):
            return train_held(self.recipe, self.material, place, replace(outside, resume=True))


def whole_run(recipe: Recipe, material: TrainingInputs) -> MemberRun:
    plain = replace(recipe, members=None)
    return MemberRun(ALL, plain, replace(plain, name=f"{recipe.name}/{ALL}"), material)


def member_runs(
    recipe: Recipe, members: Members, material: TrainingInputs
) -> tuple[list[MemberRun], tuple[Stratum, ...]]:
    """Return the runs of members, and the strata of clip lengths that each trains on; none for members by seed.

    By seed, all train on all clips, with consecutive seeds from that of the recipe. By length, each takes its stratum's
    share of the steps of a training on all clips, or as many (`members.steps`). A matcher with a vocabulary has the
    words of all strata in each member, as published: a word of another stratum keeps its initial vector.
    """
    loop = recipe.loop

    def run(number: int, given: TrainingInputs, **changes: Any) -> MemberRun:
        own = replace(recipe, members=None, name=f"{recipe.name}/{number}", loop=replace(loop, **changes))
        return MemberRun(str(number), replace(recipe, members=replace(members, only=number)), own, given)

    if members.by == "seed":
        return [run(number, material, seed=loop.seed + number - 1) for number in range(1, members.count + 1)], ()
    if material.lengths is None:
        raise UsageError("Members by length need the lengths of the clips: give the material its lengths.")
    pairs = material.examples.pairs
    numbers = divided(pairs, material.lengths, members, loop.seed)
    strata = described(pairs, material.lengths, numbers)
    small = [one for one in strata if members.only in (None, one.number) and one.captions < loop.batch_size]
    if small:
        raise CorpusError(
            f"Stratum {small[0].number} of {len(strata)} has {small[0].captions:,} captions, fewer than "
            f"loop.batch_size={loop.batch_size}; make the batch smaller, or divide otherwise (members)."
        )
    material = replace(material, start_spec=fitted_spec(replace(recipe, members=None), material))
    examples: Any = material.examples  # features, or pixels
    plan, dealt = plan_of(recipe, len(pairs) // loop.batch_size), shares(loop.steps or 1, [s.captions for s in strata])
    runs = []
    for one, share in zip(strata, dealt, strict=True):
        learned = replace(examples, pairs=pairs.taken(numbers[pairs.clips] == one.number - 1))
        part = replace(material, examples=learned)  # the model is selected on all that it is otherwise
        if members.steps == "full":  # steps, and those from one evaluation to the next, of a training on all clips
            full = run(one.number, part, epochs=None, steps=plan.steps)
            selection = replace(recipe.selection, every_steps=plan.evaluate_every)
            runs.append(replace(full, recipe=replace(full.recipe, selection=selection)))
        else:  # epochs of a stratum are as much shorter as it is smaller; steps are dealt
            runs.append(run(one.number, part, **({} if loop.steps is None else {"steps": share})))
    return runs, strata


def shares(steps: int, sizes: Sequence[int]) -> list[int]:
    """Divide a number of steps in proportion to sizes; every part gets at least one step.

    >>> shares(10, [3, 1]), shares(7, [1, 1, 1]), shares(3, [99, 1])
    ([8, 2], [2, 3, 2], [3, 1])
    """
    edges = np.round(np.cumsum([0, *sizes]) * (steps / sum(sizes))).astype(int)
    return [max(1, int(share)) for share in np.diff(edges)]


def divided(pairs: Pairs, lengths: ClipLengths, members: Members, seed: int) -> Indices:
    """Divide clips by their length: the stratum (V,) of each, from 0; `NONE` for a clip without captions."""
    clips = np.unique(pairs.clips)
    values = lengths.values[clips]
    if unknown := int(np.count_nonzero(~np.isfinite(values))):
        raise UsageError(
            f"The length of {unknown:,} of {len(values):,} training clips is not known, and members are divided by it: "
            "give the corpus frame_count, or start_s and end_s, of all clips; or set members.by to seed."
        )
    if values.min() == values.max():
        raise UsageError(
            f"All {len(values):,} training clips are {values[0]:g} {lengths.unit} long, so length divides nothing: set "
            "members.by to seed, or members to null."
        )
    numbers = np.full(len(pairs.clip_ids), NONE, np.int64)
    for number, rows in enumerate(_strata(values, members, seed)):
        numbers[clips[rows]] = number
    return numbers


def _strata(lengths: NDArray[np.float64], members: Members, seed: int) -> list[Indices]:
    if members.split == "random":
        return random_strata(len(lengths), members.count, seed, members.fraction)
    if members.split == "equal":
        return equal_strata(lengths, members.count)
    if members.split == "thresholds":
        return strata_at(lengths, members.thresholds)
    fraction = members.fraction
    if fraction is None:  # the share of the clips on the first side of their mean
        first = lengths >= lengths.mean() if members.longest_first else lengths < lengths.mean()
        fraction = int(np.count_nonzero(first)) / len(lengths)
    return adjusted_strata(lengths, members.count, fraction, longest_first=members.longest_first)


def described(pairs: Pairs, lengths: ClipLengths, strata: Indices) -> tuple[Stratum, ...]:
    """Return the counts and lengths of each stratum, given the stratum (V,) of each clip as `divided` returns."""
    found = []
    for number in range(int(strata.max()) + 1):
        own = lengths.values[strata == number]
        captions = int(np.count_nonzero(strata[pairs.clips] == number))
        found.append(Stratum(number + 1, len(own), captions, float(own.min()), float(own.max()), lengths.unit))
    return tuple(found)


# Weighing: several trained members become one matcher -----------------------------------------------------------------


def _fused(
    recipe: Recipe,
    material: TrainingInputs,
    trained: Sequence[TrainedModel],
    strata: Sequence[Stratum],
    outside: RunHooks,
) -> TrainedModel:
    """Fuse trained members by the weights of equation 5, uniform or learned ones, and measure it on validation."""
    members, matchers = cast("Members", recipe.members), [one.matcher for one in trained]
    sizes = [one.clips for one in strata] or [1] * len(trained)
    validation = cast("FeatureExamples | None", material.validation)

    def scores_of(matcher: Matcher) -> ScoreBlocks:
        examples = cast("FeatureExamples", validation)
        return matcher_scores(matcher, examples.text_features, examples.video_features)

    with _on_its_device(recipe, matchers):
        looks = members.standardise or members.fusion == "learned"
        scores = [scores_of(matcher) for matcher in matchers] if looks else []
        means, scales = standardisation(scores) if members.standardise else ((), ())
        if members.fusion == "learned" and validation is not None:  # each caption's own clip answers it
            pairs, shape = validation.pairs, (len(scores[0].caption_ids), len(scores[0].video_ids))
            there = (np.ones(len(pairs), np.bool_), (pairs.captions, pairs.clips))
            weights = learned_weights(scores, RelevantPairs(sparse.csr_array(there, shape=shape)), scales)
        else:
            weights = uniform_weights(len(sizes)) if members.fusion == "uniform" else prior_weights(sizes)
        fusion = Fusion(weights, means, scales)
        matcher = cast("Matcher", Ensemble(matchers, material.dimension, fusion).eval())
        measured = {} if validation is None or outside.measure is None else outside.measure(scores_of(matcher))
    spec = MatcherSpec("ensemble", asdict(fusion), tuple(one.spec for one in trained))
    return TrainedModel(
        matcher,
        spec,
        None,
        sum(one.step for one in trained),
        SelectionProgress(),
        {f"validation/{name}": value for name, value in measured.items()},
        members=tuple(trained),
        strata=tuple(strata),
    )


@contextmanager
def _on_its_device(recipe: Recipe, matchers: Sequence[Matcher]) -> Iterator[None]:
    """Where the recipe trains; training leaves its matchers in main memory."""
    device = usable_device(recipe.loop.device, "float32")
    for matcher in matchers:
        module(matcher).to(device)
    try:
        yield
    finally:
        for matcher in matchers:
            module(matcher).to("cpu")


def score_weights(recipe: Recipe, trained: Sequence[TrainedModel]) -> tuple[float, ...]:
    """Return the weight of each member's scores: the share of its stratum's clips, or 1 / M (equation 5)."""
    members = recipe.members
    if members is None or members.by == "seed" or members.fusion == "uniform":
        return uniform_weights(len(trained))
    return prior_weights([stratum.clips for one in trained for stratum in one.strata])


# Members with towers of their own -------------------------------------------------------------------------------------


def tower_member_recipes(recipe: Recipe) -> dict[str, Recipe]:
    """Return the recipes of the runs of members with towers of their own, by the name of each run's folder.

    Where members begin with a training on all clips (`members.begin: full`), that is the first, `all`; the others are
    to begin with its checkpoint, see `begun_with_towers`.
    """
    members, plain = recipe.members, replace(recipe, members=None, out=None)
    if members is None:
        return {}
    numbers = range(1, members.count + 1)
    if members.by == "seed":
        first = recipe.loop.seed - 1
        return {str(number): replace(plain, loop=replace(plain.loop, seed=first + number)) for number in numbers}
    alone = {str(one): replace(plain, members=replace(members, only=one, begin="fresh")) for one in numbers}
    return {ALL: plain, **alone} if members.begin == "full" else alone


def begun_with_towers(recipe: Recipe, checkpoint: Path) -> Recipe:
    """Return a copy of a recipe with a backbone whose towers and matcher begin with the weights of a checkpoint.

    Frozen towers are not in the checkpoint, and stay those of the recipe.
    """
    towers, backbone = checkpoint / ENCODER, recipe.backbone
    if backbone is not None and towers.exists():
        backbone = replace(backbone, model=str(towers))
    return replace(recipe, start=str(checkpoint), backbone=backbone)


# Members at once ------------------------------------------------------------------------------------------------------


def train_apart(runs: Sequence[MemberRun], folder: Path, at_once: int, outside: RunHooks) -> None:
    """Train members in several processes, each with its own copy of the features and its share of the threads.

    Results are in their folders. When this process ends, the others end too, at their next step at the latest.
    """
    try:
        ForkingPickler.dumps(outside.measure)
    except Exception as error:  # whatever its parts raise
        raise UsageError(
            "members.at_once trains in processes of their own, and the measure cannot be sent to one "
            f"({type(error).__name__}: {error}); make it a function of a module, or an object of a class of one."
        ) from error
    steps, total = {run.name: 0 for run in runs}, sum(run.steps for run in runs)
    threads = max(1, torch.get_num_threads() // at_once)
    waiting, sent = list(runs), replace(outside, watch=_no_watch)
    working: Working = {}
    try:
        while waiting or working:
            while waiting and len(working) < at_once:
                run, (here, there) = waiting.pop(0), CONTEXT.Pipe(duplex=False)
                process = CONTEXT.Process(target=_train, args=(run, folder, sent, threads, there), daemon=True)
                with safe_path():
                    process.start()
                there.close()
                working[here] = run, process
            for connection in cast("list[Connection]", wait(list(working))):
                message = _heard(connection, *working[connection])
                if message is None:
                    del working[connection]
                    continue
                steps[working[connection][0].name], figures = message
                outside.watch(sum(steps.values()), total, figures)
    finally:
        for _, process in working.values():
            process.kill()
            process.join()


def _heard(connection: Connection, run: MemberRun, process: BaseProcess) -> tuple[int, Mapping[str, float]] | None:
    """What a process says of its latest step; None where its training is over."""
    try:
        message: Message = connection.recv()
    except EOFError:
        process.join()
        if process.exitcode:
            raise TrainingError(
                f"The process that trained member {run.name} came to an end by itself (status {process.exitcode}), "
                "perhaps for want of memory; go on with --resume, and train fewer at a time (members.at_once)."
            ) from None
        return None
    if isinstance(message, EvenreelError):
        raise message
    return message


def _train(run: MemberRun, folder: Path, outside: RunHooks, threads: int, connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts means the process that started this one
    torch.set_num_threads(threads)

    def watch(step: int, steps: int, figures: Mapping[str, float]) -> None:
        connection.send((step, dict(figures)))

    try:
        run.train(folder, replace(outside, watch=watch))
    except BrokenPipeError:
        return  # nobody is there any more
    except EvenreelError as error:
        connection.send(error)


def _no_watch(step: int, steps: int, figures: Mapping[str, float]) -> None:
    """Stands in for what a process cannot be sent."""
