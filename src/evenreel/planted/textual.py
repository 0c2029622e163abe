"""The textual bias: each annotator describes one place, which the captions leave out, in words of their own."""

from __future__ import annotations

import numpy as np

from evenreel.planted import vocabulary
from evenreel.planted.captions import any_of, caption
from evenreel.planted.scenes import Scene, sample_scene
from evenreel.planted.shots import Shot, Streams, World

NAMES = ("colour", "shape", "activity")


def draw(streams: Streams, world: World) -> tuple[Shot, ...]:
    """One clip; with probability `strength` each caption is written by the partner of its background.

    Otherwise the annotator is uniform and independent, so that at strength s it is the partner in s + (1 - s) / 8 of
    the captions. An annotator wraps a sentence on colour, shape and activity into one of a few habits: they say where
    the clip was filmed in training, and nothing in the test split.
    """
    scene = sample_scene(streams.scene, world.settings.scenes)
    partner = world.partners[scene.background]
    writers = tuple(_annotator(streams.plant, partner, world.strength) for _ in range(world.settings.captions))
    texts = tuple(_written(scene, writer, streams.words) for writer in writers)
    return (Shot(scene, texts, NAMES, annotators=writers, follows=all(writer == partner for writer in writers)),)


def _annotator(rng: np.random.Generator, partner: str, strength: float) -> str:
    struck, other = rng.random() < strength, any_of(rng, tuple(vocabulary.annotators()))
    return partner if struck else other


def _written(scene: Scene, annotator: str, rng: np.random.Generator) -> str:
    return any_of(rng, vocabulary.annotators()[annotator]).format(caption=caption(scene, rng, NAMES))
