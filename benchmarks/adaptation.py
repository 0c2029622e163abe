"""What online adaptation costs a query, and the memory that it takes, beside ranking without learning.

    python -m benchmarks.adaptation [--clips 1000] [--queries 512] [--dimension 512] [--matcher wti]

A stream of queries of 24 words meets a gallery of clips of 12 frames, random features behind an `mlp` adapter, in
batches of 128. Each row ranks every batch after learning from it, and once more by the source, for the report. Printed
are milliseconds of processor time a query, how many times those of ranking alone that is, and by how much the memory of
the process grew beyond what it had with the features loaded. The target stage of TITAN's bias correction trains as
`titan/online` has it, or for as many steps as a row says. The bank remembers all queries, as the default does. The time
that a text tower takes is not in these: counterfactual captions get random features, and are as many as the stream's
words make.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from evenreel.adaptation.adapted import Resources, TestTimeMatcher
from evenreel.adaptation.run import adapt
from evenreel.adaptation.stream import QueryStream, taken
from evenreel.adaptation.titan import AdaptSettings, CounterfactualSettings, load_settings, naive
from evenreel.adaptation.titan_correction import CausalCorrection
from evenreel.language import load_tagger
from evenreel.matchers import build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.types import TextFeatures, VideoFeatures

FRAMES, WORDS = 12, 24
CONFOUNDERS = 256
THINGS = ("dog", "ball", "street", "kitchen", "guitar", "horse", "boat", "tree")
RANKED = "ranking alone"
STEPS = {f"TITAN, {steps:,} steps of its target stage": steps for steps in (0, 20, 1000)}
ROWS = (RANKED, "pseudo-labels", "rematched", "counterfactual", "TITAN", "TITAN, captions' maps alone", *STEPS)


def main() -> None:
    """A line for each row, each in a process of its own, so that its memory is its own."""
    asked = arguments()
    if asked.row:
        print(*measure(asked))
        return
    print(
        f"{asked.queries} queries, {asked.clips:,} clips, D = {asked.dimension}, {asked.matcher}, {threads()} threads"
    )
    print(f"{'':40}{'ms a query':>12}{'times':>9}{'MiB':>9}")
    base = 0.0
    for row in ROWS:
        command = [sys.executable, "-m", "benchmarks.adaptation", *sys.argv[1:], "--row", row]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        ms, grown = map(float, done.stdout.split())
        base = base or ms
        print(f"{row:40}{ms:12.2f}{ms / base:9.1f}{grown:9.0f}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=1_000)
    parser.add_argument("--queries", type=int, default=512)
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--matcher", default="wti")
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)
    return parser.parse_args()


def threads() -> int:
    return int(torch.get_num_threads())


def measure(asked: argparse.Namespace) -> tuple[float, float]:
    """Milliseconds of processor time a query of a row, and MiB that memory grew by at its peak."""
    torch.manual_seed(0)
    inner = build_matcher(asked.matcher, asked.dimension)
    matcher = Adapted(inner, asked.dimension, AdapterSettings(kind="mlp")).eval()
    stream, settings = stream_of(asked), settings_of(asked.row)
    begun = peak_mib()
    model = TestTimeMatcher(matcher, stream.videos, settings, resources_of(asked))
    begun_s = time.process_time()
    if asked.row == RANKED:
        for batch in stream.batches(settings.batch_size):
            model.ranked_by_source(taken(stream.texts, batch))
    else:
        adapt(model, stream)
    return 1000 * (time.process_time() - begun_s) / asked.queries, peak_mib() - begun


def settings_of(row: str) -> AdaptSettings:
    paper = replace(load_settings("titan/online"), counterfactuals=CounterfactualSettings(beta=0.01))
    if row in STEPS:
        return replace(paper, causal_fit=replace(paper.causal_fit, steps=STEPS[row]))
    return {
        "pseudo-labels": naive(paper),
        "rematched": replace(paper, counterfactuals=None, causal=False),
        "counterfactual": replace(paper, causal=False),
        "TITAN, captions' maps alone": replace(paper, learns="text"),
    }.get(row, paper)


def resources_of(asked: argparse.Namespace) -> Resources:
    rng = np.random.default_rng(1)
    confounders = torch.from_numpy(unit(rng, CONFOUNDERS, asked.dimension))
    correction = CausalCorrection(asked.dimension, confounders)
    return Resources(
        lambda texts: captions(rng, len(texts), asked.dimension), load_tagger("pattern"), correction, confounders
    )


def stream_of(asked: argparse.Namespace) -> QueryStream:
    rng = np.random.default_rng(0)
    frames = unit(rng, asked.clips, FRAMES, asked.dimension).astype(np.float16)
    times_s = np.tile(np.arange(float(FRAMES)), (asked.clips, 1))
    ids = tuple(f"v{row}" for row in range(asked.clips))
    videos = VideoFeatures(ids, frames, np.ones(times_s.shape, np.bool_), times_s)
    sentences = tuple(f"a {rng.choice(THINGS)} by a {rng.choice(THINGS)}" for _ in range(asked.queries))
    return QueryStream(captions(rng, asked.queries, asked.dimension), sentences, videos)


def captions(rng: np.random.Generator, count: int, dimension: int) -> TextFeatures:
    words, mask = unit(rng, count, WORDS, dimension), np.ones((count, WORDS), np.bool_)
    return TextFeatures(tuple(f"q{row}" for row in range(count)), words, mask, unit(rng, count, dimension))


def unit(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    rows = rng.standard_normal(shape, np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
