"""What do the audits `visual` and `textual` say of a model that learned a planted bias, and of one that did not?

    python -m benchmarks.edits [--biases visual textual] [--strengths 0.9 0] [--seeds 3] [--clips 1000] [--steps 300]

The wti matcher is trained as in benchmarks/planted.py, on the training split of a corpus with a bias of each strength.
The test split, which is the same at every strength, is edited as `evenreel planted --edit` does it, and the scores of
the edited clips or captions are held against those of the clean ones. For every edit: how far the clip of a caption
moves, in standard deviations of the other clips' scores, how much of that is beyond the control, both as means over
the seeds, and in how many of these the audit tells the latter from 0 (intervals of 95 %). For `content-removed`, which
leaves a caption its style alone, in place of the latter: above how many of the others the clip stands, in percent; 50
is chance.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.planted import RULE, Sizes, Split, recipe, split_of, trained
from evenreel.audits import audit_textual, audit_visual
from evenreel.audits.edits import CONTROL, OF_CONTENT
from evenreel.encoders import load_encoder
from evenreel.errors import UsageError
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.planted import BiasName, PlantedCorpus, edited, plan_corpus, text_features, video_features
from evenreel.types import Encoder

EDITS: dict[BiasName, dict[str, str]] = {
    "visual": {
        name: name
        for name in ("background-swapped", "background-removed", "entity-swapped", "entity-removed", "motion-swapped")
    }
    | {CONTROL: CONTROL},
    "textual": {name: name for name in ("style-swapped", "style-removed", "content-removed")}
    | {CONTROL: "caption-control"},
}
"""By the name that an audit has for it, the edit of a planted corpus."""
AUDITS = {"visual": audit_visual, "textual": audit_textual}
MOVEMENT, ALONE = "How far the clip of a caption moves", "What style alone finds"
CHANCE = 50.0


class Figure(NamedTuple):
    """What an audit says of one edit; `neutral` is what it would be of a ranking that does not care."""

    moved: float
    value: float
    low: float
    high: float
    neutral: float

    @property
    def told(self) -> bool:
        return self.low > self.neutral or self.high < self.neutral


def main() -> int:
    asked = arguments()
    for bias in asked.biases:
        seeds = [of_seed(bias, seed, asked.strengths, Sizes(asked.clips, asked.steps)) for seed in range(asked.seeds)]
        print(table(bias, asked.strengths, seeds))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--biases", nargs="+", default=[*EDITS], choices=[*EDITS])
    parser.add_argument("--strengths", nargs="+", type=float, default=[0.9, 0.0], help="of what is planted, 0 to 1")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--clips", type=int, default=1_000, help="of all splits together")
    parser.add_argument("--steps", type=int, default=300, help="of each training")
    asked = parser.parse_args()
    if min(asked.seeds, asked.steps) < 1:
        parser.error(f"--seeds and --steps are at least 1; they were {asked.seeds} and {asked.steps}")
    try:
        for strength in asked.strengths:
            plan_corpus("visual", strength, asked.clips)
    except UsageError as error:
        parser.error(str(error))
    return asked


def of_seed(bias: BiasName, seed: int, strengths: Sequence[float], sizes: Sizes) -> dict[float, dict[str, Figure]]:
    """Figures by strength and edit, all on one test split, which is encoded once."""
    encoder, begun_s = load_encoder("builtin"), time.perf_counter()
    plans = {strength: plan_corpus(bias, strength, sizes.clips, seed) for strength in strengths}
    first = plans[strengths[0]]
    test = split_of(first, "test", encoder)
    changed = {name: edited_split(first, edit, test, encoder) for name, edit in EDITS[bias].items()}
    found = {}
    for strength, plan in plans.items():
        matcher = trained(recipe(bias, seed, sizes), split_of(plan, "train", encoder))
        found[strength] = figures(bias, matcher, test, changed)
        took_s = time.perf_counter() - begun_s
        print(f"{bias}, seed {seed}, strength {strength:g}: after {took_s:.0f} s", file=sys.stderr, flush=True)
    return found


def edited_split(plan: PlantedCorpus, edit: str, test: Split, encoder: Encoder) -> Split:
    """The test split after an edit of its clips or captions."""
    clips = edited(plan, edit).clips
    if plan.bias == "visual":
        return test._replace(videos=video_features(clips, encoder, RULE))
    return test._replace(texts=text_features(clips, encoder))


def figures(bias: BiasName, matcher: Matcher, test: Split, changed: dict[str, Split]) -> dict[str, Figure]:
    """What the audit of the bias says of each edit."""
    edited_scores = {name: matcher_scores(matcher, split.texts, split.videos) for name, split in changed.items()}
    result = AUDITS[bias](matcher_scores(matcher, test.texts, test.videos), test.corpus, edited=edited_scores)
    found: dict[str, Figure] = {}
    for one in result.tables:
        if one.title.startswith(MOVEMENT):
            first = one.columns.index("beyond the control")
            moved = {str(row[0]): row[1] for row in one.rows}
            found |= {
                edit: figure_of((moved[edit], *row[first : first + 3]), 0.0)
                for edit, row in zip(moved, one.rows, strict=True)
            }
    for one in result.tables:
        if one.title == ALONE:
            found |= {str(row[0]): figure_of((found[str(row[0])].moved, *row[1:4]), CHANCE) for row in one.rows}
    return found


def figure_of(cells: Sequence[object], neutral: float) -> Figure:
    """Movement, value and its ends, out of rows of tables; of the control there is no more than the first."""
    moved, value, low, high = (float(cell) if isinstance(cell, float) else np.nan for cell in cells)
    return Figure(moved, value, low, high, neutral)


def table(bias: str, strengths: Sequence[float], seeds: Sequence[dict[float, dict[str, Figure]]]) -> str:
    """For people: a line for each edit, with every strength beside each other."""
    heads = "".join(f"{f'strength {strength:g}':>30}" for strength in strengths)
    return "\n".join([f"{bias:30}{heads}", *lines(strengths, seeds), ""])


def lines(strengths: Sequence[float], seeds: Sequence[dict[float, dict[str, Figure]]]) -> Iterator[str]:
    for edit in seeds[0][strengths[0]]:
        cells = [[seed[strength][edit] for seed in seeds] for strength in strengths]
        unit = " (percentile)" if edit.startswith(OF_CONTENT) else ""
        yield f"{edit + unit:30}" + "".join(f"{shown(some):>30}" for some in cells)


def shown(some: Sequence[Figure]) -> str:
    moved, value = (np.mean([getattr(one, name) for one in some]) for name in ("moved", "value"))
    beyond = "" if np.isnan(value) else f", beyond {value:.2f}, told {sum(one.told for one in some)}"
    return f"{moved:.2f}{beyond}"


if __name__ == "__main__":
    raise SystemExit(main())
