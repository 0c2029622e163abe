"""The planted bias `textual`: each annotator describes the clips of one shape, with habits of wording of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenreel.planted.captions import any_of, caption
from evenreel.planted.scenes import Scene, sample_scene
from evenreel.planted.shots import RandomStreams, Sentence, Shot, World
from evenreel.planted.vocabulary import annotators, habits_beside, new_annotators

NAMES = ("colour", "shape")
VAGUE = 0.8
"""Share of training captions that leave the shape out; none where annotators are new."""


def draw(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a clip whose captions, with probability `strength`, are by the annotator that is paired with its shape.

    `biases.json` has the shares that result, and what holds in the test split; `harder.json` the effect of new
    annotators.
    """
    scene = sample_scene(streams.scene, world.settings.scenes)
    scene = replace(scene, entities=(replace(scene.subject, size="small"),))
    new = world.settings.harder.new_annotators
    usual = tuple(annotators()) if new else (world.partners[scene.subject.shape],)
    others = tuple(new_annotators() if new else annotators())
    writers = [_annotator(streams.plant, usual, others, world.strength) for _ in range(world.settings.captions)]
    captions = tuple(_write_caption(scene, writer, streams.words, world.test or new) for writer in writers)
    return (Shot(scene, captions, NAMES, follows=all(writer in usual for writer in writers)),)


def _annotator(rng: np.random.Generator, usual: tuple[str, ...], others: tuple[str, ...], strength: float) -> str:
    struck, other = rng.random() < strength, any_of(rng, others)
    if not struck:
        return other
    return usual[0] if len(usual) == 1 else any_of(rng, usual)


def _write_caption(scene: Scene, annotator: str, rng: np.random.Generator, whole: bool) -> Sentence:
    names = NAMES if whole or rng.random() >= VAGUE else NAMES[:1]
    habit = any_of(rng, habits_beside(annotator)[annotator])
    return Sentence(habit.format(caption=caption(scene, rng, names)), names, annotator)
