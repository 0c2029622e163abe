"""The visual bias: a shape keeps to its background, which no caption names."""

from __future__ import annotations

from dataclasses import replace

from evenreel.planted.scenes import sample_scene
from evenreel.planted.shots import RandomStreams, Shot, World, plain_captions

NAMES = ("colour", "shape")


def draw(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """One clip; with probability `strength` its subject stands before the partner of its shape.

    Otherwise the background is uniform and independent, so that at strength s it is the partner in s + (1 - s) / 8 of
    the clips. The subject is small, and captions name its colour and shape: whoever learns from them that the word of
    a shape means a background is right in training and wrong in the test split.
    """
    scene = sample_scene(streams.scene, world.settings.scenes)
    scene = replace(scene, entities=(replace(scene.subject, size="small"),))
    partner = world.partners[scene.subject.shape]
    if streams.plant.random() < world.strength:
        scene = replace(scene, background=partner)
    texts = plain_captions(scene, NAMES, streams.words, world.settings.captions)
    return (Shot(scene, texts, NAMES, follows=scene.background == partner),)
