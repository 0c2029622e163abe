"""Does training on generated clips make a ranking favour them, and what do the corrections do about it?

    python -m benchmarks.source [--seeds 5] [--clips 2400] [--steps 500] [--processes 2] [--out FILE]

The planted bias `source`, where every real clip has a mirror that a known generator rendered of the same scene. Each
seed has a corpus of its own. On features of the built-in encoder the matcher wti behind a small adapter is trained

- with a growing share of mirrors in place of real clips: 0 to 80 %, as the paper has it, and 50, 65, 80 and 95 %, which
  are the planted strengths 0, 0.3, 0.6 and 0.9;
- at strength 0.9 and at a share of 0 with each preset of `evenreel.debias.source` on top, beside plain
  training.

Every test split has all real clips and all mirrors; a caption is answered by both. Normalized delta MixR is 0 where
neither source is favoured, above 0 where real clips are, below where generated ones are. Intervals are 95 % over the
seeds (Student's t), differences are taken seed by seed.

Exit status 1 if a claim does not hold: the preference at strength 0 is within its interval of zero and grows with the
strength and with the share; both published forms of the debiasing turn the preference at strength 0.9 round; the
neutral term leaves a preference within its interval of zero, and what is found of real clips alone falls by no more
than its interval. With --out the figures of each training are written down as they come, and a run that was broken off
goes on.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.over_seeds import checked, difference, ends, gap_of, seeds_parser, words
from benchmarks.planted import Sizes
from benchmarks.planted import recipe as planted_recipe
from evenreel.audits.settings import AuditSettings
from evenreel.audits.source import measure_source
from evenreel.corpus import select
from evenreel.debias.source import PRESETS
from evenreel.encoders import load_encoder
from evenreel.evaluation import Interval
from evenreel.papers.cells import Figures, Rows, measured
from evenreel.papers.engine import TrainingRun, trained_row
from evenreel.papers.study import Variant
from evenreel.papers.workspace import CorpusPart, Workspace, part_of
from evenreel.planted import PlantedCorpus, PlantSettings, corpus_of, plan_corpus, text_features, video_features
from evenreel.planted.biases import GENERATOR
from evenreel.training.recipe import Recipe
from evenreel.types import Encoder

RULE = "6 midpoints"
STRENGTHS = (0.0, 0.3, 0.6, 0.9)
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)
PREFERENCE, REAL_R1, MIXED_REAL_R1, MIXED_GENERATED_R1, WIN_RATE = (
    "Normalized MixR", "REAL R@1", "mixed-REAL R@1", "mixed-AI R@1", "win rate",
)  # fmt: skip
PLAIN, FOUND = "plain", "found"


@dataclass(frozen=True)
class Training:
    """One training: the share of mirrors that it learns from, and the preset of the term on top."""

    share: float
    preset: str = PLAIN

    def __str__(self) -> str:
        return f"{100 * self.share:.0f} % generated, {self.preset}"


@dataclass(frozen=True)
class Run:
    """A training on the clips of a seed; what is measured once and written down."""

    seed: int
    share: float
    preset: str
    clips: int
    steps: int

    @property
    def training(self) -> Training:
        return Training(self.share, self.preset)

    @property
    def corpus(self) -> int:
        return self.seed

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.training}"


def share_of(strength: float) -> float:
    return 0.5 + 0.5 * strength


BIASED = share_of(STRENGTHS[-1])
TRAININGS = tuple(
    dict.fromkeys(
        [
            *(Training(share) for share in sorted({*SHARES, *map(share_of, STRENGTHS)})),
            *(Training(share, preset) for share in (BIASED, 0.0) for preset in PRESETS),
        ]
    )
)


def main() -> int:
    """The tables; 1 if a claim does not hold."""
    asked = arguments(__doc__)
    asked_for = [
        Run(seed, one.share, one.preset, asked.clips, asked.steps) for seed in range(asked.seeds) for one in TRAININGS
    ]
    found = measured(asked_for, Run, of_seed, asked.out, asked.processes)
    runs = runs_of(found)
    print("\n\n".join((sweep_table(runs), debias_table(runs), change_table(runs))))
    broken = [sentence for sentence, holds in claims(runs) if not holds]
    print("\n".join(["", *(f"{'holds' if holds else 'MISSED'}: {sentence}" for sentence, holds in claims(runs))]))
    return int(bool(broken))


def arguments(about: str | None) -> argparse.Namespace:
    parser = seeds_parser(about, "seeds")
    parser.add_argument("--clips", type=int, default=2_400, help="of all splits together")
    parser.add_argument("--out", type=Path, help="file for the figures, in lines of JSON")
    parser.add_argument("--steps", type=int, default=500, help="of each training")
    return checked(parser)


def runs_of(found: Mapping[Run, Rows]) -> Runs:
    figures: dict[Training, list[Figures]] = {}
    for run in sorted(found, key=lambda one: one.seed):
        figures.setdefault(run.training, []).append(found[run][FOUND])
    return figures


def of_seed(runs: Sequence[Run]) -> Iterator[tuple[Run, Rows]]:
    encoder, first = load_encoder("builtin"), runs[0]
    plan = plan_corpus("source", 0.0, first.clips, first.seed, PlantSettings(mirrors=True))
    parts = part(plan, "train", encoder), part(plan, "test", encoder)
    for run in runs:
        yield run, {FOUND: figures_of(run.training, run.seed, Sizes(run.clips, run.steps), parts)}


def part(plan: PlantedCorpus, split: str, encoder: Encoder) -> CorpusPart:
    """A split with its features; captions are the real clips'."""
    clips = [clip for clip in plan.clips if clip.split == split]
    texts = text_features([clip for clip in clips if clip.caption_ids], encoder)
    return part_of(select(corpus_of(plan), split=split), texts, video_features(clips, encoder, RULE))


