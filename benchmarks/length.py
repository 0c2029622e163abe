"""What do trimming, ensembles and the backdoor adjustment do about a planted frame-length bias, and at what cost?

    python benchmarks/length.py [--matchers hgr wti] [--mining hardest ran] [--methods NAME ...] [--strength 0.9]
        [--steps N] [--seeds 5] [--clips 3000] [--processes 2] [--out FILE]

The planted bias `length`: in training half of the activities are short and the other half long, in the test split
length and activity are independent. Each seed has a corpus of its own. On features of the built-in encoder, a frame
each half second, two matchers are trained: `wti` with a transformer over the frames, as in benchmarks/planted.py, and
`hgr`, which sees no order of frames, so that its features are each frame beside its motion (the difference to the next
frame), as those of the paper have a stream of flow. For either

- baseline: trained at the strength; oracle: at strength 0 on as many clips;
- RmvRand and RmvAll: training clips left out, the latter until each class is as long as in the test split, whose
  statistics it uses; RmvAll (val) likewise by the validation split, if that leaves out any clip;
- ensemble: two models of all clips, whose first is the baseline; equal 2, adjusted 2, 3 and 4: a model for each
  stratum of length, fused by the share of its clips (equation 5); first and second: those of adjusted 2 alone;
- shared encoder: one model with a map of captions for each stratum of adjusted 2, which keeps one gallery;
- random 2: as many strata as large as those of equal 2, drawn without a look at lengths: what division costs by itself;
- ..., all steps: a model of each stratum takes as many steps as the baseline, not its share of them;
- ..., begun with all: strata go on from the baseline's weights with a share of the steps each (the failure method);
- baseline, twice the steps: what the ensemble, the rows with all steps and those begun with all spend, on one model.

Other rows take as many steps in all as the baseline. `hgr` is trained with the hardest negative of a batch, as in the
paper, or with RAN (--mining), which leaves clips of the same class out of the negatives.
nDCG and mAP grade by classes, both ways; mAP-EPIC is the paper's, whose precision sums degrees of relevance, mAP the
strict one. R@1 is the share of captions whose first clip shows all that is named.
The share of the gap that is closed is (method - baseline) / (oracle - baseline) of the mean strict mAP, with Fieller's
interval over the seeds; differences are taken seed by seed, with intervals of 95 % by Student's t. The cost
is the number of times that a clip is encoded, and so of galleries that are kept, with the seconds that it takes in
times of the baseline's. At strength 0 there is nothing to correct: there the baseline is the oracle.

Exit status 1 if the bias does no measurable harm, or if a method does at strength 0. With --out the figures of each
training are written down as they come, and a run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.over_seeds import (
    AtStrengths,
    Figures,
    Rows,
    Seeds,
    by_row,
    checked,
    closed,
    difference,
    mean,
    measured,
    seeds_parser,
    words,
)
from benchmarks.planted import Sizes, encoding_s, found_in
from benchmarks.planted import recipe as planted_recipe
from evenreel.checkpoint.architecture import encodings
from evenreel.corpus import select
from evenreel.encoders import load_encoder
from evenreel.features.graphs import with_graphs
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import CorpusPart, part_of
from evenreel.papers.engine.trainings import learning_of, splits_of
from evenreel.papers.frame_length.measures import MAP, MAP_EPIC, NDCG, length_figures
from evenreel.planted import corpus_of, plan_corpus, text_features, video_features
from evenreel.training.ensemble.members import train_recipe
from evenreel.training.loop.run import RunHooks, TrainedModel
from evenreel.training.recipe.recipe import Recipe
from evenreel.training.recipe.sections import MatcherChoice, Members, Trim
from evenreel.types import Corpus, TextFeatures, VideoFeatures

FREE = 0.0
"""The strength at which nothing is planted."""
RULE = "every 0.5 s"
STEPS = {"hgr": 500, "wti": 1_500}
"""Of the baseline of each matcher, about as many as it takes to learn what happens."""
MOTION = 5.0
"""Differences of frames half a second apart are about a fifth as long as frames: with this they are as long."""
TRIM = Trim(margin=12.0, least=5, target="test")
"""A class is trimmed while it is a second (12 frames) off; classes have about 28 clips."""
BASELINE, ORACLE, FIRST, SECOND = "baseline", "oracle", "first of adjusted 2", "second of adjusted 2"
RMV_ALL_VAL, ENSEMBLE, LONGER = "RmvAll (val)", "ensemble", "baseline, twice the steps"


@dataclass(frozen=True)
class Longer:
    """The baseline with a multiple of its steps."""

    times: int


METHODS: dict[str, Trim | Members | Longer] = {
    ENSEMBLE: Members(by="seed", fusion="uniform"),
    "RmvRand": replace(TRIM, rule="random"),
    "RmvAll": TRIM,
    RMV_ALL_VAL: replace(TRIM, target="val"),
    "equal 2": Members(split="equal"),
    **{f"adjusted {count}": Members(count=count) for count in (2, 3, 4)},
    "shared encoder": Members(form="heads"),
    LONGER: Longer(2),
    "random 2": Members(split="random"),
    "equal 2, all steps": Members(split="equal", steps="full"),
    "random 2, all steps": Members(split="random", steps="full"),
    "equal 2, begun with all": Members(split="equal", begin="full"),
    "random 2, begun with all": Members(split="random", begin="full"),
}
HARDEST, MINING = "hardest", ("hardest", "ran")
MAIN, R1, LEFT_OUT, ENCODED, COST = "mAP AVG", "R@1", "clips left out", "galleries", "encoding"


@dataclass(frozen=True)
class Run:
    """One training, of which a row or several are made.

    Attributes:
        matcher: that is trained.
        seed: of the corpus and of the training.
        strength: of what is planted in what is learned from.
        method: a key of `METHODS`, or the baseline.
        clips: of all splits.
        steps: of the baseline.
        mining: which negatives `hgr` learns from.
    """

    matcher: str
    seed: int
    strength: float
    method: str
    clips: int
    steps: int
    mining: str = HARDEST

    @property
    def corpus(self) -> tuple[str, int, float]:
        """See `benchmarks.over_seeds`; features are the matcher's."""
        return self.matcher, self.seed, self.strength

    def __str__(self) -> str:
        return f"{self.matcher}, {self.mining}, seed {self.seed}, strength {self.strength}"


