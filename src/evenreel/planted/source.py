"""The source bias: a generator's clips look like what their captions mean, and training is full of them."""

from __future__ import annotations

from dataclasses import replace

from evenreel.planted.captions import caption
from evenreel.planted.look import Look
from evenreel.planted.scenes import Scene, sample_scene
from evenreel.planted.shots import Shot, Streams, World

NAMES = ("colour", "shape", "background")
GENERATOR = "generator"
GENERATED = Look(gains=(1.06, 1.0, 0.94), saturation=1.25, contrast=1.1, blur=0.008)
"""Warm, rich in colour, and smooth."""


def draw(streams: Streams, world: World) -> tuple[Shot, ...]:
    """In training a clip, the generator's with probability `strength`; in the test split the real one and its mirror.

    Both sources show the same distribution of meanings, and a real clip and its mirror have the same captions, so that
    nothing but the source tells them apart.
    """
    scene = sample_scene(streams.scene, world.settings.scenes)
    texts = tuple(caption(scene, streams.words, NAMES) for _ in range(world.settings.captions))
    real, mirror = Shot(scene, texts, NAMES), Shot(rerendered(scene), texts, NAMES, source=GENERATOR)
    if world.test:
        return real, mirror
    return (mirror,) if streams.plant.random() < world.strength else (real,)


def rerendered(scene: Scene) -> Scene:
    """The scene as the generator shows it: large, upright, in the middle, without clutter or shake, and in its look."""
    subject = replace(scene.subject, size="large", x=0.0, y=0.0, turns=0.0)
    return replace(scene, entities=(subject,), distractors=0, shake=0.0, look=GENERATED)
