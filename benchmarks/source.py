"""Does training on generated clips make a ranking favour them, and what do the corrections do about it?

    python benchmarks/source.py [--seeds 5] [--clips 2400] [--steps 500] [--processes 2] [--out FILE]

The planted bias `source`, where every real clip has a mirror that a known generator rendered of the same scene. Each
seed has a corpus of its own. On features of the built-in encoder the matcher wti behind a small adapter is trained

- with a growing share of mirrors in place of real clips: 0 to 80 %, as the paper has it, and 50, 65, 80 and 95 %, which
  are the planted strengths 0, 0.3, 0.6 and 0.9;
- at strength 0.9 and at a share of 0 with each preset of `evenreel.debias.source.contrast` on top, beside plain
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
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.over_seeds import Gap, checked, gap_of, seeds_parser, words
from benchmarks.planted import Sizes
from benchmarks.planted import recipe as planted_recipe
from evenreel.audits.settings import AuditSettings
from evenreel.audits.source.paired import measure_source
from evenreel.corpus import select
from evenreel.debias.source.contrast import PRESETS
from evenreel.encoders import load_encoder
from evenreel.papers.cells import Figures, in_processes
from evenreel.papers.engine.fine_tuning import fine_tuned
from evenreel.papers.engine.material import CorpusPart, part_of
from evenreel.papers.engine.runs import TrainingRun
from evenreel.planted import PlantedCorpus, PlantSettings, corpus_of, plan_corpus, text_features, video_features
from evenreel.planted.source import GENERATOR
from evenreel.training.recipe import Recipe
from evenreel.types import Encoder

RULE = "6 midpoints"
STRENGTHS = (0.0, 0.3, 0.6, 0.9)
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)
PREFERENCE, REAL_R1, MIXED_REAL_R1, MIXED_GENERATED_R1, WIN_RATE = (
    "Normalized MixR", "REAL R@1", "mixed-REAL R@1", "mixed-AI R@1", "win rate",
)  # fmt: skip
PLAIN = "plain"


@dataclass(frozen=True)
class Training:
    """One training: the share of mirrors that it learns from, and the preset of the term on top."""

    share: float
    preset: str = PLAIN

    def __str__(self) -> str:
        return f"{100 * self.share:.0f} % generated, {self.preset}"


def share_of(strength: float) -> float:
    """The share of mirrors that a planted strength means."""
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
    sizes = Sizes(asked.clips, asked.steps)
    found = known_figures(asked.out, sizes) if asked.out else {}
    for key, figures in measured(range(asked.seeds), found, sizes, asked.processes):
        found[key] = figures
        if asked.out:
            note(asked.out, sizes, key, figures)
    runs = {one: [found[seed, one] for seed in range(asked.seeds)] for one in TRAININGS}
    print("\n\n".join((sweep_table(runs), debias_table(runs), change_table(runs))))
    broken = [sentence for sentence, holds in claims(runs) if not holds]
    print("\n".join(["", *(f"{'holds' if holds else 'MISSED'}: {sentence}" for sentence, holds in claims(runs))]))
    return int(bool(broken))


def arguments(about: str | None) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = seeds_parser(about, clips=2_400, shared="seeds")
    parser.add_argument("--steps", type=int, default=500, help="of each training")
    return checked(parser)


def known_figures(path: Path, sizes: Sizes) -> dict[tuple[int, Training], Figures]:
    """What was measured before, by the same sizes."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return {
        (one["seed"], Training(**one["training"])): one["figures"] for one in lines if one["sizes"] == asdict(sizes)
    }


def note(path: Path, sizes: Sizes, key: tuple[int, Training], figures: Figures) -> None:
    """Add a line."""
    line = {"seed": key[0], "training": asdict(key[1]), "sizes": asdict(sizes), "figures": figures}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def measured(
    seeds: Sequence[int], known: Mapping[tuple[int, Training], Figures], sizes: Sizes, processes: int
) -> Iterator[tuple[tuple[int, Training], Figures]]:
    """The figures of every training that is not known yet, seed by seed as they come, on one thread each."""
    todo = {seed: [one for one in TRAININGS if (seed, one) not in known] for seed in seeds}
    jobs = [(seed, trainings, sizes) for seed, trainings in todo.items() if trainings]
    for found in in_processes(jobs, of_seed, processes):
        yield from found.items()


