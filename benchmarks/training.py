"""What does training by a recipe cost beside the arithmetic?

    python -m benchmarks.training [--steps 40] [--rounds 5] [--batch 128] [--towers-batch 16] [--threads 1]
                                  [--processor-time] [--json]

For features computed once (wti behind an adapter, 12 frames, 32 words, D 512) and for the built-in towers from pixels
and tokens (mean_pool, 4 frames), clips a second of `evenreel.training.loop.train`, with its batches, schedule,
clipping, records and progress, against a bare loop of a few lines over the same towers, matcher, loss and optimiser,
whose batches are plain indexing of tensors in memory. Both do the same steps in turns, and the best round of each
counts: on a machine that is doing other things, that is the one that was disturbed least (`--processor-time` counts
seconds of the processor, which such a machine changes less, instead of those of the wall). Videos are not decoded in
either. Exit status 1 if the overhead passes 10 %.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from evenreel.arrays import Indices
from evenreel.corpus import make_corpus
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.loading import locate
from evenreel.encoders.towers import Towers, load_towers
from evenreel.encoders.trainable import TokenIds, TrainableTowers, tokenise
from evenreel.matchers import PairBatch, TextBatch, VideoBatch, build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.training.batches import (
    Draw,
    FeatureExamples,
    Order,
    Pairs,
    PixelBatch,
    TokenBatch,
    TrainingExamples,
    TrainingInputs,
    pairs_of,
)
from evenreel.training.loop import RunHooks, train
from evenreel.training.module import parameter_groups, rate_share
from evenreel.training.recipe import Backbone, Data, Loop, MatcherChoice, Recipe, Records
from evenreel.types import TextFeatures, VideoFeatures

CLIPS, FRAMES, WORDS, DIMENSION = 512, 12, 32, 512
TOWER_FRAMES, SIDE = 4, 64
MOST_OVERHEAD = 0.10


@dataclass(frozen=True)
class Case:
    """One comparison: the recipe, what it learns from, and a batch of the bare loop by its rows."""

    name: str
    recipe: Recipe
    examples: TrainingExamples
    dimension: int
    towers: Towers | None
    batch: Callable[[Indices, TrainableTowers | None], PairBatch]


@dataclass(frozen=True, eq=False)
class PixelsInMemory:
    """Pixels and tokens that need no decoding; implements `TrainingExamples`."""

    pairs: Pairs
    tokens: TokenIds
    pixels: Tensor

    def texts(self, rows: Indices) -> TokenBatch:
        return TokenBatch(
            tuple(self.pairs.caption_ids[row] for row in rows), TokenIds(*(part[rows] for part in self.tokens))
        )

    def videos(self, rows: Indices, draw: Draw | None = None) -> PixelBatch:
        shape = (len(rows), self.pixels.shape[1])
        ids = tuple(self.pairs.clip_ids[row] for row in rows)
        return PixelBatch(ids, self.pixels[rows].flatten(0, 1), torch.ones(shape, dtype=torch.bool), torch.zeros(shape))


def pairs(clips: int) -> Pairs:
    names = [str(number) for number in range(clips)]
    captions = pl.DataFrame({"caption_id": names, "clip_id": names, "text": names})
    return pairs_of(make_corpus(pl.DataFrame({"clip_id": names}), captions), names, names)


def recipe(steps: int, batch: int, matcher: str, backbone: Backbone | None) -> Recipe:
    return Recipe(
        "benchmark",
        Data("none", features=None if backbone else "none"),
        MatcherChoice(matcher),
        backbone=backbone,
        adapter=None if backbone else AdapterSettings(),
        loop=Loop(batch_size=batch, epochs=None, steps=steps, device="cpu"),
        records=Records(tensorboard=False),
    )


def unit(random: np.random.Generator, *shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    rows = random.standard_normal(shape, np.float32)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def features_case(steps: int, batch: int) -> Case:
    """Wti behind an adapter on features, stored as they are in float16."""
    random = np.random.default_rng(0)
    names = tuple(str(number) for number in range(CLIPS))
    frames, words, sentence = (
        unit(random, *shape).astype(np.float16)
        for shape in ((CLIPS, FRAMES, DIMENSION), (CLIPS, WORDS, DIMENSION), (CLIPS, DIMENSION))
    )
    frame_mask, word_mask = np.ones((CLIPS, FRAMES), bool), np.ones((CLIPS, WORDS), bool)
    times_s = np.zeros((CLIPS, FRAMES))
    examples = FeatureExamples(
        pairs(CLIPS), TextFeatures(names, words, word_mask, sentence), VideoFeatures(names, frames, frame_mask, times_s)
    )
    held = [torch.from_numpy(one.astype(np.float32)) for one in (words, sentence, frames)]
    masks = [torch.from_numpy(one) for one in (word_mask, frame_mask)]

    def bare(rows: Indices, towers: TrainableTowers | None) -> PairBatch:
        text = TextBatch((), held[0][rows], masks[0][rows], held[1][rows])
        video = VideoBatch((), held[2][rows], masks[1][rows], torch.zeros(len(rows), FRAMES))
        return PairBatch(text, video, torch.eye(len(rows), dtype=torch.bool))

    return Case("features", recipe(steps, batch, "wti", None), examples, DIMENSION, None, bare)


def towers_case(steps: int, batch: int) -> Case:
    towers = load_towers(open_checkpoint(locate("builtin")[1]), torch.device("cpu"), "float32")
    pixels = torch.from_numpy(
        np.random.default_rng(1).integers(0, 256, (CLIPS, TOWER_FRAMES, 3, SIDE, SIDE), dtype=np.uint8)
    )
    tokens = tokenise(towers, ["a large red circle moves left over grass"] * CLIPS, 32)
    examples = PixelsInMemory(pairs(CLIPS), tokens, pixels)

    def bare(rows: Indices, learning: TrainableTowers | None) -> PairBatch:
        assert learning is not None
        words, sentence = learning.encode_text(TokenIds(tokens.ids[rows], tokens.mask[rows]))
        frames = learning.encode_frames(pixels[rows].flatten(0, 1)).unflatten(0, (len(rows), TOWER_FRAMES))
        shape = frames.shape[:2]
        video = VideoBatch((), frames, torch.ones(shape, dtype=torch.bool), torch.zeros(shape))
        return PairBatch(
            TextBatch((), words, tokens.mask[rows], sentence), video, torch.eye(len(rows), dtype=torch.bool)
        )

    chosen = recipe(steps, batch, "mean_pool", Backbone("builtin"))
    return Case("towers", chosen, examples, towers.dimension, towers, bare)


def seconds_of_train(case: Case, clock: Callable[[], float]) -> float:
    """Seconds from the end of the second step to that of the last, by `train`."""
    ends: list[float] = []
    towers = TrainableTowers(case.towers, train=True) if case.towers else None
    material = TrainingInputs(case.examples, case.dimension, towers=towers)
    with tempfile.TemporaryDirectory() as folder:
        train(case.recipe, material, Path(folder), RunHooks(watch=lambda *of_step: ends.append(clock())))
    # The last step also writes the checkpoint, whose cost is of the run and not of a step.
    return (ends[-2] - ends[1]) / (len(ends) - 3)


def seconds_of_loop(case: Case, clock: Callable[[], float]) -> float:
    matcher: Any = build_matcher(case.recipe.matcher.name, case.dimension)
    if case.recipe.adapter:
        matcher = Adapted(matcher, case.dimension, case.recipe.adapter)
    towers = TrainableTowers(case.towers, train=True).train() if case.towers else None
    learned = towers.model.named_parameters() if towers else ()
    settings, loop = case.recipe.optimiser, case.recipe.loop
    groups = parameter_groups(matcher.named_parameters(), learned, settings)
    parameters = [one for group in groups for one in group["params"]]
    peaks = [group["lr"] for group in groups]
    adam = torch.optim.AdamW(groups, betas=settings.betas, eps=settings.eps)
    order = Order(CLIPS, loop.batch_size, loop.seed)
    assert loop.steps is not None
    ends: list[float] = []
    for step in range(loop.steps):
        share = rate_share(case.recipe.schedule, step, loop.steps)
        for group, peak in zip(adam.param_groups, peaks, strict=True):
            group["lr"] = peak * share
        adam.zero_grad()
        sum(matcher.loss(case.batch(order.rows(step), towers)).values()).backward()
        torch.nn.utils.clip_grad_norm_(parameters, loop.gradient_clip)
        adam.step()
        with torch.no_grad():
            matcher.logit_scale.clamp_(max=math.log(100))
        ends.append(clock())
    return (ends[-2] - ends[1]) / (len(ends) - 3)


def compare(case: Case, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    ours, bare = [], []
    for _ in range(rounds):
        bare.append(seconds_of_loop(case, clock))
        ours.append(seconds_of_train(case, clock))
    batch = case.recipe.loop.batch_size
    return {
        "case": case.name,
        "batch": batch,
        "clips_per_s": batch / min(ours),
        "clips_per_s_bare": batch / min(bare),
        "overhead": min(ours) / min(bare) - 1.0,
        "ms_per_step": 1000 * min(ours),
        "ms_per_step_bare": 1000 * min(bare),
        "overheads_by_round": [one / other - 1.0 for one, other in zip(ours, bare, strict=True)],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128, help="clips of a batch of features")
    parser.add_argument("--towers-batch", type=int, default=16, help="clips of a batch of pixels")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.steps < 4:
        parser.error("--steps must be 4 or more: the first two and the last are not measured")
    torch.set_num_threads(options.threads)
    cases = [features_case(options.steps, options.batch), towers_case(options.steps, options.towers_batch)]
    clock = time.process_time if options.processor_time else time.perf_counter
    results = [compare(case, options.rounds, clock) for case in cases]
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        for one in results:
            print(
                f"{one['case']:9s} batch {one['batch']:4d}: {one['clips_per_s']:8.1f} clips/s, bare loop "
                f"{one['clips_per_s_bare']:8.1f} ({one['ms_per_step']:.1f} against {one['ms_per_step_bare']:.1f} ms a "
                f"step), overhead {one['overhead']:+.1%}"
            )
    return int(any(one["overhead"] > MOST_OVERHEAD for one in results))


if __name__ == "__main__":
    sys.exit(main())
