"""Does the audit `composition` speak where nothing is read, and does it find rankings that read, and that do not?

    python -m benchmarks.composition [--worlds 200] [--cells 100x1 100x5 300x1] [--hubs 0 0.4 1.0 2.0] [--planted 1]

A world is a gallery of clips with captions, and a ranking that gives each caption noise of its own; every clip is also
liked by all captions, by as much as `--hubs` says (in standard deviations of the noise). The edited captions are:

- `noisy`: as good as the true ones, with other noise;
- `odd`: liked less by all clips, each by another amount, and their scores are nearer together;
- `drifting`: moved towards some clips and away from others, the same ones for every caption, of skewed sizes;
- `blurred`: they get less of everything across, as the control's do: the audit is right only with a control;
- `read`: their own clip likes them less by `--planted`: the ranking reads what was edited.

In all but `read` nothing is read, so an effect whose interval leaves 0 out is wrong. The rows say in what percent of
worlds it does, without a control and with one, how often the verdict is `does not read it`, or, for `read`, `reads it`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from benchmarks import false_alarms
from evenreel.audits import AuditSettings, measure_composition
from evenreel.audits.composition import EditChoice
from evenreel.audits.edits import CONTROL
from evenreel.corpus import make_corpus
from evenreel.types import Corpus, Scores

CELLS = ("100x1", "100x5", "300x1")
HUBS = (0.0, 0.4, 1.0, 2.0)
MATCH = 3.0
"""How much a caption's own clip is liked beyond the others, in standard deviations of the noise."""
BLUR = 0.9
SKEWNESS = "skewness"


class World(false_alarms.World):
    """The world of `benchmarks.false_alarms`, with edited captions."""

    def drawn(self, ranker: str) -> tuple[Corpus, Scores, dict[str, Scores]]:
        """The corpus, scores of the true captions, and of the edited ones and the control."""
        random = np.random.default_rng(self.seed)
        own = self.own
        content = random.normal(size=(self.clips, self.clips))[own] + self.spread * random.normal(size=self.clips)
        content[np.arange(len(own)), own] += MATCH
        true = content + 0.5 * random.normal(size=content.shape)
        edited = RANKERS[ranker](self, content, own, random)
        control = blurred(self, content, own, random) if ranker == "blurred" else other_noise(content, random)
        names, clips = [f"c{one}" for one in range(len(own))], [f"v{one}" for one in range(self.clips)]
        captions = pl.DataFrame({"caption_id": names, "clip_id": [clips[one] for one in own], "text": names})
        scores = [Scores(one.astype(np.float32), names, clips) for one in (true, edited, control)]
        corpus = make_corpus(pl.DataFrame({"clip_id": clips}), captions)
        return corpus, scores[0], {"edit": scores[1], CONTROL: scores[2]}

    def measured(self, ranker: str, *, controlled: bool) -> EditChoice:
        """What own clips prefer, held against the control or not."""
        corpus, scores, edited = self.drawn(ranker)
        given = edited if controlled else {"edit": edited["edit"]}
        return measure_composition(scores, corpus, given, AuditSettings(seed=self.seed)).choices["edit"]

    def hub_skewness(self) -> float:
        """How uneven the first ten places of the true captions are."""
        _, scores, _ = self.drawn("noisy")
        return false_alarms.first_ten_skewness(np.asarray(scores.values))


def other_noise(content: Any, random: np.random.Generator) -> Any:
    return content + 0.5 * random.normal(size=content.shape)


def noisy(world: World, content: Any, own: Any, random: np.random.Generator) -> Any:
    return other_noise(content, random)


def odd(world: World, content: Any, own: Any, random: np.random.Generator) -> Any:
    return 0.7 * other_noise(content, random) - 1.5 * random.exponential(size=(len(content), 1))


def drifting(world: World, content: Any, own: Any, random: np.random.Generator) -> Any:
    towards = random.exponential(size=content.shape[1]) ** 2
    return other_noise(content, random) - 0.3 * random.exponential(size=(len(content), 1)) * towards


def blurred(world: World, content: Any, own: Any, random: np.random.Generator) -> Any:
    return (
        BLUR * content
        + (1 - BLUR**2) ** 0.5 * random.normal(size=content.shape)
        + 0.5 * random.normal(size=content.shape)
    )


def read(world: World, content: Any, own: Any, random: np.random.Generator) -> Any:
    edited = odd(world, content, own, random)
    edited[np.arange(len(own)), own] -= 0.7 * world.planted
    return edited


RANKERS: dict[str, Callable[..., Any]] = {
    "noisy": noisy, "odd": odd, "drifting": drifting, "blurred": blurred, "read": read,
}  # fmt: skip
NOTHING = ("noisy", "odd", "drifting", "blurred")


def main() -> int:
    """A table, a row a ranker and a column a cell and strength of hubs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--cells", nargs="+", default=[*CELLS], help="clips x captions of each")
    parser.add_argument("--hubs", nargs="+", type=float, default=[*HUBS])
    parser.add_argument("--planted", type=float, default=1.0, help="in standard deviations of the noise")
    asked = parser.parse_args()
    found = {(cell, hubs): of_cell(cell, hubs, asked) for cell in asked.cells for hubs in asked.hubs}
    heads = "".join(f"{f'{cell} {counts.pop(SKEWNESS) / 10:.1f}':>12}" for (cell, _), counts in found.items())
    print(f"{'percent of worlds':34}{heads}")
    for row in dict.fromkeys(row for counts in found.values() for row in counts):
        print(f"{row:34}" + "".join(f"{100 * counts[row] / asked.worlds:12.1f}" for counts in found.values()))
    return 0


def of_cell(cell: str, hubs: float, asked: argparse.Namespace) -> Counter[str]:
    """How many worlds of a cell speak, by row of the tables; under `skewness` ten times that of the hubs."""
    clips, captions = map(int, cell.split("x"))
    counts: Counter[str] = Counter()
    for seed in range(asked.worlds):
        world = World(clips, captions, hubs, seed, asked.planted)
        for ranker in RANKERS:
            for controlled in (False, True):
                one, word = world.measured(ranker, controlled=controlled), "with" if controlled else "without"
                low, high = one.net.low, one.net.high
                if ranker in NOTHING:
                    counts[f"{ranker}, {word} control: speaks"] += low is None or high is None or not low <= 0 <= high
                    counts[f"{ranker}, {word} control: not read"] += one.verdict == "does not read it"
                else:
                    counts[f"{ranker}, {word} control: reads"] += one.verdict == "reads it"
    drawn = [World(clips, captions, hubs, seed, 0).hub_skewness() for seed in range(5)]
    counts[SKEWNESS] = round(10 * float(np.mean(drawn)))
    print(f"{cell}, hubs {hubs:g}: done", file=sys.stderr, flush=True)
    return counts


if __name__ == "__main__":
    raise SystemExit(main())
