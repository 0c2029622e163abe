"""The scene-text task: clips that differ in nothing but the word on their sign."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenreel.planted import vocabulary
from evenreel.planted.captions import any_of, caption
from evenreel.planted.scenes import FACES, Scene, Sign, sample_scene
from evenreel.planted.shots import Shot, Streams, World

NAMES = ("colour", "shape", "background")


def draw(streams: Streams, world: World) -> tuple[Shot, ...]:
    """A group of clips, each with a sign; with probability `strength` they differ in its word alone.

    Captions of such a group name what is seen and the word, so that only who reads finds the clip. The clips of any
    other group are scenes of their own, and their captions leave the word out. This is no bias of the training but
    the task itself: `strength` holds in every split, and the comparison is between a model that is given the words
    and one that has only the frames.
    """
    rng, count = streams.scene, world.settings.group
    words = [str(word) for word in rng.choice(vocabulary.sign_words(), count, replace=False)]
    scenes = [replace(sample_scene(rng, world.settings.scenes), signs=(_sign(word, rng),)) for word in words]
    if streams.plant.random() >= world.strength:
        return tuple(Shot(scene, _captions(scene, streams.words, world), NAMES) for scene in scenes)
    alike = [replace(scenes[0], signs=(replace(scenes[0].signs[0], text=word),)) for word in words]
    return tuple(
        Shot(scene, _captions(scene, streams.words, world, named=True), NAMES, word=scene.signs[0].text)
        for scene in alike
    )


def _sign(word: str, rng: np.random.Generator) -> Sign:
    return Sign(
        text=word,
        y=float(rng.choice([0.12, 0.88])),
        height=float(rng.uniform(0.12, 0.16)),
        style=int(rng.integers(len(vocabulary.sign_styles()))),
        face=FACES[int(rng.integers(len(FACES)))],
    )


def _captions(scene: Scene, rng: np.random.Generator, world: World, named: bool = False) -> tuple[str, ...]:
    texts = tuple(caption(scene, rng, NAMES) for _ in range(world.settings.captions))
    if not named:
        return texts
    word = scene.signs[0].text.lower()
    return tuple(any_of(rng, vocabulary.sign_sentences()).format(caption=text, word=word) for text in texts)
