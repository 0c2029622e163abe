"""Can a planted bias tell methods apart? Five rules, each of which it can break.

    python -m benchmarks.admission [--biases visual length] [--seeds 5] [--first-seed 10] [--strength 0.9]
        [--clips 1500] [--steps 500] [--harder difficulty=1] [--processes 2] [--out FILE] [--save] [--plan]

For every bias and seed the wti matcher behind a small adapter is trained on features of the built-in encoder
(`benchmarks/planted.py`): biased, at a strength, and as the oracle, at strength 0 on as many clips, both tested on the
same clean clips. For a task that holds in the test split too, as `scene_text` does, biased has the frames and the
oracle the words on the signs too. `length` takes twice the clips and three times the steps. Every training keeps the
weights with the best R@1, of ten evaluations, on a validation split that is biased as its training split is. R@1 is the
share of captions whose first clip shows everything that is named; for `source`, in the test split, it is the real clip
of a real clip's caption in a gallery that holds its generated mirror as well. The rules:

- learning is needed: the best untrained reading of each seed, frames' mean or plain token interaction, with and without
  words on signs where there are any, is at least 15 points below the oracle;
- the bias costs: oracle less biased is at least 8 points, and its 95 % interval (Student's t) begins above 4;
- steps do not matter: with half and with twice the steps that is less than a third more or less;
- the cause explains it: a reference that is told what was planted brings back at least 90 % of it (`REFERENCES`);
- nothing at 0: the interval of the difference between two trainings at strength 0 that begin from other random numbers
  (for `scene_text` without and with the words) holds zero. Intervals of all biases together have 95 % (Bonferroni).

The table also has both trainings without the adapter. Exit status 1, with their names, if a bias is not admitted. With
--out the figures of each training are written down as they come, and a run that was broken off goes on. --save writes
what was found into the package, where `evenreel planted` reads it; it takes five seeds. --harder is a setting of a
harder world (`evenreel.planted.Harder`) of the one bias that it belongs to. --plan trains a few steps and
says how much is to come.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal

from numpy.random import default_rng

from benchmarks.admission_rules import (
    AGAIN,
    BIASED,
    FRAMES_ALONE,
    HALF,
    METRIC,
    NO_ADAPTER,
    ORACLE,
    REFERENCE,
    TWICE,
    UNTRAINED,
    broken,
    figures,
    table,
    variant,
    verdicts,
)
from benchmarks.over_seeds import Rows, Seeds, by_row, checked, known_runs, measured, seeds_parser
from benchmarks.planted import BATCH, FROM_NOTHING, STRENGTH, Sizes, Split, figure, split_of, trained
from benchmarks.planted import recipe as planted_recipe
from evenreel.checkpoint import MatcherSpec
from evenreel.checkpoint.architecture import build
from evenreel.encoders import load_encoder
from evenreel.errors import UsageError
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.planted import BIASES, BiasName, PlantedClip, PlantedCorpus, PlantSettings, edited, plan_corpus
from evenreel.planted.admission import Admission, save_admission, world_of
from evenreel.planted.domain import LOOKS, TARGET
from evenreel.planted.harder import BIAS_OF, Harder
from evenreel.planted.plan import SPLITS
from evenreel.planted.plan import Split as PartName
from evenreel.planted.vocabulary import backgrounds
from evenreel.training.recipe.recipe import Recipe
from evenreel.training.recipe.sections import Selection

World = Literal["biased", "free", "told"]
"""Where a training learns: with the bias, with nothing planted, or where the cause that was planted is gone."""
Clips = tuple[PlantedClip, ...]
OTHER = 1_000
"""Added to the seed of what begins from other random numbers."""
SAVED_SEEDS = 5
EVALUATIONS = 10
"""Of each training, on its validation split."""
WINDOWS_ALONE = AdapterSettings(kind="none", windows=True)


@dataclass(frozen=True)
class Row:
    """How a row is made.

    Attributes:
        world: where it learns.
        steps: of its training, in times of the others'; 0 for none.
        adapter: whether features go through an adapter that learns too.
        start: added to the seed.
        words: whether words on signs are among the frames.
        matcher: the retrieval model.
    """

    world: World
    steps: float = 1.0
    adapter: bool = True
    start: int = 0
    words: bool = False
    matcher: str = "wti"


@dataclass(frozen=True)
class Run:
    """One training, or reading without one; see `rows_of`."""

    bias: BiasName
    seed: int
    strength: float
    row: str
    clips: int
    steps: int
    harder: str = ""

    @property
    def corpus(self) -> tuple[str, int, float, str]:
        """See `benchmarks.over_seeds`."""
        return self.bias, self.seed, self.strength, self.harder

    @property
    def settings(self) -> PlantSettings:
        """Settings of its clips."""
        return PlantSettings(harder=harder_of(self.harder))

    def __str__(self) -> str:
        return f"{self.bias}, seed {self.seed}"


def main() -> int:
    """The table, and what is not admitted; 1 if there is any."""
    asked = arguments()
    wanted = {bias: [runs_of(bias, seed, asked) for seed in seeds_of(asked)] for bias in asked.biases}
    every = [run for seeds in wanted.values() for runs in seeds for run in runs]
    if asked.plan:
        known = known_runs(asked.out, Run)
        print(planned([run for run in every if run not in known]))
        return 0
    found = measured(every, Run, of_corpus, asked)
    biases = {bias: by_row(seeds, found) for bias, seeds in wanted.items()}
    print(table(biases))
    failed = {bias: broken(verdicts(rows)) for bias, rows in biases.items()}
    if asked.save:
        for bias, rows in biases.items():
            save_admission(admission(bias, rows, asked))
    for bias, rules in failed.items():
        if rules:
            print(f"not admitted: {bias}: {'; '.join(rules)}", file=sys.stderr)
    return int(any(failed.values()))


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = seeds_parser(__doc__, clips=1_500)
    parser.add_argument("--biases", nargs="+", default=list(BIASES), choices=list(BIASES))
    parser.add_argument("--first-seed", type=int, default=10, help="the others follow it")
    parser.add_argument("--strength", type=float, default=STRENGTH, help="of what is planted, above 0")
    parser.add_argument("--steps", type=int, default=500, help="of each training; three times as many for length")
    parser.add_argument("--harder", default="", metavar="NAME=VALUE", help=f"one of {', '.join(BIAS_OF)}")
    parser.add_argument(
        "--save", action="store_true", help=f"write the verdicts into the package ({SAVED_SEEDS} seeds)"
    )
    parser.add_argument("--plan", action="store_true", help="say what is to be done, and about how long it takes")
    asked = checked(parser)
    if min(asked.steps // 2, asked.processes) < 1:
        parser.error(f"--steps is at least 2 and --processes 1; they were {asked.steps} and {asked.processes}")
    if asked.save and asked.seeds < SAVED_SEEDS:
        parser.error(f"--save takes {SAVED_SEEDS} seeds; --seeds was {asked.seeds}")
    for bias in asked.biases:
        try:
            settings = PlantSettings(harder=harder_of(asked.harder))
            plan_corpus(bias, asked.strength, sizes_of(bias, asked).clips, asked.first_seed, settings)
        except UsageError as error:
            parser.error(str(error))
    return asked


def harder_of(words: str) -> Harder:
    """The settings of a harder world, none where there are no words.

    Raises:
        UsageError: they are not NAME=VALUE.
    """
    name, equals, value = words.partition("=")
    if not words:
        return Harder()
    if name not in BIAS_OF or not equals:
        raise UsageError(f"--harder is NAME=VALUE, with a name of {', '.join(BIAS_OF)}; it was {words!r}.")
    try:
        return Harder(**{name: float(value)})  # type: ignore[arg-type]  # 1 is True
    except ValueError as error:
        raise UsageError(f"--harder has a number behind the sign; it was {words!r}.") from error


def seeds_of(asked: argparse.Namespace) -> range:
    """The seeds that are measured."""
    return range(asked.first_seed, asked.first_seed + asked.seeds)


def sizes_of(bias: str, asked: argparse.Namespace) -> Sizes:
    """Clips and steps of a bias."""
    return Sizes(2 * asked.clips, 3 * asked.steps) if bias == FROM_NOTHING else Sizes(asked.clips, asked.steps)


def runs_of(bias: BiasName, seed: int, asked: argparse.Namespace) -> list[Run]:
    """All rows of a bias with a seed."""
    sizes = sizes_of(bias, asked)
    return [Run(bias, seed, asked.strength, row, sizes.clips, sizes.steps, asked.harder) for row in rows_of(bias)]


@cache
def rows_of(bias: BiasName) -> dict[str, Row]:
    """The rows of a bias by name: readings without training first, then the trainings."""
    reads = BIASES[bias].in_test
    oracle = Row("biased", words=True) if reads else Row("free")
    rows = {}
    for matcher in ("mean_pool", "wti"):
        rows[variant(UNTRAINED, matcher)] = replace(oracle, steps=0, words=False, matcher=matcher)
        if reads:
            rows[variant(UNTRAINED, f"{matcher}, words")] = replace(oracle, steps=0, matcher=matcher)
    for name, row in ((BIASED, Row("biased")), (ORACLE, oracle)):
        rows[name] = row
        rows[variant(name, HALF)] = replace(row, steps=0.5)
        rows[variant(name, TWICE)] = replace(row, steps=2.0)
        rows[variant(name, NO_ADAPTER)] = replace(row, adapter=False)
    if reads:
        rows |= {REFERENCE: replace(oracle, start=OTHER), AGAIN: Row("free", words=True), FRAMES_ALONE: Row("free")}
    else:
        rows |= {REFERENCE: Row("told"), AGAIN: Row("free", start=OTHER)}
    return rows


def of_corpus(runs: Sequence[Run]) -> Iterator[tuple[Run, Rows]]:
    """All rows of one bias and seed; a split that is the same in two worlds is encoded once."""
    encoder, plans, known = load_encoder("builtin"), cache(partial(plan_of, runs[0])), dict[Clips, Split]()

    def part(world: World, split: PartName) -> Split:
        clips = plans(world).split(split)
        if clips not in known:
            known[clips] = split_of(plans(world), split, encoder)
        return known[clips]

    for run in runs:
        row = rows_of(run.bias)[run.row]
        test = part(row.world, "test")
        if row.steps:
            matcher = learned_matcher(run, row, part(row.world, "train"), part(row.world, "val"))
        else:
            matcher = untrained_matcher(row, test)
        yield run, {run.row: {METRIC: figure(matcher, test, run.bias)}}


def plan_of(run: Run, world: World) -> PlantedCorpus:
    """The clips of a world: to learn from, to select on and to test on."""
    strength = 0.0 if world == "free" else run.strength
    plan = plan_corpus(run.bias, strength, run.clips, run.seed, run.settings)
    return REFERENCES.get(run.bias, elsewhere)(plan) if world == "told" else plan


def learned_matcher(run: Run, row: Row, learned: Split, validation: Split) -> Matcher:
    """The matcher of a row with its best weights on the validation split."""
    return trained(recipe_of(run, row, len(learned.texts.ids)), learned, validation=validation)


def recipe_of(run: Run, row: Row, captions: int) -> Recipe:
    """The recipe of the planted benchmarks, selected on validation; smaller batches where there are few captions."""
    steps = round(row.steps * run.steps)
    plain = planted_recipe(run.bias, run.seed + row.start, Sizes(run.clips, steps), row.words)
    bare = WINDOWS_ALONE if row.words else None
    return replace(
        plain,
        data=replace(plain.data, validation="val"),
        adapter=plain.adapter if row.adapter else bare,
        loop=replace(plain.loop, batch_size=min(BATCH, captions)),
        selection=Selection(METRIC, every_steps=max(1, steps // EVALUATIONS)),
    )


def untrained_matcher(row: Row, test: Split) -> Matcher:
    """A matcher as it begins: the cosine with the mean frame, or of words and frames."""
    spec = MatcherSpec(row.matcher, {})
    if row.words:
        spec = MatcherSpec("adapted", {"kind": WINDOWS_ALONE.kind, "windows": True}, (spec,))
    return build(spec, test.videos.frames.shape[-1])


def learning(plan: PlantedCorpus, change: Callable[[PlantedClip], PlantedClip]) -> PlantedCorpus:
    """A plan with its training and validation clips changed."""
    clips = tuple(clip if clip.split == "test" else change(clip) for clip in plan.clips)
    return replace(plan, clips=clips)


def without_partners(plan: PlantedCorpus) -> PlantedCorpus:
    """Clips that are learned from before backgrounds drawn anew, all with the same probability."""
    swapped = {
        clip.clip_id: clip for split in ("train", "val") for clip in edited(plan, "background-swapped", split).clips
    }
    rng, own = default_rng([plan.seed, OTHER]), 1 / len(backgrounds())
    return learning(plan, lambda clip: clip if rng.random() < own else swapped[clip.clip_id])


def without_wording(plan: PlantedCorpus) -> PlantedCorpus:
    """All captions without what their annotators put around them, in training and in search."""
    bare = [clip for split in SPLITS for clip in edited(plan, "style-removed", split).clips]
    return replace(plan, clips=tuple(bare))


def with_other_lengths(plan: PlantedCorpus) -> PlantedCorpus:
    """Clips that are learned from with the lengths of other clips, whose activities do not say how long they are."""
    others = plan_corpus(plan.bias, 0.0, len(plan.clips), plan.seed + OTHER, plan.settings).clips
    lengths_s = {clip.clip_id: other.scene.duration_s for clip, other in zip(plan.clips, others, strict=True)}

    def change(clip: PlantedClip) -> PlantedClip:
        scene = replace(clip.scene, duration_s=lengths_s[clip.clip_id])
        return replace(clip, shot=replace(clip.shot, scene=scene))

    return learning(plan, change)


def with_drawn_sources(plan: PlantedCorpus) -> PlantedCorpus:
    """Clips that are learned from as the camera shows them or as the generator does, by a coin."""
    sides = [
        plan_corpus(plan.bias, 0.0, len(plan.clips), plan.seed, replace(plan.settings, generated_share=share)).clips
        for share in (0.0, 1.0)
    ]
    rng = default_rng([plan.seed, OTHER])
    return replace(
        plan,
        clips=tuple(
            pair[int(rng.integers(2))] if pair[0].split != "test" else pair[0] for pair in zip(*sides, strict=True)
        ),
    )


def as_the_target_looks(plan: PlantedCorpus) -> PlantedCorpus:
    """Clips that are learned from as the target's camera shows them, with the words and company of the source."""

    def change(clip: PlantedClip) -> PlantedClip:
        return replace(clip, shot=replace(clip.shot, scene=replace(clip.scene, look=LOOKS[TARGET])))

    return learning(plan, change)