def main() -> int:
    """The tables; 1 if a claim does not hold."""
    asked = arguments()
    kinds = [(matcher, mining) for matcher in asked.matchers for mining in minings(matcher, asked)]
    wanted = {kind: [runs_of(*kind, seed, asked) for seed in range(asked.seeds)] for kind in kinds}
    found = measured((run for seeds in wanted.values() for runs in seeds for run in runs), Run, of_corpus, asked)
    tables = []
    for (matcher, mining), seeds in wanted.items():
        biased, free = (
            by_row([[run for run in runs if run.strength == strength] for runs in seeds], found)
            for strength in (asked.strength, FREE)
        )
        title = f"{matcher}, {mining}" if matcher == "hgr" else matcher
        tables.append(tables_of(title, AtStrengths(asked.strength, biased, free, BASELINE)))
    print("\n\n".join(text for text, _ in tables))
    return int(not all(holds for _, holds in tables))


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = seeds_parser(__doc__, clips=3_000)
    parser.add_argument("--matchers", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--mining", nargs="+", default=[HARDEST], choices=MINING, help="negatives of hgr")
    parser.add_argument("--methods", nargs="+", default=[*METHODS], choices=[*METHODS], help="beside the baseline")
    parser.add_argument("--strength", type=float, default=0.9, help="of what is planted, above 0")
    parser.add_argument("--steps", type=int, help="of the baseline of each matcher, instead of its own number")
    return checked(parser)


def minings(matcher: str, asked: argparse.Namespace) -> list[str]:
    """The choices of negatives that a matcher is trained with; `wti` has none."""
    return asked.mining if matcher == "hgr" else [HARDEST]


def runs_of(matcher: str, mining: str, seed: int, asked: argparse.Namespace) -> list[Run]:
    """All trainings of a matcher with a seed, at both strengths."""
    plain = [] if ENSEMBLE in asked.methods else [BASELINE]
    return [
        Run(matcher, seed, strength, method, asked.clips, asked.steps or STEPS[matcher], mining)
        for strength in (asked.strength, FREE)
        for method in [*plain, *asked.methods]
    ]


def recipe_for(run: Run) -> Recipe:
    """The recipe of a training; that of the ensemble has the baseline in it."""
    recipe = recipe_of(run, Sizes(run.clips, run.steps))
    change = METHODS.get(run.method)
    if isinstance(change, Longer):
        return replace(recipe, loop=replace(recipe.loop, steps=change.times * run.steps))
    return replace(recipe, trim=change) if isinstance(change, Trim) else replace(recipe, members=change)


def recipe_of(run: Run, sizes: Sizes) -> Recipe:
    """How a matcher is trained; `hgr` is small, as the words and the features are."""
    plain = planted_recipe("length", run.seed, sizes)
    if run.matcher == "wti":
        return plain
    settings = {"size": 128, "word_size": 64, "mining": run.mining}
    return replace(plain, matcher=MatcherChoice("hgr", settings), adapter=None)


def of_corpus(runs: Sequence[Run]) -> Iterator[tuple[Run, Rows]]:
    """Some trainings of one matcher on one corpus: of one seed and strength."""
    material = material_of(runs[0])
    for run in runs:
        yield run, rows_of_run(run, material)


def material_of(run: Run) -> LearningInputs:
    """A planted corpus with the features that the matcher takes; all strengths have the test split of strength 0."""
    encoder, plan = load_encoder("builtin"), plan_corpus("length", run.strength, run.clips, run.seed)
    corpus = corpus_of(plan)
    parts = []
    for split in ("train", "test"):
        own = plan.split(split)
        texts, videos = text_features(own, encoder), video_features(own, encoder, RULE)
        texts, videos = (texts, videos) if run.matcher == "wti" else beside_motion(texts, videos, corpus)
        parts.append(part_of(select(corpus, split=split), texts, videos))
    return LearningInputs(test=parts[1].corpus, features=parts[1], train=parts[0], corpus=corpus)


def beside_motion(texts: TextFeatures, videos: VideoFeatures, corpus: Corpus) -> tuple[TextFeatures, VideoFeatures]:
    """Captions with role graphs, and each frame with its difference to the next one, of the last to the one before.

    Rows have unit length; a clip of one frame has no motion.
    """
    frames, mask = videos.frames.astype(np.float32), videos.frame_mask
    change = np.zeros_like(frames)
    change[:, :-1] = np.where(mask[:, 1:, None], frames[:, 1:] - frames[:, :-1], 0)
    rows, last = np.flatnonzero(mask.sum(1) > 1), mask.sum(1) - 1
    change[rows, last[rows]] = change[rows, last[rows] - 1]
    both = np.concatenate([frames, MOTION * change], axis=-1)
    both[mask] /= np.linalg.norm(both[mask], axis=-1, keepdims=True)
    return with_graphs(texts, corpus), replace(videos, frames=both.astype(np.float16))


def rows_of_run(run: Run, material: LearningInputs) -> Rows:
    """Train once, and measure the rows that come of it."""
    recipe = recipe_for(run)
    splits = splits_of(recipe, material)
    train, test = material.learning()
    left_out = train.corpus.clips.height - splits.learned.corpus.clips.height
    if run.method == RMV_ALL_VAL and not left_out:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        trained = train_recipe(recipe, learning_of(recipe, splits), Path(folder), RunHooks())
    rows = {run.method: trained} | {name: trained.members[place] for name, place in parts_of_method(run.method)}
    return {name: {LEFT_OUT: left_out, **figures_of(one, test)} for name, one in rows.items()}


def parts_of_method(method: str) -> Sequence[tuple[str, int]]:
    """Members of a training that are rows of their own, by their place."""
    return {ENSEMBLE: [(BASELINE, 0)], "adjusted 2": [(FIRST, 0), (SECOND, 1)]}.get(method, [])


def figures_of(trained: TrainedModel, test: CorpusPart) -> Figures:
    """What is found, and what it costs."""
    scores = test.scores(trained.matcher)
    return {
        **length_figures(scores, test.corpus, (*NDCG, *MAP_EPIC, *MAP)),
        **found_in(scores, test.corpus, [R1]),
        ENCODED: encodings(trained.spec).videos,
        COST: encoding_s(trained.matcher, test.videos),
    }


def tables_of(title: str, rows: AtStrengths) -> tuple[str, bool]:
    """All that is printed of a matcher, in Markdown, and whether every claim on it holds."""
    claims, holds = rows.claims(MAIN, [name for name in rows.free if name not in (BASELINE, FIRST, SECOND)])
    lines = [
        f"{title}, {len(rows.oracle)} seeds: {rows.gap_words(MAIN)}",
        at_strength(rows.biased, rows.strength, rows.oracle),
        at_strength(rows.free, FREE, None),
        "\n".join(claims),
    ]
    return "\n\n".join(lines), holds


SHOWN = ("mAP-EPIC AVG", MAIN, "nDCG AVG", R1)
COMPARED = SHOWN[:3]


def at_strength(rows: Seeds, strength: float, oracle: Sequence[Figures] | None) -> str:
    """A row for each method at a strength, beside the baseline and beside one of twice the steps."""
    longer = rows.get(LONGER)
    head = [f"at strength {strength}", *SHOWN, *(f"{name} less baseline" for name in COMPARED)]
    head += [] if longer is None else [f"{MAIN} less twice the steps"]
    head += ["gap closed, %"] * (oracle is not None) + [ENCODED, COST]
    lines = [["---"] * len(head)]
    if oracle is not None:
        cells = [ORACLE, *(f"{mean(oracle, name):.1f}" for name in SHOWN)]
        lines.append(cells + [""] * (len(head) - len(cells)))
    for name in (BASELINE, *(name for name in rows if name != BASELINE)):
        lines.append(line(name, rows, longer, oracle))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, *lines))


def line(
    name: str,
    here: Seeds,
    longer: Sequence[Figures] | None,
    oracle: Sequence[Figures] | None,
) -> list[str]:
    """A method's cells."""
    figures, baseline = here[name], here[BASELINE]
    plain = name == BASELINE
    cells = [name, *(f"{mean(figures, one):.1f}" for one in SHOWN)]
    cells += ["" if plain else words(difference(figures, baseline, one)) for one in COMPARED]
    if longer is not None:
        cells.append("" if name in (BASELINE, LONGER) else words(difference(figures, longer, MAIN)))
    if oracle is not None:
        cells.append("" if plain else closed(figures, baseline, oracle, MAIN))
    cost = median(one[COST] / of[COST] for one, of in zip(figures, baseline, strict=True))
    return [*cells, f"{mean(figures, ENCODED):.0f}", f"{cost:.2f}x"]


if __name__ == "__main__":
    raise SystemExit(main())
