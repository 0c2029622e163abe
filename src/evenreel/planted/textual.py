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
    """Draw a clip whose captions the partner of its shape writes with probability `strength`.

    `biases.json` says which shares that makes, and what holds in the test split.
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
