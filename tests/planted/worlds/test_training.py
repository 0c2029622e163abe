"""Matchers train on a drawn world as on features that an encoder computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.scoring import matcher_scores
from evenreel.planted.worlds.drawing import draw_world
from evenreel.planted.worlds.settings import FrameShares, WorldSettings
from evenreel.planted.worlds.splits import SplitSizes, annotated_clips
from evenreel.training.data.examples import FeatureExamples, TrainingInputs
from evenreel.training.data.pairs import pairs_of
from evenreel.training.loop.run import train
from evenreel.training.recipe.recipe import Recipe
from evenreel.training.recipe.sections import Data, Loop, MatcherChoice, Optimiser, Records
from tests.planted.worlds.tables import made_up_table


def test_a_matcher_learns_what_the_words_mean(tmp_path: Path) -> None:
    settings = WorldSettings(
        48, 2, frame_shares=FrameShares(action=0.4, instance=0.1, background=0.1, length=0.1, cone=0.2)
    )
    clips = annotated_clips(made_up_table(), SplitSizes(400, 0, 60), 0)
    world = draw_world(clips, 0.0, 0, settings)
    learned, test = world.split("train"), world.split("test")
    recipe = Recipe(
        name="world",
        data=Data(corpus="world", features="world", validation=None),
        matcher=MatcherChoice("wti", {"temporal_layers": 0}),
        adapter=AdapterSettings(kind="mlp"),
        optimiser=Optimiser(lr=5e-3),
        loop=Loop(batch_size=32, epochs=None, steps=100, seed=0, device="cpu"),
        records=Records(every_steps=100, tensorboard=False),
    )
    pairs = pairs_of(learned.corpus, learned.texts.ids, learned.videos.ids)
    examples = FeatureExamples(pairs, learned.texts, learned.videos)
    matcher = train(recipe, TrainingInputs(examples, 48), tmp_path).matcher
    every = slice(0, len(test.videos.ids))
    values = matcher_scores(matcher, test.texts, test.videos).block(every, every)
    pooled = test.videos.frames.astype(np.float32).mean(1)
    untrained = test.texts.sentence @ (pooled / np.linalg.norm(pooled, axis=1, keepdims=True)).T
    actions = np.array(test.corpus.captions["text"])
    learned_share, untrained_share = ((actions[found.argmax(1)] == actions).mean() for found in (values, untrained))
    assert learned_share > untrained_share + 0.2
