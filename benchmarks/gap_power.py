"""How large a gap between groups has to be for `evenreel evaluate --by` to find it nine times of ten.

    python -m benchmarks.gap_power [--worlds 200] [--captions 300] [--groups 2 3] [--hubs 0 1 4] [--gaps 0 4 8 ... 28]

A world is that of `benchmarks.false_alarms` with one caption a clip: a gallery in which some clips are liked by all
captions, by as much as `--hubs` says. Captions score their own clip so much more that R@1 is 45 %, and those of one
group so much less that R@1 of that group is lower by the gap that is planted. Groups are of equal size, `--captions` of
them in all or in each. A gap is found where its interval leaves 0 out; at 0 points that is the level. Beside each table
stands what a test needs that is told which group to compare with all others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from benchmarks.false_alarms import World, hub_skewness, ids
from evenreel.corpus import make_corpus
from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.types import Corpus, Scores

RESAMPLES = 199
METRICS = parse_metrics(["R@1", "R@10", "MRR", "MeanR"])
USUAL = 0.45
"""R@1 where nothing is planted."""

POWER = 90.0
TRIED = 20
"""Worlds from which margins are taken that say how much less a caption has to score for a gap."""


@dataclass(frozen=True)
class Cell:
    """Worlds of so many clips with a caption each, in groups; `hubs` is how much clips differ in being liked."""

    clips: int
    groups: int
    hubs: float

    @property
    def first(self) -> int:
        """The seed of the first world; those of two cells are others, so that no luck is shared."""
        return 1_000_000 * (10 * self.clips + self.groups) + 10_000 * round(10 * self.hubs)

    def values(self, seed: int) -> NDArray[np.float64]:
        """Scores (clips, clips) of captions that do not know their clip."""
        world = World(self.clips, 1, self.hubs, seed)
        return np.asarray(world.values(np.random.default_rng(seed), self.clips), dtype=np.float64)

    def shifts(self, points: Sequence[float]) -> tuple[float, list[float]]:
        """What captions score their clip more for R@1 of 45 %, and then less for it to be lower by so many points."""
        margins = np.concatenate([_margins(self.values(self.first - seed)) for seed in range(1, 1 + TRIED)])
        usual, *lower = np.quantile(margins, [1 - USUAL, *(1 - USUAL + one / 100 for one in points)])
        return -float(usual), [float(one - usual) for one in lower]

    def worlds(self, seed: int, more: float, less: Sequence[float]) -> Iterator[tuple[Corpus, Scores]]:
        """A world once for each strength: its first group scores its clips so much less."""
        values = self.values(seed)
        group = np.random.default_rng([seed, 1]).permutation(np.arange(self.clips) % self.groups)
        clips, captions = ids("r", self.clips), ids("c", self.clips)
        corpus = make_corpus(
            pl.DataFrame({"clip_id": clips, "genre": [f"g{one}" for one in group]}),
            pl.DataFrame({"caption_id": captions, "clip_id": clips, "text": ids("ball ", self.clips)}),
        )
        own = np.diag(values) + more
        for one in less:
            np.fill_diagonal(values, own - one * (group == 0))
            yield corpus, Scores(values.astype(np.float32), captions, clips)


def _margins(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much the own clip is ahead of the best other one."""
    own = np.diag(values).copy()
    others = values.copy()
    np.fill_diagonal(others, -np.inf)
    return np.asarray(own - others.max(axis=1))


@dataclass(frozen=True)
class Found:
    """In how many percent of worlds the gap of each metric is found, and how far the group really is behind."""

    power: NDArray[np.float64]
    behind: NDArray[np.float64]


def found(cell: Cell, more: float, less: Sequence[float], worlds: int) -> list[Found]:
    """Look for the gap of each metric in so many worlds, for each strength."""
    told, behind = np.zeros((2, len(less), len(METRICS)))
    for seed in range(cell.first, cell.first + worlds):
        settings = EvaluationSettings(
            METRICS, directions=("t2v",), resamples=RESAMPLES, seed=seed, by=("genre",), threads=1
        )
        for row, (corpus, scores) in enumerate(cell.worlds(seed, more, less)):
            figures = evaluate(scores, corpus, settings).directions["t2v"].by["genre"]
            groups = {one.name: one.summary for one in figures.groups}
            for place, metric in enumerate(METRICS):
                low = figures.gaps[str(metric)].gap.low
                told[row, place] += low is not None and low > 0
                others = np.mean([one[str(metric)].value for name, one in groups.items() if name != "g0"])
                ahead = others - groups["g0"][str(metric)].value
                behind[row, place] += ahead if metric.higher_is_better else -ahead
    return [Found(100 * one / worlds, two / worlds) for one, two in zip(told, behind, strict=True)]


def enough(points: Sequence[float], power: Sequence[float]) -> float | None:
    """The points at which the power first reaches 90 %, on straight lines between those that were tried.

    >>> enough([0, 10, 20], [5, 80, 100])
    15.0
    """
    for place in range(1, len(points)):
        low, high = power[place - 1], power[place]
        if low < POWER <= high:
            share = (POWER - low) / (high - low)
            return float(points[place - 1] + share * (points[place] - points[place - 1]))
    return None


def least(cell: Cell) -> float:
    """Points of R@1 at which a test of two shares speaks nine times of ten, told which group to compare with all."""
    first, others = cell.clips / cell.groups, cell.clips - cell.clips / cell.groups
    z = norm.ppf(0.975) + norm.ppf(POWER / 100)

    def missing(gap: float) -> float:
        spread = USUAL * (1 - USUAL) / others + (USUAL - gap) * (1 - USUAL + gap) / first
        return float(gap - z * spread**0.5)

    return 100 * float(brentq(missing, 0, USUAL))


def show(cell: Cell, points: Sequence[float], worlds: int) -> None:
    """A line a planted gap: the power of each metric, and how far the group is behind in its own unit."""
    more, less = cell.shifts(points)
    rows = found(cell, more, less, worlds)
    skewness = np.mean([hub_skewness(World(cell.clips, 1, cell.hubs, seed)) for seed in range(5)])
    size = f"{cell.clips} captions, {cell.groups} groups of {cell.clips // cell.groups}"
    print(f"\n{size}, hubs {skewness:.1f}; told which group: {least(cell):.1f} points of R@1")
    print(f"{'planted':>8}", *(f"{f'{metric} found (behind)':>24}" for metric in map(str, METRICS)))
    for point, row in zip(points, rows, strict=True):
        cells = (f"{power:.1f} % ({behind:.1f})" for power, behind in zip(row.power, row.behind, strict=True))
        print(f"{point:>8g}", *(f"{one:>24}" for one in cells))
    crossed = [enough(points, [row.power[place] for row in rows]) for place in range(len(METRICS))]
    print(f"{'90 % at':>8}", *(f"{'not reached' if one is None else f'{one:.1f}':>24}" for one in crossed), flush=True)


def main() -> int:
    """A table a cell: captions in all and in each group, groups, hubs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--captions", type=int, default=300)
    parser.add_argument("--groups", nargs="+", type=int, default=[2, 3])
    parser.add_argument("--hubs", nargs="+", type=float, default=[0.0, 1.0, 4.0], metavar="SPREAD")
    parser.add_argument("--gaps", nargs="+", type=float, default=[0, 4, 8, 12, 16, 20, 24, 28], metavar="POINTS")
    asked = parser.parse_args()
    for each in (False, True):
        for groups in asked.groups:
            for hubs in asked.hubs:
                clips = asked.captions * groups if each else asked.captions
                show(Cell(clips, groups, hubs), asked.gaps, asked.worlds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
