"""The planted bias `scene_text`: clips that differ in nothing but the words on their signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from evenreel.planted.captions import any_of
from evenreel.planted.harder import Harder
from evenreel.planted.scenes import FACES, Scene, SignBoard, sample_scene
from evenreel.planted.shots import RandomStreams, Sentence, Shot, World, plain_captions
from evenreel.planted.vocabulary import shapes, sign_sentences, sign_styles

SEEN = ("colour", "background")
NAMES = (*SEEN, "word")


def draw(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a group of clips, each with a sign, which with probability `strength` differ in the sign's word alone.

    `biases.json` has the shares that result, and what holds in the test split.
    """
    rng, count = streams.scene, world.settings.group
    words = [str(word).upper() for word in rng.choice(shapes(), count, replace=False)]
    scenes = [
        replace(sample_scene(rng, world.settings.scenes), signs=(_sign(word, rng, world.settings.harder),))
        for word in words
    ]
    captions = world.settings.captions
    if streams.plant.random() >= world.strength:
        texts = [plain_captions(scene, SEEN, streams.words, captions) for scene in scenes]
        shots = [Shot(scene, text, NAMES, follows=False) for scene, text in zip(scenes, texts, strict=True)]
    else:
        alike = [replace(scenes[0], signs=(replace(scenes[0].signs[0], text=word),)) for word in words]
        shots = [Shot(scene, _word_captions(scene, streams.words, captions), NAMES, follows=True) for scene in alike]
    if world.settings.signs == 1:
        return tuple(shots)
    noise = [shape.upper() for shape in shapes() if shape.upper() not in words]
    return tuple(_among_others(shot, rng, noise, world.settings.signs - 1) for shot in shots)


def _sign(word: str, rng: np.random.Generator, harder: Harder) -> SignBoard:
    return SignBoard(
        text=word,
        y=float(rng.choice([0.12, 0.88])),
        height=float(rng.uniform(0.12, 0.16)),
        style=int(rng.integers(len(sign_styles()))),
        face=FACES[int(rng.integers(len(FACES)))],
        misread=harder.misread,
        traced=harder.traced_signs,
    )


def _among_others(shot: Shot, rng: np.random.Generator, noise: Sequence[str], others: int) -> Shot:
    """The clip with other signs before and after its own, each for an equal stretch of the time."""
    scene, own = shot.scene, shot.scene.signs[0]
    said = [str(word) for word in rng.choice(noise, others, replace=False)]
    place = int(rng.integers(others + 1))
    said.insert(place, own.text)
    edges_s = [*(scene.duration_s * number / len(said) for number in range(len(said))), inf]
    spans = zip(said, edges_s, edges_s[1:], strict=False)
    signs = tuple(replace(own, text=word, start_s=start_s, end_s=end_s) for word, start_s, end_s in spans)
    return replace(shot, scene=replace(scene, signs=signs), named_sign=place)


def _word_captions(scene: Scene, rng: np.random.Generator, count: int) -> tuple[Sentence, ...]:
    """Captions that name the word on the sign too."""
    word = scene.signs[0].text.lower()
    plain = plain_captions(scene, SEEN, rng, count)
    return tuple(Sentence(any_of(rng, sign_sentences()).format(caption=each.text, word=word), NAMES) for each in plain)
