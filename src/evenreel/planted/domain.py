"""The planted bias `domain`: training clips have another look, other words and other combinations than test clips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenreel.planted.captions import Pick, any_of
from evenreel.planted.look import PLAIN, Look
from evenreel.planted.scenes import Scene, sample_scene
from evenreel.planted.shots import RandomStreams, Shot, World, plain_captions
from evenreel.planted.vocabulary import backgrounds, shapes

NAMES = ("colour", "shape", "background")
SOURCE, TARGET = "source", "target"
LOOKS = {SOURCE: PLAIN, TARGET: Look(gains=(0.8, 0.95, 1.15), saturation=0.5, contrast=0.6, blur=0.015, resolution=0.5)}
"""The target is a dim, bluish camera of low resolution."""
COMPANY = 0.5
"""Share of clips whose shape is made the one that its background has in that domain; chance adds some."""
HABIT = 0.8
"""Share of choices that are the domain's habit where several words mean the same; chance adds some."""


def draw(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a clip of the source domain with probability `strength`, else one of the target, the test split's domain.

    `biases.json` has the shares that result, and what holds in the test split.
    """
    scene = sample_scene(streams.scene, world.settings.scenes)
    domain = SOURCE if streams.plant.random() < world.strength else TARGET
    scene = replace(_in_company(scene, domain, streams.plant), look=LOOKS[domain])
    texts = plain_captions(scene, NAMES, streams.words, world.settings.captions, _habit(domain))
    return (Shot(scene, texts, NAMES, domain=domain),)


def _in_company(scene: Scene, domain: str, rng: np.random.Generator) -> Scene:
    if rng.random() >= COMPANY:
        return scene
    all_shapes, places = shapes(), tuple(backgrounds())
    shift = 0 if domain == SOURCE else len(all_shapes) // 2
    shape = all_shapes[(places.index(scene.background) + shift) % len(all_shapes)]
    return replace(scene, entities=(replace(scene.subject, shape=shape), *scene.entities[1:]))


def _habit(domain: str) -> Pick:
    """The first of several words at home in the source, the last in the target."""

    def pick(rng: np.random.Generator, items: Sequence[str]) -> str:
        usual, other = rng.random() < HABIT, any_of(rng, items)
        return items[0 if domain == SOURCE else -1] if usual else other

    return pick
