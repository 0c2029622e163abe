"""Does each planted bias make a model worse, and only where it is planted?

    python benchmarks/planted.py [--biases visual length] [--seeds 5] [--clips 1500] [--steps 500] [--out FILE]

For every bias and seed, the wti matcher behind a small adapter is trained on features of the built-in encoder: the
baseline at strength 0.9, the oracle at strength 0 on as many clips, both tested on the same clips. For `length`,
where what happens has to be learnt from the order of the frames by a transformer of two layers that starts from
nothing, both have twice as many clips, three times the steps and three times the learning rate. For `scene_text` the
baseline has the frames and the oracle the words on the signs too. The figure is R@1 in percent: the share of captions
whose first clip shows everything that the caption names; for `source` it is the real clip of a real clip's caption,
in a gallery that holds its generated mirror as well. The gap is oracle less baseline, with its 95 % interval over the
seeds (Student's t). The last column is the gap where nothing is planted: two trainings at strength 0 that begin from
other random numbers, or, for `scene_text`, without and with the words. Six such intervals of 95 % would miss a true
zero in one run of four, so this column has the confidence that all of them together hold with 95 % (Bonferroni). Exit
status 1 if an interval of the gap does not exclude zero, or that at strength 0 does. With --out the figures of each
bias and seed are written down as they come, and a run that was broken off goes on: those that are there, by the same
sizes, are not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from benchmarks.over_seeds import Gap, gap_of
from evenreel.config import usable_cores
from evenreel.corpus import own_clip, select
from evenreel.encoders import load_encoder
from evenreel.errors import UsageError
from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import encode_videos, matcher_scores
from evenreel.planted import (
    BIASES,
    BiasName,
    PlantedClip,
    PlantedCorpus,
    corpus_of,
    plan_corpus,
    text_features,
    video_features,
)
from evenreel.training.data.examples import FeatureExamples, TrainingInputs
from evenreel.training.data.pairs import pairs_of
from evenreel.training.loop.run import train
from evenreel.training.recipe.recipe import Recipe
from evenreel.training.recipe.sections import Data, Loop, MatcherChoice, Optimiser, Records
from evenreel.types import Corpus, Encoder, ScoreBlocks, Scores, TextFeatures, VideoFeatures

STRENGTH = 0.9
RULES = {"length": "every 0.5 s"}
"""How frames are sampled; a fixed rate where the length of a clip matters, else `RULE`."""
RULE = "6 midpoints"
LEARNING_RATE = 1e-3
FROM_NOTHING = "length"
"""The bias that needs a transformer over the frames; the others do with what single frames show."""
Run = tuple[BiasName, int]
"""A bias and a seed."""
Figures = tuple[float, float, float, float]
"""Baseline and oracle; the two that are compared where nothing is planted."""
BATCH = 64
"""Captions in a step of training."""
OTHER_START = 1_000
"""Added to the seed of the training that a training at strength 0 is compared with."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    clips: int
    steps: int


class Split(NamedTuple):
    """A part of a planted corpus with its features."""

    corpus: Corpus
    texts: TextFeatures
    videos: VideoFeatures


@dataclass(frozen=True)
class Row:
    """One bias."""

    bias: str
    baseline: float
    oracle: float
    gap: Gap
    gap_without: Gap
    figures: tuple[Figures, ...]

    @property
    def missed(self) -> bool:
        """Whether the bias does no harm, or harm is seen where none was planted."""
        return self.gap.low <= 0 or not self.gap_without.low <= 0 <= self.gap_without.high


def main() -> int:
    """A row for each bias; 1 if one of them misses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--biases", nargs="+", default=list(BIASES), choices=list(BIASES))
    parser.add_argument("--seeds", type=int, default=5, help="at least 2")
    parser.add_argument("--clips", type=int, default=1_500, help="of all splits together; twice as many for length")
    parser.add_argument("--steps", type=int, default=500, help="of training; three times as many for length")
    parser.add_argument("--processes", type=int, default=usable_cores(), help="seeds measured at a time")
    parser.add_argument("--out", type=Path, help="file for the figures, a line of JSON for each bias and seed")
    asked = parser.parse_args()
    if problem := problem_of(asked):
        parser.error(problem)
    sizes = Sizes(asked.clips, asked.steps)
    figures = known_figures(asked.out, sizes) if asked.out else {}
    runs = [(bias, seed) for bias in asked.biases for seed in range(asked.seeds)]
    for run, found in measured([run for run in runs if run not in figures], sizes, asked.processes):
        figures[run] = found
        if asked.out:
            note(asked.out, sizes, run, found)
    rows = [row_of(bias, [figures[bias, seed] for seed in range(asked.seeds)]) for bias in asked.biases]
    print(table(rows))
    return int(any(row.missed for row in rows))


def problem_of(asked: argparse.Namespace) -> str | None:
    """What is wrong with the arguments, in a sentence."""
    if asked.seeds < 2:
        return f"an interval needs at least 2 seeds; --seeds was {asked.seeds}"
    if min(asked.steps, asked.processes) < 1:
        return f"--steps and --processes are at least 1; they were {asked.steps} and {asked.processes}"
    for bias in asked.biases:
        try:
            train = plan_corpus(bias, STRENGTH, asked.clips).split("train")
        except UsageError as error:
            return str(error)
        if (captions := sum(len(clip.caption_ids) for clip in train)) < BATCH:
            return f"--clips {asked.clips} leaves {captions} captions to train, fewer than a step takes ({BATCH})"
    return None


def known_figures(path: Path, sizes: Sizes) -> dict[Run, Figures]:
    """What was measured before, by the same sizes."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return {(one["bias"], one["seed"]): tuple(one["figures"]) for one in lines if one["sizes"] == asdict(sizes)}


