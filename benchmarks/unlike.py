"""How many kinds of clips do a folder's highlights show, against clips drawn by chance and spread evenly?

    python -m benchmarks.unlike [--worlds 20] [--seed 1]

A world is a folder of rendered clips: 4 common scenes of 25 takes each (other chances, length and motion of the same
thing at the same place) and 8 scenes that are there once. Each clip is 3 pictures of the built-in encoder. Printed is
the share of the 12 kinds, and of the 8 rare ones, that 12 clips show: those of evenreel, those that lie evenly in the
order of their names (as they were recorded: takes one after the other, the rare ones anywhere), and random ones; with
intervals of 95 % by bootstrap over worlds.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.over_seeds import markdown
from evenreel.encoders import load_encoder
from evenreel.library.search.alike import farthest_first
from evenreel.planted import Renderer, Scene, SceneRanges, sample_scene
from evenreel.planted.vocabulary import activities
from evenreel.types import Encoder, FloatArray

COMMON, TAKES, RARE, SHOWN = 4, 25, 8, 12
PICTURES = (0.15, 0.5, 0.85)
DRAWS, RESAMPLES = 200, 2_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    encoder = load_encoder("builtin")
    found = np.array([shown_kinds(encoder, np.random.default_rng([asked.seed, n])) for n in range(asked.worlds)])
    rng = np.random.default_rng(0)
    drawn = found[rng.integers(len(found), size=(RESAMPLES, len(found)))].mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    rows = [
        [name, *(f"{found.mean(axis=0)[at, of]:.1%} [{low[at, of]:.1%}, {high[at, of]:.1%}]" for of in (0, 1))]
        for at, name in enumerate(("highlights", "evenly spread", "random"))
    ]
    print(markdown("| 12 clips | of the 12 kinds | of the 8 rare ones |", rows))
    return 0


def shown_kinds(encoder: Encoder, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Shares of all kinds and of rare ones that each of the three ways shows in one world."""
    scenes = [sample_scene(rng, SceneRanges(width=160, height=120)) for _ in range(COMMON + RARE)]
    taken = [(kind, _take(scenes[kind], rng)) for kind in range(COMMON) for _ in range(TAKES)]
    for kind in range(COMMON, COMMON + RARE):
        taken.insert(int(rng.integers(len(taken) + 1)), (kind, scenes[kind]))
    kinds = np.array([kind for kind, _ in taken])
    vectors = np.stack([_mean(encoder, scene) for _, scene in taken])
    chosen, _ = farthest_first(vectors, SHOWN)
    even = np.linspace(0, len(kinds) - 1, SHOWN).astype(np.int64)
    random = [_shares(kinds[rng.choice(len(kinds), SHOWN, replace=False)]) for _ in range(DRAWS)]
    by_chance = np.mean(random, axis=0)
    return [_shares(kinds[chosen]), _shares(kinds[even]), (float(by_chance[0]), float(by_chance[1]))]


def _take(scene: Scene, rng: np.random.Generator) -> Scene:
    activity = str(rng.choice(list(activities())))
    return replace(scene, seed=int(rng.integers(2**31)), duration_s=float(rng.uniform(3.0, 6.0)), activity=activity)


def _mean(encoder: Encoder, scene: Scene) -> FloatArray:
    renderer = Renderer(scene)
    pictures = np.stack([renderer.frame(share * scene.duration_s) for share in PICTURES])
    mean = encoder.encode_windows(pictures.transpose(0, 3, 1, 2)[:, None]).mean(axis=0)
    unit: FloatArray = mean / np.linalg.norm(mean)
    return unit


def _shares(kinds: NDArray[np.int64]) -> tuple[float, float]:
    there = np.unique(kinds)
    return len(there) / (COMMON + RARE), int((there >= COMMON).sum()) / RARE


if __name__ == "__main__":
    sys.exit(main())
