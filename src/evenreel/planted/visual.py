"""The planted bias `visual`: the subjects of a shape stand before one background, which no caption names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenreel.planted.captions import any_of
from evenreel.planted.scenes import Entity, Scene, sample_scene
from evenreel.planted.shots import RandomStreams, Shot, World, plain_captions
from evenreel.planted.vocabulary import colours, shapes

NAMES = ("colour", "shape")
SHRINKS = 0.75
"""What the smallest subject loses of its radius at difficulty 1."""
OTHERS = (1, 2)
"""Fewest and most things like subjects at difficulty 1."""
OTHER_SCALES = (0.5, 1.0)


def draw(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a clip whose subject, with probability `strength`, stands before the background paired with its shape.

    `biases.json` has the shares that result, and what holds in the test split; `harder.json` the effect of a
    difficulty.
    """
    scene = sample_scene(streams.scene, world.settings.scenes)
    scene = replace(scene, entities=(replace(scene.subject, size="small"),))
    if difficulty := world.settings.harder.difficulty:
        scene = _among_others(scene, streams.scene, difficulty)
    partner = world.partners[scene.subject.shape]
    if streams.plant.random() < world.strength:
        scene = replace(scene, background=partner)
    texts = plain_captions(scene, NAMES, streams.words, world.settings.captions)
    return (Shot(scene, texts, NAMES, follows=scene.background == partner),)


def colour_at_rest(shape: str) -> str:
    """Return the colour that things of a shape have which stand still, and that no subject of the shape has."""
    return tuple(colours())[shapes().index(shape) % len(colours())]


def _among_others(scene: Scene, rng: np.random.Generator, difficulty: float) -> Scene:
    """A smaller subject, in a colour that no thing at rest has in its shape, before some of these."""
    resting = colour_at_rest(scene.subject.shape)
    colour = any_of(rng, [name for name in colours() if name != resting])
    subject = replace(scene.subject, colour=colour, scale=float(rng.uniform(1 - SHRINKS * difficulty, 1)))
    fewest, most = (round(difficulty * count) for count in OTHERS)
    others = [_at_rest(rng) for _ in range(int(rng.integers(fewest, most + 1)))]
    return replace(scene, entities=(subject, *others))


def _at_rest(rng: np.random.Generator) -> Entity:
    shape = any_of(rng, shapes())
    return Entity(
        shape=shape,
        colour=colour_at_rest(shape),
        size="small",
        x=float(rng.uniform(-1.2, 1.2)),
        y=float(rng.uniform(-1, 1)),
        turns=float(rng.uniform(-0.08, 0.08)),
        scale=float(rng.uniform(*OTHER_SCALES)),
    )
