"""What training that knows neighbours brings where training makes hubs, beside corrections of the scores afterwards.

    python -m benchmarks.hub_training [--seeds 5] [--shares 0 0.1] [--steps 200] [--common 1] [--rows plain whole ...]

A world is 3,000 training pairs and 500 test pairs, vectors as in `benchmarks.hub_corrections`, whose
clips are turned, so that a linear map has to be learned. A share of the clips of both is planted: they show nothing
(their vectors lie about one direction), while their captions are as all others. A softmax over clips learns that such a
clip may answer anything, and it becomes a hub. Each row is a training of `mean_pool` behind linear maps, or the plain
training with its scores corrected by banks of training pairs. A figure is the mean over seeds with its interval
(Student's t); gains are paired, the row less `plain` of the same seed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from benchmarks.hub_corrections import (
    BANK,
    DIMENSION,
    SUBJECTS,
    Matrix,
    World,
    corrected,
    interval,
    recall,
    tuned,
    unevenness,
    unit,
)
from evenreel.corpus import make_corpus
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.training.data.examples import FeatureExamples, TrainingInputs
from evenreel.training.data.pairs import pairs_of
from evenreel.training.loop.run import train
from evenreel.training.recipe.files import recipe_from
from evenreel.types import TextFeatures, VideoFeatures

TRAIN, TEST = 3_000, 500
SPREAD = 0.05
"""By which planted clips differ, a number."""
ROWS: Mapping[str, Any] = {
    "plain": None,
    "whole": {},
    "without centrality": {"kappa": 0.0},
    "without neighbours": {"neighbour_weight": 0.0},
    "without uniform": {"uniform_weight": 0.0},
    "a sharper plan": {"temperature": 0.05},
}
CORRECTIONS = ("qb-norm", "nnn", "csls", "dsl", "sinkhorn", "dbsn,temperature=0.05")


class Side(NamedTuple):
    """Pairs of a split as unit vectors, and which clips are planted."""

    captions: Matrix
    clips: Matrix
    planted: Matrix


def drawn(seed: int, share: float, common: float = 1.0) -> tuple[Side, Side]:
    """The training pairs and the test pairs of a world."""
    random = np.random.default_rng(seed)
    middle, look = unit(random.normal(size=DIMENSION)), unit(random.normal(size=DIMENSION))
    turn = np.linalg.qr(random.normal(size=(DIMENSION, DIMENSION)))[0]
    subjects = random.normal(size=(SUBJECTS, DIMENSION))

    def side(count: int) -> Side:
        own = subjects[random.integers(0, SUBJECTS, count)] + random.normal(size=(count, DIMENSION))
        captions, clips = (unit(own + random.normal(size=own.shape)) for _ in range(2))
        planted = random.random(count) < share
        clips[planted] = unit(look + SPREAD * random.normal(size=(int(planted.sum()), DIMENSION)))
        return Side(unit(captions + common * middle), clips @ turn, planted)

    return side(TRAIN), side(TEST)


def examples(side: Side) -> FeatureExamples:
    """Pairs as features of one word and one frame."""
    clip_ids = [f"v{row}" for row in range(len(side.clips))]
    table = pl.DataFrame({"caption_id": [f"c{row}" for row in range(len(clip_ids))], "clip_id": clip_ids})
    corpus = make_corpus(pl.DataFrame({"clip_id": clip_ids}), table.with_columns(text=pl.col("caption_id")))
    one = np.ones((len(clip_ids), 1), dtype=bool)
    captions, clips = side.captions.astype(np.float32), side.clips.astype(np.float32)
    texts = TextFeatures(tuple(table["caption_id"]), captions[:, None], one, captions)
    videos = VideoFeatures(tuple(clip_ids), clips[:, None], one, np.zeros(one.shape))
    return FeatureExamples(pairs_of(corpus, texts.ids, videos.ids), texts, videos)


def trained(learned: FeatureExamples, seed: int, steps: int, neighbours: Any) -> Matcher:
    """A matcher trained with these settings of neighbours."""
    recipe = recipe_from({
        "name": "hubs",
        "data": {"corpus": "world", "features": "world", "validation": None},
        "matcher": {"name": "mean_pool", "settings": {"temperature": 0.05}},
        "adapter": {"kind": "linear"},
        "neighbours": neighbours,
        "optimiser": {"lr": 4e-3, "weight_decay": 0.05},
        "loop": {"batch_size": 128, "epochs": None, "steps": steps, "seed": seed, "device": "cpu"},
        "records": {"every_steps": steps, "tensorboard": False},
    })  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        return train(recipe, TrainingInputs(learned, DIMENSION), Path(folder)).matcher


def table(matcher: Matcher, texts: TextFeatures, videos: VideoFeatures) -> Matrix:
    """Scores (Q, V)."""
    scores = matcher_scores(matcher, texts, videos)
    return np.asarray(scores.block(slice(0, len(texts.ids)), slice(0, len(videos.ids))))


def measured(values: Matrix, back: Matrix, planted: Matrix) -> list[float]:
    """R@1 and skewness of both directions, and how often a planted clip is among the first ten."""
    first = np.argsort(-values, axis=1)[:, :10]
    often = np.bincount(first.ravel(), minlength=len(planted))
    shown = float(often[planted.astype(bool)].mean()) if planted.any() else 0.0
    return [recall(values), recall(back), unevenness(values), unevenness(back), shown]


def of_seed(seed: int, share: float, asked: argparse.Namespace) -> dict[str, list[float]]:
    """Figures of every row in one world."""
    learning, testing = drawn(seed, share, asked.common)
    learned, test = examples(learning), examples(testing)
    own = examples(Side(*(part[: BANK * TEST] for part in learning)))
    found = {}
    for name in asked.rows:
        matcher = trained(learned, seed, asked.steps, ROWS[name])
        values = table(matcher, test.text_features, test.video_features)
        found[name] = measured(values, values.T, testing.planted)
        if name == "plain":
            world = World(
                values,
                table(matcher, own.text_features, test.video_features),
                table(matcher, test.text_features, own.video_features),
                table(matcher, own.text_features, own.video_features),
            )
            for words in CORRECTIONS:
                word, settings = tuned(words)
                forth = corrected(word, world, "t2v", settings)
                back = corrected(word, world.turned(), "v2t", settings)
                found[f"plain, `{words}`"] = measured(forth, back, testing.planted)
    return found


def main() -> int:
    """A table a share."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument("--common", type=float, default=1.0, help="length of what all captions have in common")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    asked = parser.parse_args()
    for share in asked.shares:
        seeds = [of_seed(seed, share, asked) for seed in range(asked.seeds)]
        plain = np.array([one["plain"] for one in seeds])
        print(f"\n{share:.0%} of the clips planted, {asked.seeds} seeds")
        print("| | R@1 t2v | R@1 v2t | skewness t2v | skewness v2t | planted clip among ten, of 500 captions |")
        print("|---|---|---|---|---|---|")
        print("| plain | " + " | ".join(f"{mean:.1f}" for mean in plain.mean(axis=0)) + " |")
        for name in seeds[0]:
            if name != "plain":
                gains = np.array([one[name] for one in seeds]) - plain
                print(f"| {name} | " + " | ".join(interval(list(gain)) for gain in gains.T) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
