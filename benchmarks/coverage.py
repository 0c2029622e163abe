"""How often an interval of `evenreel evaluate` holds the truth, by how many clips there are and how they are drawn.

    python -m benchmarks.coverage [--worlds 1000] [--data FOLDER] [--tables plain ties clips videos differences]

Ranks are drawn anew in every world: the logarithm of a rank is normal, so a few queries fail badly and make most of a
mean rank, and its centre is set so that R@1 is about 62, 17 or 1 %. Beside each interval stands the middle of 200
bootstrap samples of the same groups (Efron 1979), which is what most programs print, in a quarter of the worlds.

Tables: one caption a clip; few hits where half of the other queries tie; many captions a clip that go together; clips
cut from the videos of EPIC-KITCHENS-100 and YouCook2, as many as these have, with a correlation within a video, and
from videos of very unequal size; and differences of two systems, alike and unlike, of one caption a clip and of many.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evenreel.evaluation import EvaluationSettings, Metric, parse_metric
from evenreel.evaluation.intervals import (
    GroupedColumns,
    Interval,
    difference_interval,
    figure_intervals,
    percentile_ends,
    sampled_figures,
)

WORDS = ("R@1", "R@10", "MedR", "MeanR", "Rsum", "GeoR", "MRR")
CENTRES = {62: -0.58, 17: 1.8, 1: 4.35}
"""Centre of the logarithm of ranks, by about how many percent of the queries find their answer first."""

SPREAD, GALLERY = 1.9, 1000
KEPT = (92.0, 97.0)
DATA = Path(os.environ.get("EVENREEL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))

Columns_ = dict[str, Any]


@dataclass(frozen=True)
class Draw:
    """Ranks of queries in groups of `sizes`, of which a share of the logarithm's variance is the group's."""

    sizes: Any
    centre: float
    shared: float = 0.0

    @property
    def groups(self) -> Any:
        """(n,) number of each query's group."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def ranks(self, random: np.random.Generator) -> Any:
        """(n,) ranks."""
        return ranked(self.centre + SPREAD * self.noise(random))

    def noise(self, random: np.random.Generator) -> Any:
        """(n,) standard normal, with the correlation `shared` within a group."""
        own = random.normal(size=len(self.groups)) * (1 - self.shared) ** 0.5
        return own + self.shared**0.5 * random.normal(size=len(self.sizes))[self.groups]


def ranked(logs: Any) -> Any:
    """Ranks of a gallery from their logarithms."""
    return np.clip(np.ceil(np.exp(logs)), 1, GALLERY)


def columns_of(ranks: Any) -> Columns_:
    """What the metrics read."""
    return {"rank": ranks, "MRR": 100 / ranks, **{f"R@{k}": 100.0 * (ranks <= k) for k in (1, 5, 10)}}


def truths(centre: float) -> dict[str, float]:
    """The figures of very many queries."""
    ranks = ranked(centre + SPREAD * np.random.default_rng(99).normal(size=2_000_000))
    return {word: float(parse_metric(word).summary(columns_of(ranks))[0]) for word in WORDS}


