"""The scene-text task: clips that differ in nothing but the word on their sign."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenreel.planted import vocabulary
from evenreel.planted.captions import any_of
from evenreel.planted.scenes import FACES, Scene, Sign, sample_scene
from evenreel.planted.shots import Sentence, Shot, Streams, World, plain_captions

SEEN = ("colour", "background")
NAMES = (*SEEN, "word")


def draw(streams: Streams, world: World) -> tuple[Shot, ...]:
    """A group of clips, each with a sign; with probability `strength` they differ in its word alone.

    Captions of such a group name what is seen and the word, so that only who reads finds the clip. The clips of any
    other group are scenes of their own, and their captions leave the word on their sign out. This is no bias of the
    training but the task itself: `strength` holds in every split, and the comparison is between a model that is given
    the words and one that has only the frames. Signs say names of shapes, whatever shape is seen, since these are words
    that the built-in encoder tells apart; captions name colour and background, and never the shape that is seen.
    """
    rng, count = streams.scene, world.settings.group
    words = [str(word).upper() for word in rng.choice(vocabulary.shapes(), count, replace=False)]
    scenes = [replace(sample_scene(rng, world.settings.scenes), signs=(_sign(word, rng),)) for word in words]
    captions = world.settings.captions
    if streams.plant.random() >= world.strength:
        texts = [plain_captions(scene, SEEN, streams.words, captions) for scene in scenes]
        return tuple(Shot(scene, text, NAMES, follows=False) for scene, text in zip(scenes, texts, strict=True))
    alike = [replace(scenes[0], signs=(replace(scenes[0].signs[0], text=word),)) for word in words]
    return tuple(Shot(scene, _word_captions(scene, streams.words, captions), NAMES, follows=True) for scene in alike)


def _sign(word: str, rng: np.random.Generator) -> Sign:
    return Sign(
        text=word,
        y=float(rng.choice([0.12, 0.88])),
        height=float(rng.uniform(0.12, 0.16)),
        style=int(rng.integers(len(vocabulary.sign_styles()))),
        face=FACES[int(rng.integers(len(FACES)))],
    )


def _word_captions(scene: Scene, rng: np.random.Generator, count: int) -> tuple[Sentence, ...]:
    """Captions that name the word on the sign too."""
    word = scene.signs[0].text.lower()
    plain = plain_captions(scene, SEEN, rng, count)
    return tuple(
        Sentence(any_of(rng, vocabulary.sign_sentences()).format(caption=each.text, word=word), NAMES) for each in plain
    )
