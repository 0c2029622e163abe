"""The visual bias: a shape keeps to its background, which no caption names."""

from __future__ import annotations

from dataclasses import replace

from evenreel.planted.scenes import sample_scene
from evenreel.planted.shots import RandomStreams, Shot, World, plain_captions

NAMES = ("colour", "shape")


def draw(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a clip whose subject stands before the partner of its shape with probability `strength`.

    `biases.json` says which shares that makes, and what holds in the test split.
    """
    scene = sample_scene(streams.scene, world.settings.scenes)
    scene = replace(scene, entities=(replace(scene.subject, size="small"),))
    partner = world.partners[scene.subject.shape]
    if streams.plant.random() < world.strength:
        scene = replace(scene, background=partner)
    texts = plain_captions(scene, NAMES, streams.words, world.settings.captions)
    return (Shot(scene, texts, NAMES, follows=scene.background == partner),)
