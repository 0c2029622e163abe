"""How often the audit `order` finds a ranking that does not see order, and how often it takes one that does for one.

    python -m benchmarks.order [--worlds 1000] [--pairs 300] [--out FILE]

A world is a gallery of clips and their twins of another order. Captions score a clip and its twin alike but for noise;
clips differ in how much all captions like them, each clip and each twin for itself, by as much as `--hubs` says, and
twins are liked less than clips by `--disliked` standard deviations. A ranking that sees order scores the order that a
caption tells higher, so much that the own order is preferred beyond the control in a given share of the pairs: 50 % is
blind, 60 % is the margin of the audit. Captions are of both orders (`twins`), of clips alone (`others`), or nobody has
said which clip each is of (`chosen`); in `videos` they are of both orders, and five pairs are cut from each video and
share what captions make of their order.

`blind` is the share of worlds in which the audit is sure that the ranking is less than 10 points from chance, `sees`
that in which its interval is above chance, `turned` below. `plain` is the share in which the interval of the plain
figure, how often captions of clips choose the clip, leaves 50 % out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.special import ndtri

from benchmarks.false_alarms import first_ten_skewness
from evenreel.audits import AuditSettings, measure_order
from evenreel.audits.order import TEXT_OF_CLIP
from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import ORDER_OF
from evenreel.types import Corpus, Scores

KINDS = ("twins", "others", "chosen", "videos")
HUBS = {0: 0.0, 1: 0.12, 2: 0.22, 5: 0.57}
"""How much clips differ in being liked, by about the skewness of how often they are among the first ten."""
SHARES = (50.0, 60.0, 75.0)
NOISE, HABIT, OWN = 0.3, 0.3, 4.0
"""Standard deviations, in those of the scores: of what a caption makes of one of two orders, of how much a caption
prefers clips to twins at all; and how much higher a caption scores its own scene."""


class World(NamedTuple):
    """A gallery of so many pairs; `spread` is how much clips differ in being liked, `share` how much order is seen."""

    kind: str
    pairs: int
    spread: float
    share: float
    disliked: float
    seed: int


def corpus_of(world: World) -> tuple[Corpus, list[str], list[str]]:
    """Clips and twins, and the captions that the kind of world has; ids of captions and of clips."""
    ids = [f"v{one}" for one in range(world.pairs)]
    twins = [f"{one}_reverse" for one in ids]
    videos = [f"{one // 5}" for one in range(world.pairs)] if world.kind == "videos" else ids
    clips = {"clip_id": ids + twins, ORDER_OF: [None] * world.pairs + ids, "video_id": videos * 2}
    of = ids + twins if world.kind in ("twins", "videos") else ids
    captions = [f"c{one}" for one in range(len(of))]
    table = pl.DataFrame({"caption_id": captions, "clip_id": of, "text": ["a door opens"] * len(of)})
    return make_corpus(pl.DataFrame(clips), table.clear() if world.kind == "chosen" else table), captions, ids + twins


def values_of(world: World, captions: int) -> Any:
    """(Q, 2n) scores of the captions with the clips, then with their twins."""
    random, pairs = np.random.default_rng(world.seed), world.pairs
    scene = np.arange(captions) % pairs
    shared = random.normal(size=(captions, pairs))
    shared[np.arange(captions), scene] += OWN
    values = np.hstack([shared, shared]) + NOISE * random.normal(size=(captions, 2 * pairs))
    values += world.spread * (random.normal(size=pairs)[np.arange(2 * pairs) % pairs] + random.normal(size=2 * pairs))
    habit = HABIT * random.normal(size=captions)
    if world.kind == "videos":  # captions of the clips of one video, and of one order, have one habit
        habit = HABIT * random.normal(size=2 * pairs)[5 * (scene // 5) + (np.arange(captions) >= pairs)]
    values[:, :pairs] += habit[:, None] + world.disliked
    sees = ndtri(world.share / 100) * (4 * NOISE**2 + 2 * HABIT**2) ** 0.5
    rows, both = np.arange(captions), captions > pairs
    values[rows, rows if both else scene] += sees / (2 if both else 1)
    return values


@dataclass
class Told:
    """What the audit said of so many worlds of one cell."""

    worlds: int
    skewness: float
    said: Counter[str]

    def percent(self, what: str) -> float:
        return 100 * self.said[what] / self.worlds


def cell(kind: str, pairs: int, hubs: int, share: float, disliked: float, worlds: int) -> Told:
    said: Counter[str] = Counter()
    uneven = []
    for seed in range(worlds):
        world = World(kind, pairs, HUBS[hubs], share, disliked, seed + 100_000 * hubs)
        corpus, captions, clips = corpus_of(world)
        values = values_of(world, len(captions))
        if seed < 5:
            uneven.append(first_ten_skewness(values))
        found = measure_order(Scores(values.astype(np.float32), captions, clips), corpus, AuditSettings())
        effect, plain = found.effect, found.shares[TEXT_OF_CLIP]
        said["blind"] += found.is_within
        said["sees"] += effect.is_significant and effect.value > effect.neutral
        said["turned"] += effect.is_significant and effect.value < effect.neutral
        assert plain.low is not None and plain.high is not None
        said["plain"] += not plain.low <= effect.neutral <= plain.high
    return Told(worlds, float(np.mean(uneven)), said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--hubs", nargs="+", type=int, choices=HUBS, default=[*HUBS])
    parser.add_argument("--shares", nargs="+", type=float, default=[*SHARES])
    parser.add_argument("--disliked", type=float, default=0.2)
    parser.add_argument("--out", type=Path, help="file of rows, to go on with")
    asked = parser.parse_args()
    lines = asked.out.read_text().splitlines() if asked.out and asked.out.exists() else []
    done = {tuple(row["cell"]): row for row in map(json.loads, lines)}
    print("captions  seen, %  skewness  blind, %  sees, %  turned, %  plain, %")
    for kind in asked.kinds:
        for share in asked.shares:
            for hubs in asked.hubs:
                key = (kind, asked.pairs, hubs, share, asked.disliked, asked.worlds)
                if key not in done:
                    told = cell(*key)
                    done[key] = {"cell": key, "skewness": told.skewness} | {
                        what: told.percent(what) for what in ("blind", "sees", "turned", "plain")
                    }
                    if asked.out:
                        with asked.out.open("a") as file:
                            file.write(json.dumps(done[key]) + "\n")
                row = done[key]
                figures = (row[what] for what in ("blind", "sees", "turned", "plain"))
                print(f"{kind:<8} {share:>8.0f} {row['skewness']:>9.1f}", *(f"{one:>9.1f}" for one in figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
