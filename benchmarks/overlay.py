"""How far do misleading words on screen lead what reads astray, and what only sees?

    python -m benchmarks.overlay [--rows bm25 "mean_pool, frames" "mean_pool, words" tcd] [--seeds 3] [--first-seed 10]
        [--clips 1000] [--steps 400] [--signs 1]

Matchers are trained as in benchmarks/planted.py, in batches of 42, on planted clips whose signs tell them apart, with
the true words; `bm25` compares the words of captions with those on signs and learns nothing. The clips of the test
split then carry a second sign with a word that another clip's caption names, and, as the control, one with as many
random consonants. Of `evenreel audit overlay`, as means over the seeds: by how many standard deviations of the other
clips' scores a wrong clip that carries words of the caption's clip rises beyond the control, in how many seeds that is
told from 0 (intervals of 95 %), by how many places it rises beyond it, and how far the caption's own clip falls beyond
it when it carries another's words. Beside these R@1, the share of captions whose first clip shows all that is named,
among clips as they are, and where every clip carries misleading words, or random letters.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks.evidence.engine import STRENGTH
from benchmarks.planted import RULE, Sizes, Split, found_in, split_of, trained
from benchmarks.planted import recipe as planted_recipe
from evenreel.audits import AuditSettings, measure_overlay
from evenreel.audits.edits import AS_IS, CONTROL
from evenreel.audits.overlay import OWN, WRONG
from evenreel.corpus import select
from evenreel.encoders import load_encoder
from evenreel.errors import UsageError
from evenreel.language.bm25 import bm25_scores
from evenreel.matchers.scoring import matcher_scores
from evenreel.planted import PlantedClip, PlantSettings, corpus_of, described, edited, plan_corpus, video_features
from evenreel.training.recipe import MatcherChoice, Recipe
from evenreel.types import Corpus, ScoreBlocks

BM25, EDIT = "bm25", "overlay"
MATCHERS = {"mean_pool, frames": "mean_pool", "mean_pool, words": "mean_pool", "tcd": "tcd"}
"""Of each row that learns; of mean_pool, words on signs stand among the frames or not, tcd reads them itself."""
BATCH, TEMPERATURE = 42, 0.03
EDITS = {EDIT: EDIT, CONTROL: "overlay-control"}
"""By the name that the audit has for it, the edit of a planted corpus."""


class Figure(NamedTuple):
    """What is measured of one row and seed; the first four by the audit and beyond the control."""

    rises: float
    told: bool
    places: float
    falls: float
    found: float
    misled: float
    scribbled: float


def main() -> int:
    asked = arguments()
    seeds = [of_seed(seed, asked) for seed in range(asked.first_seed, asked.first_seed + asked.seeds)]
    print(table({row: [one[row] for one in seeds] for row in asked.rows}))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=[BM25, *MATCHERS], choices=[BM25, *MATCHERS], metavar="ROW")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=10)
    parser.add_argument("--clips", type=int, default=1_000, help="of all splits together")
    parser.add_argument("--steps", type=int, default=400, help="of each training")
    parser.add_argument("--signs", type=int, default=1, help="of a clip")
    asked = parser.parse_args()
    if min(asked.seeds, asked.steps) < 1:
        parser.error(f"--seeds and --steps are at least 1; they were {asked.seeds} and {asked.steps}")
    try:
        plan_corpus("scene_text", STRENGTH, asked.clips, settings=PlantSettings(signs=asked.signs))
    except UsageError as error:
        parser.error(str(error))
    return asked


def of_seed(seed: int, asked: argparse.Namespace) -> dict[str, Figure]:
    """Figures by row, all on one test split, which is encoded once for each edit."""
    encoder, begun_s = load_encoder("builtin"), time.perf_counter()
    plan = plan_corpus("scene_text", STRENGTH, asked.clips, seed, PlantSettings(signs=asked.signs))
    learned, test = (split_of(plan, split, encoder) for split in ("train", "test"))
    changed = {name: edited(plan, edit).clips for name, edit in EDITS.items()}
    clips: dict[str, Sequence[PlantedClip]] = {AS_IS: plan.split("test"), **changed}
    splits = {name: test._replace(videos=video_features(some, encoder, RULE)) for name, some in changed.items()}
    splits[AS_IS] = test
    corpus, found = select(corpus_of(described(plan, EDIT)), split="test"), {}
    for row in asked.rows:
        if row == BM25:
            scores = {name: lexical(test, some) for name, some in clips.items()}
        else:
            matcher = trained(recipe_of(row, seed, Sizes(asked.clips, asked.steps)), learned)
            scores = {name: matcher_scores(matcher, split.texts, split.videos) for name, split in splits.items()}
        found[row] = figure_of(scores, corpus)
        took_s = time.perf_counter() - begun_s
        print(f"seed {seed}, {row}: {found[row].rises:.2f} SD, after {took_s:.0f} s", file=sys.stderr, flush=True)
    return found


def recipe_of(row: str, seed: int, sizes: Sizes) -> Recipe:
    plain = planted_recipe("scene_text", seed, sizes, windows=row == "mean_pool, words")
    matcher = MatcherChoice(MATCHERS[row], {"temperature": TEMPERATURE})
    return replace(plain, matcher=matcher, loop=replace(plain.loop, batch_size=BATCH))


def lexical(test: Split, clips: Sequence[PlantedClip]) -> ScoreBlocks:
    texts = dict(test.corpus.captions.select("caption_id", "text").iter_rows())
    return bm25_scores(texts, {clip.clip_id: [sign.text for sign in clip.scene.signs] for clip in clips})


def figure_of(scores: dict[str, ScoreBlocks], corpus: Corpus) -> Figure:
    edited = {name: scores[name] for name in EDITS}
    measured = measure_overlay(scores[AS_IS], corpus, edited, AuditSettings())
    rise, fall = (measured.shifts[whose, EDIT].beyond for whose in (WRONG, OWN))
    low = rise["sd"].low
    told = low is not None and low > 0
    found = (found_in(scores[name], corpus, ["R@1"])["R@1"] for name in (AS_IS, EDIT, CONTROL))
    return Figure(rise["sd"].value, told, rise["places"].value, fall["sd"].value, *found)


def table(rows: dict[str, Sequence[Figure]]) -> str:
    """For people: a line for each row."""
    heads = ("rises, SD", "told", "places", "own falls, SD", "R@1", "misled", "scribbled on")
    lines = [" " * 24 + "".join(f"{head:>14}" for head in heads)]
    for row, seeds in rows.items():
        rises, _, places, falls, *found = np.mean(seeds, axis=0)
        told = f"{sum(one.told for one in seeds)} of {len(seeds)}"
        cells = (f"{rises:.2f}", told, f"{places:.1f}", f"{falls:.2f}", *(f"{value:.1f}" for value in found))
        lines.append(f"{row:24}" + "".join(f"{cell:>14}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
