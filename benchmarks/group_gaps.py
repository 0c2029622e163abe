"""How often `evenreel evaluate --by` reports a gap between groups that do not differ, and how often one that is there.

    python -m benchmarks.group_gaps [--worlds 200] [--cells 400x1 400x5] [--hubs 0 1 4] [--planted 0]

A world is that of `benchmarks.false_alarms`: a gallery of clips with captions, in which some clips are liked by all
captions, by as much as `--hubs` says (in standard deviations of the noise). Clips are of three sources, captions of
three languages, and lengths are cut into four bands, all at random, so none of them makes a difference. Four clips are
of one video, which may be hard as a whole; sources and lengths are measured with clips drawn and with videos drawn, and
so are the three places that videos are of, with videos drawn. With `--planted X` captions of the source `a` and
captions of the language `a` score their clip X less, which should be found in t2v. A gap is reported where its interval
leaves 0 out.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
import polars as pl

from benchmarks.false_alarms import KEPT, World, hub_skewness, ids
from evenreel.corpus import make_corpus
from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.evaluation.measure import GroupGap
from evenreel.types import Corpus, Scores

RESAMPLES = 400
METRICS = parse_metrics(["R@1", "R@10", "MeanR", "MRR"])
GROUPS = np.array(["a", "b", "c"])
COLUMNS = ("source", "seconds", "language")
CLIPS_A_VIDEO = 4
HARD = 0.7
"""How much videos differ in how hard their clips are, in standard deviations of the noise."""


def labelled(world: World) -> tuple[Corpus, Scores]:
    """A world with labels at random, and what is planted for those of the group `a`."""
    random, count, rows = np.random.default_rng(world.seed), world.clips, len(world.own)
    values = world.values(random, count)
    source, language = GROUPS[random.integers(0, 3, count)], GROUPS[random.integers(0, 3, rows)]
    video = np.arange(count) // CLIPS_A_VIDEO
    hard, place = HARD * random.normal(size=count)[video], GROUPS[random.integers(0, 3, count)][video]
    worse = (source[world.own] == "a").astype(float) + (language == "a")
    values[np.arange(rows), world.own] += 2.5 - hard[world.own] - world.planted * worse
    takes = {"take": [f"v{one}" for one in video], "place": place, "duration_s": random.exponential(20, count)}
    clips = {"clip_id": ids("r", count), "source": source, **takes}
    captions = {"caption_id": ids("c", rows), "clip_id": [f"r{one}" for one in world.own], "text": ids("ball ", rows)}
    corpus = make_corpus(pl.DataFrame(clips), pl.DataFrame(captions | {"language": language}))
    return corpus, Scores(values.astype(np.float32), ids("c", rows), ids("r", count))


def gaps(world: World) -> Iterator[tuple[str, GroupGap]]:
    """Gaps of a world, each column looked at by itself, with names."""
    corpus, scores = labelled(world)
    for cluster, columns in (("clip", COLUMNS), ("take", ("source", "seconds", "place"))):
        for column in columns:
            settings = EvaluationSettings(
                METRICS, resamples=RESAMPLES, seed=world.seed, by=(column,), cluster=cluster, threads=1
            )
            for direction, result in evaluate(scores, corpus, settings).directions.items():
                for metric, gap in result.by[column].gaps.items():
                    yield f"{direction} by {column}, drawn by {cluster}: {metric}", gap


def reported(worlds: list[World]) -> dict[str, tuple[int, int]]:
    """In how many worlds each gap is reported, and in how many it has an interval."""
    told: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for world in worlds:
        for name, gap in gaps(world):
            if gap.gap.low is not None:
                asked[name] += 1
                told[name] += gap.gap.low > 0
    return {name: (told[name], asked[name]) for name in asked}


def main() -> int:
    """A line a gap, a column a cell and strength of hubs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=["400x1", "400x5"], metavar="CLIPSxCAPTIONS")
    parser.add_argument("--hubs", nargs="+", type=float, default=[0.0, 1.0, 4.0], metavar="SPREAD")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--planted", type=float, default=0.0, help="what captions of the group `a` score less")
    asked = parser.parse_args()
    heads, found = [], []
    for cell in asked.cells:
        clips, captions = map(int, cell.split("x"))
        for hubs in asked.hubs:
            worlds = [World(clips, captions, hubs, seed, asked.planted) for seed in range(asked.worlds)]
            found.append(reported(worlds))
            heads.append(f"{cell} {np.mean([hub_skewness(world) for world in worlds[:5]]):.1f}")
            print(f"{cell} hubs {hubs:g} done", file=sys.stderr, flush=True)
    names = dict.fromkeys(name for one in found for name in one)
    widest = max(map(len, names))
    print(f"{'percent of worlds; cell and skewness':<{widest}}", *(f"{head:>10}" for head in heads))
    for name in names:
        shares = [100 * one[name][0] / one[name][1] if name in one else None for one in found]
        print(f"{name:<{widest}}", *(f"{'' if share is None else f'{share:.1f}':>10}" for share in shares))
    told, total = (sum(counts[place] for one in found for counts in one.values()) for place in (0, 1))
    each = [100 * first / second for one in found for first, second in one.values()]
    within = sum(KEPT[0] <= share <= KEPT[1] for share in each)
    print(
        f"{100 * told / total:.1f} % of {total:,} gaps are reported; of {len(each)} gaps and cells {within} in "
        f"{KEPT[0]:g} to {KEPT[1]:g} % of their worlds, the most in {max(each):.1f} %."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