def covered(draw: Draw, groups: Any, worlds: int, words: tuple[str, ...] = WORDS) -> Iterator[tuple[str, float, float]]:
    """Percent of worlds in which the interval, and in which that of bootstrap samples, holds the truth."""
    metrics, truth = tuple(map(parse_metric, words)), truths(draw.centre)
    asked = EvaluationSettings(metrics=metrics, resamples=200)
    held = np.zeros((2, len(words)))
    for world in range(worlds):
        columns = columns_of(draw.ranks(np.random.default_rng(world)))
        found = figure_intervals(columns, groups, asked, GALLERY)
        sampled = sampled_figures(metrics, [GroupedColumns(columns, groups)], asked) if world < worlds // 4 else {}
        for place, word in enumerate(words):
            held[0, place] += inside(found[word], truth[word])
            if sampled:
                held[1, place] += inside(Interval(0.0, *percentile_ends(sampled[word][0], 0.95)), truth[word])
    for place, word in enumerate(words):
        yield word, 100 * held[0, place] / worlds, 100 * held[1, place] / (worlds // 4)


def inside(interval: Interval, truth: float) -> bool:
    """Whether an interval holds a value."""
    return interval.low is not None and interval.high is not None and interval.low <= truth <= interval.high


def show(title: str, rows: dict[str, dict[str, tuple[float, float]]]) -> list[float]:
    """Rows by their heads: coverage, and that of bootstrap samples in brackets."""
    words = list(dict.fromkeys(word for row in rows.values() for word in row))
    widest = max(map(len, rows))
    print(f"\n{title}\n{'':<{widest}}", *(f"{word:>13}" for word in words))
    for head, row in rows.items():
        print(f"{head:<{widest}}", *(f"{row[word][0]:>6.1f} ({row[word][1]:4.1f})" for word in words), flush=True)
    return [one for row in rows.values() for one, _ in row.values()]


def plain(worlds: int, data: Path) -> list[float]:
    """One caption a clip."""
    rows = {}
    for share, centre in CENTRES.items():
        for clips in (10, 20, 30, 50, 100, 300, 1000):
            draw = Draw(np.ones(clips, np.int64), centre)
            rows[f"R@1 {share} %, {clips} clips"] = {word: ends for word, *ends in covered(draw, draw.groups, worlds)}
    return show("One caption a clip", rows)  # type: ignore[arg-type]


def ties(worlds: int, data: Path) -> list[float]:
    """R@1 of few hits where half of the other queries tie over the whole gallery, as words without a match do."""
    rows = {}
    for hits in (1, 3):
        truth = hits + (100 - hits) / 2 / GALLERY
        for count in (20, 50, 100, 300):
            held = np.zeros(2)
            asked = EvaluationSettings(metrics=(parse_metric("R@1"),), resamples=200)
            for world in range(worlds):
                random, groups = np.random.default_rng(world), np.arange(count)
                tied = np.where(random.random(count) < 0.5, 100 / GALLERY, 0.0)
                columns = {"R@1": np.where(random.random(count) < hits / 100, 100.0, tied)}
                held[0] += inside(figure_intervals(columns, groups, asked, GALLERY)["R@1"], truth)
                if world < worlds // 4:
                    (drawn,) = sampled_figures(asked.metrics, [GroupedColumns(columns, groups)], asked)["R@1"]
                    held[1] += inside(Interval(0.0, *percentile_ends(drawn, 0.95)), truth)
            rows[f"{hits} % hit, {count} clips"] = {"R@1": (100 * held[0] / worlds, 100 * held[1] / (worlds // 4))}
    return show("Few hits, half of the others tied", rows)


def clips(worlds: int, data: Path) -> list[float]:
    """5 to 79 captions a clip that go together, as those of MSVD."""
    rows = {}
    for share, centre in CENTRES.items():
        for count in (20, 50, 100, 670):
            sizes = np.random.default_rng(count).integers(5, 80, count)
            draw = Draw(sizes, centre, 0.5)
            tried = worlds if count < 670 else worlds // 5
            rows[f"R@1 {share} %, {count} clips"] = {word: ends for word, *ends in covered(draw, draw.groups, tried)}
    return show("5 to 79 captions a clip, correlation 0.5", rows)  # type: ignore[arg-type]


def videos(worlds: int, data: Path) -> list[float]:
    """Drawn by video, and by clip in rows of their own."""
    epic = pl.read_csv(data / "epic_kitchens_100" / "rulstm_validation.csv", has_header=False).to_series(1)
    cook = pl.read_csv(data / "youcook2" / "validation_youcook.csv", infer_schema_length=0)["video_id"]
    rows, found = {}, []
    unequal = pl.Series(np.repeat(np.arange(50), np.ceil(500 / np.arange(1, 51)).astype(int)))
    for name, column, shared in (
        ("EK-100", epic, 0.02), ("EK-100", epic, 0.1), ("YouCook2", cook, 0.05), ("unequal", unequal, 0.1),
    ):  # fmt: skip
        sizes = column.value_counts(sort=True)["count"].to_numpy()
        draw = Draw(sizes, CENTRES[17], shared)
        for by, groups in (("video", draw.groups), ("clip", np.arange(len(draw.groups)))):
            words = ("R@1", "R@10", "MeanR", "MRR")
            row = {word: ends for word, *ends in covered(draw, groups, worlds // 4, words)}
            rows[f"{name}, {len(draw.groups):,} clips of {len(sizes)} videos, correlation {shared}, drawn by {by}"] = (
                row
            )
            found += [ends[0] for ends in row.values()] if by == "video" else []
    show("Clips cut from videos", rows)  # type: ignore[arg-type]
    return found


def differences(worlds: int, data: Path) -> list[float]:
    """Percent of worlds in which the interval of a difference leaves the true one out: alike, then one better."""
    rows: dict[str, dict[str, tuple[float, float]]] = {}
    metrics = [parse_metric(word) for word in WORDS if word != "MedR"]
    for better in (0.0, 0.5):
        for share in (17, 1):
            for count, captions in ((6, 1), (10, 1), (20, 1), (50, 1), (300, 1), (20, 20), (100, 20), (138, 70)):
                head = f"{'one better' if better else 'alike'}, R@1 {share} %, {count} x {captions}"
                draw = Draw(np.full(count, captions), CENTRES[share], 0.3 * (captions > 1))
                rows[head] = missed(draw, better, worlds, metrics)
    show("Differences of two systems: percent of worlds in which the interval leaves out the true one", rows)
    return []


def missed(draw: Draw, better: float, worlds: int, metrics: list[Metric]) -> dict[str, tuple[float, float]]:
    """Of two systems whose logarithms of ranks correlate by 0.6."""

    def two(random: np.random.Generator, drawn: Draw) -> list[Columns_]:
        both = drawn.noise(random)
        own = [0.6**0.5 * both + 0.4**0.5 * drawn.noise(random) for _ in range(2)]
        centres = draw.centre, draw.centre - better
        return [columns_of(ranked(at + SPREAD * one)) for at, one in zip(centres, own, strict=True)]

    long_run = two(np.random.default_rng(98), Draw(np.ones(1_000_000, np.int64), draw.centre))
    truth = [
        float(metric.summary(long_run[1])[0] - metric.summary(long_run[0])[0]) if better else 0.0 for metric in metrics
    ]
    out, groups = np.zeros((2, len(metrics))), draw.groups
    asked = EvaluationSettings(metrics=tuple(metrics), resamples=200)
    for world in range(worlds):
        first, second = two(np.random.default_rng(world), draw)
        for place, metric in enumerate(metrics):
            out[0, place] += not inside(difference_interval(metric, first, second, groups, 0.95), truth[place])
        if world < worlds // 4:
            drawn = sampled_figures(metrics, [GroupedColumns(one, groups) for one in (first, second)], asked)
            for place, metric in enumerate(metrics):
                before, after = drawn[str(metric)]
                out[1, place] += not inside(Interval(0.0, *percentile_ends(after - before, 0.95)), truth[place])
    return {
        str(metric): (100 * out[0, place] / worlds, 100 * out[1, place] / (worlds // 4))
        for place, metric in enumerate(metrics)
    }


TABLES: dict[str, Callable[[int, Path], list[float]]] = {
    "plain": plain, "ties": ties, "clips": clips, "videos": videos, "differences": differences,
}  # fmt: skip


def main() -> int:
    """All tables, and how many of the figures from 20 clips on keep what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of EPIC-KITCHENS-100 and YouCook2")
    parser.add_argument("--tables", nargs="+", choices=[*TABLES], default=[*TABLES])
    asked = parser.parse_args()
    for name in asked.tables:
        found = TABLES[name](asked.worlds, asked.data)
        if found:
            low, high = (sum(one < KEPT[0] for one in found), sum(one > KEPT[1] for one in found))
            print(
                f"{len(found) - low - high} of {len(found)} figures are covered in {KEPT[0]:g} to {KEPT[1]:g} % of "
                f"{asked.worlds:,} worlds, {low} in fewer, the least in {min(found):.1f}, and {high} in more."
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