def elsewhere(plan: PlantedCorpus) -> PlantedCorpus:
    """Other clips to learn from, in which nothing is planted: the reference of a bias that has none of its own."""
    others = plan_corpus(plan.bias, 0.0, len(plan.clips), plan.seed + OTHER, plan.settings).clips
    clips = [clip for clip in others if clip.split != "test"] + list(plan.split("test"))
    return replace(plan, clips=tuple(clips))


REFERENCES: dict[str, Callable[[PlantedCorpus], PlantedCorpus]] = {
    "visual": without_partners,
    "textual": without_wording,
    "length": with_other_lengths,
    "source": with_drawn_sources,
    "domain": as_the_target_looks,
}
"""What is learned from where someone knows the cause that was planted; `scene_text` is given the words."""


def admission(bias: BiasName, rows: Seeds, asked: argparse.Namespace) -> Admission:
    """What was found of a bias, as the package keeps it."""
    found, sizes, harder = verdicts(rows), sizes_of(bias, asked), harder_of(asked.harder)
    return Admission(
        bias=bias,
        strength=asked.strength,
        world=world_of(bias, asked.strength, harder),
        seeds=tuple(seeds_of(asked)),
        clips=sizes.clips,
        steps=sizes.steps,
        means=figures(rows),
        rules={one.rule: one.figure for one in found},
        broken=tuple(one.rule for one in found if not one.holds),
        harder=harder.changed,
    )