def figures_of(training: Training, seed: int, sizes: Sizes, parts: tuple[CorpusPart, CorpusPart]) -> Figures:
    learnt, test = parts
    with tempfile.TemporaryDirectory() as folder:
        run = TrainingRun("model", seed, Path(folder))
        material = Workspace(test=test.corpus, train=learnt, features=test)
        trained = trained_row(run, Variant(recipe_of(training, seed, sizes)), material, selects=False)
    audit = AuditSettings(resamples=0)
    found = measure_source(test.scores(trained.matcher), test.corpus, GENERATOR, audit)
    return {
        PREFERENCE: found.deltas["normalized"]["MixR"].value,
        REAL_R1: found.figures["real"]["R@1"].value,
        MIXED_REAL_R1: found.figures["mixed real"]["R@1"].value,
        MIXED_GENERATED_R1: found.figures["mixed generated"]["R@1"].value,
        WIN_RATE: found.win_rate.value,
    }


def recipe_of(training: Training, seed: int, sizes: Sizes) -> Recipe:
    """The recipe of the planted benchmark with a share of mirrors, and perhaps a term."""
    plain = planted_recipe("source", seed, sizes)
    debias = None if training.preset == PLAIN else PRESETS[training.preset]
    return replace(plain, data=replace(plain.data, generated_share=training.share), debias=debias)


Runs = Mapping[Training, Sequence[Figures]]
"""The figures of each training, seed by seed."""


def mean(runs: Sequence[Figures], name: str) -> Interval:
    return gap_of(np.array([one[name] for one in runs]))


def sweep_table(runs: Runs) -> str:
    rows = [(f"{100 * one.share:.0f} %", runs[one]) for one in TRAININGS if one.preset == PLAIN]
    return table("generated in training", rows)


def debias_table(runs: Runs) -> str:
    """What the terms do at strength 0.9 and among real clips alone."""
    kinds = (PLAIN, *PRESETS)
    trainings = [Training(share, kind) for share in (BIASED, 0.0) for kind in kinds]
    return table("training", [(str(one), runs[one]) for one in trainings])


def change_table(runs: Runs) -> str:
    """What each term changes of the plain training on the same clips, seed by seed."""
    lines = [f"{'less plain training':28}" + "".join(f"{name:>26}" for name in (PREFERENCE, REAL_R1))]
    for share in (BIASED, 0.0):
        for preset in PRESETS:
            one = Training(share, preset)
            gaps = (difference(runs[one], runs[Training(share)], name) for name in (PREFERENCE, REAL_R1))
            lines.append(f"{one!s:28}" + "".join(f"{words(gap):>26}" for gap in gaps))
    return "\n".join(lines)


def table(head: str, rows: Sequence[tuple[str, Sequence[Figures]]]) -> str:
    names = (PREFERENCE, WIN_RATE, REAL_R1, MIXED_REAL_R1, MIXED_GENERATED_R1)
    lines = [f"{head:28}" + "".join(f"{name:>26}" for name in names)]
    lines += [f"{label:28}" + "".join(f"{words(mean(found, name)):>26}" for name in names) for label, found in rows]
    return "\n".join(lines)


def claims(runs: Runs) -> Iterator[tuple[str, bool]]:
    unbiased, plain = Training(share_of(0.0)), Training(BIASED)
    yield "nothing is favoured at strength 0", holds_zero(mean(runs[unbiased], PREFERENCE))
    for name, shares in (("strength", [*map(share_of, STRENGTHS)]), ("share", SHARES)):
        steps = [difference(runs[Training(more)], runs[Training(less)], PREFERENCE) for less, more in pairwise(shares)]
        yield f"each {name} favours generated clips more than the one before", all(ends(step)[1] < 0 for step in steps)
    for preset in ("release", "paper"):
        before, after = mean(runs[plain], PREFERENCE), mean(runs[Training(BIASED, preset)], PREFERENCE)
        yield f"the preset {preset} turns the preference round", ends(before)[1] < 0 < ends(after)[0]
    neutral = Training(BIASED, "neutral")
    yield "with the preset neutral nothing is favoured", holds_zero(mean(runs[neutral], PREFERENCE))
    fall = difference(runs[neutral], runs[plain], REAL_R1)
    yield f"real clips alone are found as well as before ({words(fall)})", ends(fall)[1] >= 0


def holds_zero(figure: Interval) -> bool:
    low, high = ends(figure)
    return low <= 0 <= high


if __name__ == "__main__":
    raise SystemExit(main())
