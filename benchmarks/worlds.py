"""What does a bias of known strength do to a matcher in a world of features of the size of real data?

    python -m benchmarks.worlds --annotations DIR [--bias length] [--clips 20000] [--strength 0.9] [--steps 600]
        [--seeds 5] [--from-seed 0] [--out FILE]

DIR holds the annotation files of EPIC-KITCHENS-100 (see docs/corpora.md). Each seed is a world of its own
(`evenreel.planted.worlds`): --clips training clips and --test-clips test clips at most, one of each action, whose
features are drawn by a stated model. The matcher mean_pool behind a linear adapter is trained on it: the baseline where
lengths are biased with the strength, the oracle where they are not; 'cause removed' is trained as the baseline, on
frames without what the length decides in them, which only the maker of the world knows; 'untrained' is the mean of the
frames against the sentence. All are tested on the same unbiased clips. R@1 is the share of captions whose first clip
has the caption's verb and noun, mAP the mean average precision of these, both in percent, text to video, with intervals
of 95 % over the seeds (Student's t). Exit status 1 if the bias does no significant harm. With --out each training is
written down when it is done, and a run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.over_seeds import (
    Figures,
    Rows,
    by_row,
    checked,
    closed,
    difference,
    markdown,
    mean,
    measured,
    seeds_parser,
)
from benchmarks.over_seeds import words as figure_words
from benchmarks.planted import Split, trained
from evenreel.corpus import FORMATS
from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.scoring import matcher_scores
from evenreel.planted.worlds.drawing import FeatureWorld, draw_world
from evenreel.planted.worlds.splits import SplitSizes, annotated_clips
from evenreel.planted.worlds.vectors import arc
from evenreel.training.recipe.recipe import Recipe
from evenreel.training.recipe.sections import Data, Loop, MatcherChoice, Optimiser, Records
from evenreel.types import Corpus, Scores

PLAIN, REMOVED = "plain", "cause removed"
BASELINE, ORACLE, UNTRAINED = "baseline", "oracle", "untrained"
METRICS = ("R@1", "mAP")
DRAWING, TRAINING, MEMORY = "drawing, s", "training, s", "memory, MiB"
BATCH = 128


@dataclass(frozen=True)
class Run:
    """One training on one world.

    Attributes:
        annotations: folder of the annotation files.
        bias: what is planted.
        seed: of the world and of the training.
        strength: of the bias in the training clips.
        clips: training clips.
        test_clips: test clips.
        steps: of the training.
        method: `PLAIN` or `REMOVED`.
    """

    annotations: str
    bias: str
    seed: int
    strength: float
    clips: int
    test_clips: int
    steps: int
    method: str

    @property
    def corpus(self) -> tuple[str, int, float]:
        """The world, see `benchmarks.over_seeds`."""
        return self.bias, self.seed, self.strength

    def __str__(self) -> str:
        return f"{self.bias}, {self.method}, seed {self.seed}, strength {self.strength}"


def main() -> int:
    """The table; 1 if the bias does no significant harm."""
    asked = arguments()
    seeds = range(asked.from_seed, asked.from_seed + asked.seeds)
    runs = {strength: [runs_of(asked, seed, strength) for seed in seeds] for strength in (asked.strength, 0.0)}
    found = measured((run for own in runs.values() for one in own for run in one), Run, of_world, asked)
    biased, free = (by_row(own, found) for own in runs.values())
    rows = {UNTRAINED: free[UNTRAINED], BASELINE: biased[PLAIN], ORACLE: free[PLAIN]}
    rows |= {REMOVED: biased[REMOVED], f"{REMOVED}, no bias": free[REMOVED]}
    print(table_of(rows))
    gap = {name: difference(rows[ORACLE], rows[BASELINE], name) for name in METRICS}
    for name in METRICS:
        share = closed(biased[REMOVED], rows[BASELINE], rows[ORACLE], name)
        print(f"\n{name}: gap {figure_words(gap[name])}; {REMOVED} closes {share} %")
    return int(gap["R@1"].low <= 0)


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = seeds_parser(__doc__, clips=20_000, shared="worlds")
    parser.add_argument("--annotations", type=Path, required=True, help="folder of EPIC-KITCHENS-100")
    parser.add_argument("--bias", default="length", choices=["length"])
    parser.add_argument("--strength", type=float, default=0.9, help="of what is planted, above 0")
    parser.add_argument("--test-clips", type=int, default=2_000, help="at most, one of each action")
    parser.add_argument("--steps", type=int, default=600, help="of each training")
    parser.add_argument("--from-seed", type=int, default=10, help="first seed; 0 to 4 chose the defaults")
    return checked(parser)


def runs_of(asked: argparse.Namespace, seed: int, strength: float) -> list[Run]:
    """The trainings on one world."""
    folder, sizes = str(asked.annotations.resolve()), (asked.clips, asked.test_clips, asked.steps)
    return [Run(folder, asked.bias, seed, strength, *sizes, method) for method in (PLAIN, REMOVED)]


@lru_cache(maxsize=1)
def annotation_table(folder: str) -> Corpus:
    """The tables of EPIC-KITCHENS-100."""
    return FORMATS["epic-kitchens-100"]([Path(folder)]).corpus


def of_world(runs: Sequence[Run]) -> Iterator[tuple[Run, Rows]]:
    """Draw a world; train on it, test and measure the cost in seconds of processor time."""
    first, begun_s = runs[0], time.process_time()
    sizes = SplitSizes(first.clips, 0, first.test_clips)
    clips = annotated_clips(annotation_table(first.annotations), sizes, first.seed)
    world = draw_world(clips, first.strength, first.seed)
    parts = {PLAIN: (world.split("train"), world.split("test"))}
    drawn_s = time.process_time() - begun_s
    for run in runs:
        if run.method == REMOVED:
            learned, test = (without_length(part, run.seed) for part in parts[PLAIN])
        else:
            learned, test = parts[PLAIN]
        begun_s = time.process_time()
        matcher = trained(recipe(run), Split(learned.corpus, learned.texts, learned.videos))
        cost = {DRAWING: drawn_s, TRAINING: time.process_time() - begun_s}
        cost[MEMORY] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        scores = matcher_scores(matcher, test.texts, test.videos)
        values = scores.block(slice(0, len(test.texts.ids)), slice(0, len(test.videos.ids)))
        rows = {run.method: found_in(values, test) | cost}
        yield run, rows | ({UNTRAINED: found_in(untrained(test), test)} if run.method == PLAIN else {})


def without_length(world: FeatureWorld, seed: int) -> FeatureWorld:
    """The world with frames from which the plane is removed that lengths lie in."""
    frames = world.videos.frames.astype(np.float32)
    plane = arc(np.array([0.0, 0.5]), frames.shape[-1], seed)
    frames -= frames @ plane.T @ plane
    frames /= np.linalg.norm(frames, axis=-1, keepdims=True)
    return replace(world, videos=replace(world.videos, frames=frames.astype(np.float16)))


def recipe(run: Run) -> Recipe:
    """The mean of the frames behind linear maps: lengths show in every frame."""
    return Recipe(
        name=f"world-{run.bias}",
        data=Data(corpus="world", features="world", validation=None),
        matcher=MatcherChoice("mean_pool", {"temperature": 0.03}),
        adapter=AdapterSettings(kind="linear"),
        optimiser=Optimiser(lr=4e-3, weight_decay=0.05),
        loop=Loop(batch_size=BATCH, epochs=None, steps=run.steps, seed=run.seed, device="cpu"),
        records=Records(every_steps=run.steps, tensorboard=False),
    )


def untrained(test: FeatureWorld) -> NDArray[np.float32]:
    """(Q, V) cosine of the sentence and the mean frame, as an encoder scores without any training."""
    pooled = test.videos.frames.astype(np.float32).mean(1)
    similarity: NDArray[np.float32] = test.texts.sentence @ (pooled / np.linalg.norm(pooled, axis=1, keepdims=True)).T
    return similarity


def found_in(values: NDArray[np.floating], test: FeatureWorld) -> Figures:
    """Metrics in percent, text to video; clips of the caption's verb and noun are relevant."""
    clips = test.corpus.clips
    verbs, nouns = (clips[f"{kind}_classes"].list.first().to_numpy() for kind in ("verb", "noun"))
    relevance = ((verbs[:, None] == verbs) & (nouns[:, None] == nouns)).astype(np.float64)
    settings = EvaluationSettings(parse_metrics(list(METRICS)), ("t2v",), resamples=0)
    scores = Scores(values, test.texts.ids, test.videos.ids)
    found = evaluate(scores, test.corpus, settings, relevance=relevance).directions["t2v"].summary
    return {name: found[name].value for name in METRICS}


def table_of(rows: dict[str, list[Figures]]) -> str:
    """A row each of the untrained reading, baseline and oracle."""
    costs = (DRAWING, TRAINING, MEMORY)
    lines = [
        [name, *(f"{mean(own, one):.1f}" for one in METRICS)]
        + [f"{mean(own, one):.0f}" if one in own[0] else "" for one in costs]
        for name, own in rows.items()
    ]
    return markdown(f"| row | {' | '.join((*METRICS, *costs))} |", lines)


if __name__ == "__main__":
    raise SystemExit(main())