def note(path: Path, sizes: Sizes, run: Run, figures: Figures) -> None:
    """Add a line."""
    line = {"bias": run[0], "seed": run[1], "sizes": asdict(sizes), "figures": figures}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def measured(runs: Sequence[Run], sizes: Sizes, processes: int) -> Iterator[tuple[Run, Figures]]:
    """The figures of every bias and seed as they come, on one thread each."""
    with ProcessPoolExecutor(processes, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        jobs = {pool.submit(figures_of, run, sizes): run for run in runs}
        for job in as_completed(jobs):
            bias, seed = jobs[job]
            figures, took_s = job.result()
            shown = "  ".join(f"{figure:5.1f}" for figure in figures)
            print(f"{bias} seed {seed}: {shown}  ({took_s:.0f} s)", file=sys.stderr, flush=True)
            yield (bias, seed), figures


def figures_of(run: Run, sizes: Sizes) -> tuple[Figures, float]:
    """Baseline and oracle, then the two at strength 0; and the seconds they took."""
    (bias, seed), begun_s = run, time.perf_counter()
    sizes = Sizes(2 * sizes.clips, 3 * sizes.steps) if bias == FROM_NOTHING else sizes
    compare = words_against_frames if bias == "scene_text" else biased_against_unbiased
    return compare(bias, seed, sizes), time.perf_counter() - begun_s


def row_of(bias: str, figures: Sequence[Figures]) -> Row:
    """The figures of the seeds as one row."""
    baseline, oracle, without, other = np.array(figures).T
    gap, gap_without = gap_of(oracle - baseline), gap_of(other - without, 1 - 0.05 / len(BIASES))
    return Row(bias, baseline.mean(), oracle.mean(), gap, gap_without, tuple(figures))


def biased_against_unbiased(bias: BiasName, seed: int, sizes: Sizes) -> Figures:
    """Baseline, oracle; then another training at strength 0, and the oracle again."""
    encoder = load_encoder("builtin")
    planted, free = (plan_corpus(bias, strength, sizes.clips, seed) for strength in (STRENGTH, 0.0))
    test = split_of(free, "test", encoder)
    unbiased = split_of(free, "train", encoder)
    baseline = figure(trained(recipe(bias, seed, sizes), split_of(planted, "train", encoder)), test, bias)
    oracle = figure(trained(recipe(bias, seed, sizes), unbiased), test, bias)
    other = figure(trained(recipe(bias, seed + OTHER_START, sizes), unbiased), test, bias)
    return baseline, oracle, other, oracle


def words_against_frames(bias: BiasName, seed: int, sizes: Sizes) -> Figures:
    """Frames alone, frames and words; both again at strength 0, where no caption names a word."""
    encoder, found = load_encoder("builtin"), []
    for strength in (STRENGTH, 0.0):
        plan = plan_corpus(bias, strength, sizes.clips, seed)
        learnt, test = split_of(plan, "train", encoder), split_of(plan, "test", encoder)
        for windows in (False, True):
            found.append(figure(trained(recipe(bias, seed, sizes, windows), learnt), test, bias))
    return found[0], found[1], found[2], found[3]


def split_of(plan: PlantedCorpus, split: str, encoder: Encoder) -> Split:
    """Tables and features of a split."""
    clips: Sequence[PlantedClip] = [clip for clip in plan.clips if clip.split == split]
    videos = video_features(clips, encoder, RULES.get(plan.bias, RULE))
    return Split(select(corpus_of(plan), split=split), text_features(clips, encoder), videos)


def recipe(bias: BiasName, seed: int, sizes: Sizes, windows: bool = False) -> Recipe:
    """The same for all biases, but that lengths and movements need frames that see each other."""
    from_nothing = bias == FROM_NOTHING
    settings = {"temporal_layers": 2 if from_nothing else 0, "temperature": 0.03}
    return Recipe(
        name=f"planted-{bias}",
        data=Data(corpus="planted", features="planted", validation=None),
        matcher=MatcherChoice("wti", settings),
        adapter=AdapterSettings(kind="mlp", windows=windows),
        optimiser=Optimiser(lr=(3 if from_nothing else 1) * LEARNING_RATE, weight_decay=0.05),
        loop=Loop(batch_size=BATCH, epochs=None, steps=sizes.steps, seed=seed, device="cpu"),
        records=Records(every_steps=sizes.steps, tensorboard=False),
    )


def trained(asked: Recipe, split: Split, weights_hash: str | None = None) -> Matcher:
    """A matcher after its last step; `weights_hash` is of the encoder, for matchers with vectors of it."""
    pairs = pairs_of(split.corpus, split.texts.ids, split.videos.ids)
    examples = FeatureExamples(pairs, split.texts, split.videos)
    material = TrainingInputs(examples, split.videos.frames.shape[-1], weights_hash=weights_hash)
    with tempfile.TemporaryDirectory() as folder:
        return train(asked, material, Path(folder)).matcher


def found_in(scores: ScoreBlocks, corpus: Corpus, metrics: Sequence[str] = ("R@1", "mAP")) -> dict[str, float]:
    """Metrics in percent, text to video, where all that a caption names has to be shown."""
    captions, videos = list(scores.caption_ids), list(scores.video_ids)
    values = scores.block(slice(0, len(captions)), slice(0, len(videos)))
    settings = EvaluationSettings(parse_metrics(list(metrics)), ("t2v",), resamples=0)
    relevance = showing(corpus, captions, videos)
    found = evaluate(Scores(values, captions, videos), corpus, settings, relevance=relevance)
    return {name: found.directions["t2v"].summary[name].value for name in metrics}


def encoding_s(matcher: Matcher, videos: VideoFeatures) -> float:
    """Seconds of processor time to encode all clips, the least of three times."""
    taken = []
    for _ in range(3):
        begun_s = time.process_time()
        encode_videos(matcher, videos)
        taken.append(time.process_time() - begun_s)
    return min(taken)


def figure(matcher: Matcher, test: Split, bias: BiasName) -> float:
    """R@1 in percent, see the top of this file."""
    held = matcher_scores(matcher, test.texts, test.videos)
    if bias != "source":
        return found_in(held, test.corpus, ["R@1"])["R@1"]
    everything = slice(0, len(held.caption_ids)), slice(0, len(held.video_ids))
    values, captions, videos = held.block(*everything), list(held.caption_ids), list(held.video_ids)
    real = [row for row, name in enumerate(captions) if "_generator" not in name]
    values, captions = values[real], [captions[row] for row in real]
    relevance = own_clip(test.corpus, captions, videos).block(slice(0, len(captions)), everything[1])
    settings = EvaluationSettings(metrics=parse_metrics(["R@1"]), directions=("t2v",), resamples=0, partial=True)
    found = evaluate(Scores(values, captions, videos), test.corpus, settings, relevance=relevance)
    return found.directions["t2v"].summary["R@1"].value


def showing(corpus: Corpus, captions: Sequence[str], videos: Sequence[str]) -> NDArray[np.float64]:
    """(Q, V) 1 where a clip shows all that the caption names: its classes contain the caption's, else 0."""
    named, shown = classes_of(corpus.captions, "caption_id"), classes_of(corpus.clips, "clip_id")
    return np.array([[float(named[caption] <= shown[video]) for video in videos] for caption in captions])


def classes_of(table: pl.DataFrame, id_column: str) -> dict[str, frozenset[int]]:
    """The verb and noun classes of each row; no number is both."""
    rows = table.select(id_column, pl.concat_list("verb_classes", "noun_classes")).iter_rows()
    return {name: frozenset(classes) for name, classes in rows}


def table(rows: Sequence[Row]) -> str:
    """The rows for people."""
    lines = [f"{'bias':12}{'baseline':>10}{'oracle':>10}   {'gap':24}gap with nothing planted"]
    for row in rows:
        with_bias, without = (f"{g.mean:5.1f} [{g.low:5.1f}, {g.high:5.1f}]" for g in (row.gap, row.gap_without))
        flag = "  MISSED" if row.missed else ""
        lines.append(f"{row.bias:12}{row.baseline:10.1f}{row.oracle:10.1f}   {with_bias:24}{without}{flag}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
