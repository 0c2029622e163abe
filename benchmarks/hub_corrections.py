"""What each correction of hubs brings, and costs where there are none: R@1 before and after, on planted hubs.

    python -m benchmarks.hub_corrections [--clips 300] [--worlds 20] [--hubs 0 0.04 0.08 0.4] [--bank same]

A world is a gallery of clips and a caption each, as unit vectors whose cosines are the scores; captions and clips of
other pairs are the banks. Every clip also lies towards the middle of all captions by a part of its own, normally
distributed with the deviation that `--hubs` says: clips that lie further towards it are hubs, those of the bank too.
Where videos search, clips and captions change their places, so that the hubs are captions.
With `--bank other` the bank's pairs are of other subjects than the test's. A figure is the mean over the worlds with
its interval (Student's t over worlds); gains are paired, corrected less plain in the same world.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.false_alarms import first_ten_skewness
from evenreel.evaluation.intervals import over_seeds
from evenreel.evaluation.metrics import Direction, RescoringSettings
from evenreel.evaluation.rescoring import RESCORINGS, rescore
from evenreel.types import Scores

Matrix = NDArray[Any]

DIMENSION = 64
SUBJECTS = 40
NOISE = 1.6
"""Captions and clips differ by this much a number from what they have in common: R@1 is about 60 without hubs."""
BANK = 3
"""Pairs of the bank for each clip of the gallery."""
METHODS = [*RESCORINGS, "qb-norm,scale=100", "sinkhorn-bank,temperature=0.05", "dbsn,temperature=0.05"]


@dataclass(frozen=True)
class World:
    """Cosines of a test and its banks: `test` (Q, V), `bank` (N, V), `videos` (Q, W), `pairs` (N, W)."""

    test: Matrix
    bank: Matrix
    videos: Matrix
    pairs: Matrix

    def turned(self) -> World:
        return World(self.test.T, self.videos.T, self.bank.T, self.pairs.T)


def made(clips: int, hubs: float, other: bool, seed: int) -> World:
    random = np.random.default_rng(seed)
    middle = random.normal(size=DIMENSION)
    middle /= np.linalg.norm(middle)
    subjects = random.normal(size=(2, SUBJECTS, DIMENSION))

    def pairs(count: int, kind: int) -> tuple[Matrix, Matrix]:
        own = subjects[kind][random.integers(0, SUBJECTS, count)] + random.normal(size=(count, DIMENSION))
        captions, videos = (own + NOISE * random.normal(size=own.shape) for _ in range(2))
        captions = unit(captions) + middle
        videos = unit(videos - (videos @ middle)[:, None] * middle) + hubs * random.normal(size=(count, 1)) * middle
        return unit(captions), unit(videos)

    (captions, videos), (others, own) = pairs(clips, 0), pairs(BANK * clips, int(other))
    return World(captions @ videos.T, others @ videos.T, captions @ own.T, others @ own.T)


def unit(vectors: Matrix) -> Matrix:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def recall(values: Matrix) -> float:
    """R@1 in percent; equal scores share their places."""
    own = np.diag(values)[:, None]
    above, equal = (values > own).sum(axis=1), (values == own).sum(axis=1)
    return float(100 * np.where(above == 0, 1 / equal, 0.0).mean())


def corrected(word: str, world: World, direction: Direction, settings: RescoringSettings) -> Matrix:
    """Scores of a world after a correction, queries as rows."""
    method = RESCORINGS[word]
    bank = (world.bank if direction == "t2v" else world.videos) if method.needs_bank else None
    pairs = world.pairs if method.needs_pairs else None
    rows, columns = world.test.shape
    scores = Scores(world.test, [f"c{row}" for row in range(rows)], [f"v{column}" for column in range(columns)])
    found = rescore(word, scores, direction, bank, pairs, settings).values
    return found if direction == "t2v" else found.T


def tuned(words: str) -> tuple[str, RescoringSettings]:
    """`dbsn,temperature=0.05` -> the correction and its settings."""
    word, *given = words.split(",")
    values = {name: float(value) for name, _, value in (one.partition("=") for one in given)}
    whole = {name: int(value) if value >= 1 and value.is_integer() else value for name, value in values.items()}
    return word, RescoringSettings(**whole)  # type: ignore[arg-type]


def interval(values: list[float]) -> str:
    """Mean and 95 % interval over worlds."""
    found = over_seeds(values, 0.95)
    return f"{found.value:+.1f} ({found.low:+.1f} to {found.high:+.1f})"


def show(asked: argparse.Namespace, direction: Direction) -> None:
    """A line a correction, a column a strength of hubs."""
    plain = {hubs: [made(asked.clips, hubs, asked.bank == "other", seed) for seed in range(asked.worlds)]
             for hubs in asked.hubs}  # fmt: skip
    worlds = {hubs: [world if direction == "t2v" else world.turned() for world in own] for hubs, own in plain.items()}
    before = {hubs: [recall(world.test) for world in own] for hubs, own in plain.items()}
    uneven = {hubs: np.mean([first_ten_skewness(world.test) for world in own]) for hubs, own in plain.items()}
    print(f"\n{direction}, {asked.clips} clips, {asked.worlds} worlds, a bank of {asked.bank} subjects")
    print("| | " + " | ".join(f"hubs {hubs:g}, skewness {uneven[hubs]:.1f}" for hubs in asked.hubs) + " |")
    print("|---|" + "---|" * len(asked.hubs))
    print("| R@1 before | " + " | ".join(f"{np.mean(one):.1f}" for one in before.values()) + " |")
    for words in asked.methods:
        (word, settings), gains = tuned(words), []
        for hubs in asked.hubs:
            after = [recall(corrected(word, world, direction, settings)) for world in worlds[hubs]]
            gains.append(interval([new - old for new, old in zip(after, before[hubs], strict=True)]))
        print(f"| `{words}` | " + " | ".join(gains) + " |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=300)
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--hubs", type=float, nargs="+", default=[0.0, 0.04, 0.08, 0.4], metavar="SPREAD")
    parser.add_argument("--bank", choices=["same", "other"], default="same")
    parser.add_argument("--methods", nargs="+", default=METHODS, metavar="NAME[,SETTING=VALUE]")
    parser.add_argument("--directions", nargs="+", choices=["t2v", "v2t"], default=["t2v", "v2t"])
    asked = parser.parse_args()
    for direction in asked.directions:
        show(asked, direction)
    return 0


if __name__ == "__main__":
    sys.exit(main())
