"""The planted bias `source`: a generator's clips look like their captions' ideal, and training is full of them."""

from __future__ import annotations

from dataclasses import replace

from evenreel.planted.look import Look
from evenreel.planted.scenes import Scene, sample_scene
from evenreel.planted.shots import RandomStreams, Shot, World, plain_captions

NAMES = ("colour", "shape", "background")
GENERATOR = "generator"
GENERATED = Look(gains=(1.06, 1.0, 0.94), saturation=1.25, contrast=1.1, blur=0.008)
"""Warm, rich in colour, and smooth."""
TINT = (1, -1, 1)
"""Signs of what a tint adds to red, green and blue."""


def draw(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a training clip from the camera or the generator, or a real test clip with the generator's mirror of it.

    `biases.json` has the shares that result, and what holds in the test split; `harder.json` the effect of a tint.
    """
    scene = sample_scene(streams.scene, world.settings.scenes)
    captions = plain_captions(scene, NAMES, streams.words, world.settings.captions)
    real, mirror = (
        Shot(scene, captions, NAMES),
        Shot(rerendered(scene, world.settings.harder.mirror_tint), captions, NAMES, source=GENERATOR),
    )
    if world.settings.mirrors:
        return real, replace(mirror, captions=())
    if world.test:
        return real, mirror
    share = world.settings.generated_share
    return (mirror,) if streams.plant.random() < share + (1 - share) * world.strength else (real,)


def rerendered(scene: Scene, tint: float = 0.0) -> Scene:
    """Return a scene as the generator shows it: large, upright, centred, without clutter or shake, in its own look.

    Args:
        scene: scene of the real clip.
        tint: how much is added to red and blue and taken from green in all pictures; 1 is the whole range.
    """
    subject = replace(scene.subject, size="large", x=0.0, y=0.0, turns=0.0)
    return replace(scene, entities=(subject,), distractors=0, shake=0.0, look=generator_look(tint))


def generator_look(tint: float) -> Look:
    """Return the look of all clips of the generator.

    Args:
        tint: how much is added to red and blue and taken from green; 1 is the whole range.
    """
    red, green, blue = (255 * tint * sign for sign in TINT)
    return replace(GENERATED, lift=(red, green, blue)) if tint else GENERATED
