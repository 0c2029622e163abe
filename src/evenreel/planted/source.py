"""The source bias: a generator's clips look like what their captions mean, and training is full of them."""

from __future__ import annotations

from dataclasses import replace

from evenreel.planted.look import Look
from evenreel.planted.scenes import Scene, sample_scene
from evenreel.planted.shots import RandomStreams, Shot, World, plain_captions

NAMES = ("colour", "shape", "background")
GENERATOR = "generator"
GENERATED = Look(gains=(1.06, 1.0, 0.94), saturation=1.25, contrast=1.1, blur=0.008)
"""Warm, rich in colour, and smooth."""


def draw(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """In training a clip of either source; in the test split a real clip and the generator's mirror of it.

    At strength s a training clip is generated with probability g + (1 - g) s, where g (`generated_share`, a half) is
    the share that plants nothing: a model that sees both sources equally often prefers neither, one that sees none of
    the generator's clips prefers real ones, one that sees little else prefers generated ones. Both sources have the
    same distribution of meanings, and a real clip and its mirror have the same captions.

    With `mirrors` all splits hold both, the captions with the real clip: whoever trains chooses the share of mirrors
    (`evenreel.corpus.counterparts.with_generated`), of which 0.5 + 0.5 s is what strength s would have drawn.
    """
    scene = sample_scene(streams.scene, world.settings.scenes)
    captions = plain_captions(scene, NAMES, streams.words, world.settings.captions)
    real, mirror = Shot(scene, captions, NAMES), Shot(rerendered(scene), captions, NAMES, source=GENERATOR)
    if world.settings.mirrors:
        return real, replace(mirror, captions=())
    if world.test:
        return real, mirror
    share = world.settings.generated_share
    return (mirror,) if streams.plant.random() < share + (1 - share) * world.strength else (real,)


def rerendered(scene: Scene) -> Scene:
    """Return the scene as the generator shows it: large, upright, centred, without clutter or shake, in its look."""
    subject = replace(scene.subject, size="large", x=0.0, y=0.0, turns=0.0)
    return replace(scene, entities=(subject,), distractors=0, shake=0.0, look=GENERATED)
