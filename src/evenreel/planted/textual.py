"""The textual bias: each annotator describes clips of one shape, in words of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenreel.planted.captions import any_of, caption
from evenreel.planted.scenes import Scene, sample_scene
from evenreel.planted.shots import RandomStreams, Sentence, Shot, World
from evenreel.planted.vocabulary import annotators

NAMES = ("colour", "shape")
VAGUE = 0.8
"""Share of training captions that leave the shape out."""


def draw(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """One clip; with probability `strength` each caption is written by the partner of its shape.

    Otherwise the annotator is uniform and independent, so that at strength s it is the partner in s + (1 - s) / 8 of
    the captions. An annotator wraps a sentence into one of a few habits, which tell the shape in training and nothing
    in the test split. Most training captions name the colour alone ('a red thing'), so that the habit tells what the
    words do not; in the test split all name colour and shape. The subject is small.
    """
    scene = sample_scene(streams.scene, world.settings.scenes)
    scene = replace(scene, entities=(replace(scene.subject, size="small"),))
    partner = world.partners[scene.subject.shape]
    writers = [_annotator(streams.plant, partner, world.strength) for _ in range(world.settings.captions)]
    captions = tuple(_write_caption(scene, writer, streams.words, world.test) for writer in writers)
    return (Shot(scene, captions, NAMES, follows=all(writer == partner for writer in writers)),)


def _annotator(rng: np.random.Generator, partner: str, strength: float) -> str:
    struck, other = rng.random() < strength, any_of(rng, tuple(annotators()))
    return partner if struck else other


def _write_caption(scene: Scene, annotator: str, rng: np.random.Generator, test: bool) -> Sentence:
    names = NAMES if test or rng.random() >= VAGUE else NAMES[:1]
    habit = any_of(rng, annotators()[annotator])
    return Sentence(habit.format(caption=caption(scene, rng, names)), names, annotator)