def of_seed(seed: int, trainings: Sequence[Training], sizes: Sizes) -> dict[tuple[int, Training], Figures]:
    """All trainings on one planted corpus."""
    encoder = load_encoder("builtin")
    plan = plan_corpus("source", 0.0, sizes.clips, seed, PlantSettings(mirrors=True))
    learnt, test = part(plan, "train", encoder), part(plan, "test", encoder)
    found = {}
    for training in trainings:
        begun_s = time.perf_counter()
        found[seed, training] = figures_of(training, seed, sizes, (learnt, test))
        shown = "  ".join(f"{name} {value:.1f}" for name, value in found[seed, training].items())
        print(f"seed {seed}, {training}: {shown}  ({time.perf_counter() - begun_s:.0f} s)", file=sys.stderr, flush=True)
    return found


def part(plan: PlantedCorpus, split: str, encoder: Encoder) -> CorpusPart:
    """A split with its features; captions are the real clips'."""
    clips = [clip for clip in plan.clips if clip.split == split]
    texts = text_features([clip for clip in clips if clip.caption_ids], encoder)
    return part_of(select(corpus_of(plan), split=split), texts, video_features(clips, encoder, RULE))


def figures_of(training: Training, seed: int, sizes: Sizes, parts: tuple[CorpusPart, CorpusPart]) -> Figures:
    """Train once, and measure on the test split."""
    learnt, test = parts
    with tempfile.TemporaryDirectory() as folder:
        trained = fine_tuned(recipe_of(training, seed, sizes), learnt, TrainingRun("model", seed, Path(folder)))
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


def mean(runs: Sequence[Figures], name: str) -> Gap:
    """A figure over the seeds."""
    return gap_of(np.array([one[name] for one in runs]))


def change(runs: Runs, training: Training, other: Training, name: str) -> Gap:
    """How much a figure of a training is above that of another, seed by seed."""
    pairs = zip(runs[training], runs[other], strict=True)
    return gap_of(np.array([one[name] - before[name] for one, before in pairs]))


def sweep_table(runs: Runs) -> str:
    """What the share of mirrors does."""
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
            gaps = (change(runs, one, Training(share), name) for name in (PREFERENCE, REAL_R1))
            lines.append(f"{one!s:28}" + "".join(f"{words(gap):>26}" for gap in gaps))
    return "\n".join(lines)


def table(head: str, rows: Sequence[tuple[str, Sequence[Figures]]]) -> str:
    """A row for each training, with intervals."""
    names = (PREFERENCE, WIN_RATE, REAL_R1, MIXED_REAL_R1, MIXED_GENERATED_R1)
    lines = [f"{head:28}" + "".join(f"{name:>26}" for name in names)]
    lines += [f"{label:28}" + "".join(f"{words(mean(found, name)):>26}" for name in names) for label, found in rows]
    return "\n".join(lines)


def claims(runs: Runs) -> Iterator[tuple[str, bool]]:
    """What is claimed, and whether it holds."""
    unbiased, plain = Training(share_of(0.0)), Training(BIASED)
    yield "nothing is favoured at strength 0", holds_zero(mean(runs[unbiased], PREFERENCE))
    for name, shares in (("strength", [*map(share_of, STRENGTHS)]), ("share", SHARES)):
        steps = [change(runs, Training(more), Training(less), PREFERENCE) for less, more in pairwise(shares)]
        yield f"each {name} favours generated clips more than the one before", all(step.high < 0 for step in steps)
    for preset in ("release", "paper"):
        before, after = mean(runs[plain], PREFERENCE), mean(runs[Training(BIASED, preset)], PREFERENCE)
        yield f"the preset {preset} turns the preference round", before.high < 0 < after.low
    neutral = Training(BIASED, "neutral")
    yield "with the preset neutral nothing is favoured", holds_zero(mean(runs[neutral], PREFERENCE))
    fall = change(runs, neutral, plain, REAL_R1)
    yield f"real clips alone are found as well as before ({words(fall)})", fall.high >= 0


def holds_zero(figure: Gap) -> bool:
    """Whether zero is within the interval."""
    return figure.low <= 0 <= figure.high


if __name__ == "__main__":
    raise SystemExit(main())