def planned(runs: Sequence[Run]) -> str:
    """How many trainings are to be done, and about how many hours of processor time they take."""
    lines, hours = [], 0.0
    for bias in dict.fromkeys(run.bias for run in runs):
        own = [run for run in runs if run.bias == bias]
        took = hours_of(own)
        hours += took
        trainings = sum(1 for run in own if rows_of(bias)[run.row].steps)
        lines.append(f"{bias}: {trainings} trainings, about {took:.2f} processor hours")
    return "\n".join([*lines, f"all: about {hours:.2f} processor hours"])


def hours_of(runs: Sequence[Run]) -> float:
    """About how many hours of processor time the runs of a bias take, from a few clips and steps."""
    small = replace(runs[0], clips=80, steps=10)
    begun_s = time.process_time()
    plan, encoder = plan_of(small, "biased"), load_encoder("builtin")
    learned, validation, _ = (split_of(plan, split, encoder) for split in SPLITS)
    clip_s = (time.process_time() - begun_s) / small.clips
    taken_s = []
    for steps in (10, 10, 40):  # the first time things are loaded
        begun_s = time.process_time()
        learned_matcher(replace(small, steps=steps), Row("biased"), learned, validation)
        taken_s.append(time.process_time() - begun_s)
    step_s = max(0.0, (taken_s[2] - taken_s[1]) / 30)
    rows = [rows_of(run.bias)[run.row] for run in runs]
    worlds = {(run.seed, row.world) for run, row in zip(runs, rows, strict=True)}
    all_steps = sum((row.steps * run.steps for run, row in zip(runs, rows, strict=True)), 0.0)
    return (len(worlds) * runs[0].clips * clip_s + len(runs) * taken_s[1] + all_steps * step_s) / 3600


if __name__ == "__main__":
    raise SystemExit(main())
