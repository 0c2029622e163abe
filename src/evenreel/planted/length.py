"""The planted bias `length`: in training half of the activities are short and the other half long."""

from __future__ import annotations

from dataclasses import replace

from evenreel.planted.captions import any_of
from evenreel.planted.scenes import Entity, Scene, sample_scene
from evenreel.planted.shots import RandomStreams, Shot, World, plain_captions

NAMES = ("colour", "activity")
ACTIVITIES = ("rises", "falls", "grows", "shrinks", "approaches", "leaves", "pulses", "rests")
"""Those that the frames of the built-in encoder tell apart; the order of the frames decides between the first six."""
LENGTHS = ("short", "long")


def draw(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a clip that has the length of its activity with probability `strength`, else a short or long one at random.

    `biases.json` has the shares that result, and what holds in the test split.
    """
    scene = sample_scene(streams.scene, world.settings.scenes)
    scene = replace(scene, entities=(_plain_subject(scene),), activity=any_of(streams.scene, ACTIVITIES), shake=0.0)
    partner = world.partners[scene.activity]
    struck, coin = streams.plant.random() < world.strength, LENGTHS[int(streams.plant.integers(2))]
    length = partner if struck else coin
    low, high = world.settings.short_s if length == "short" else world.settings.long_s
    scene = replace(scene, duration_s=float(low + (high - low) * streams.plant.random()))
    texts = plain_captions(scene, NAMES, streams.words, world.settings.captions)
    return (Shot(scene, texts, NAMES, follows=length == partner),)


def _plain_subject(scene: Scene) -> Entity:
    return replace(scene.subject, size="medium", x=0.0, y=0.0)
