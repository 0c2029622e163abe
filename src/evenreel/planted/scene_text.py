"""The planted bias `scene_text`: clips that differ in nothing but a word, on their signs or spoken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from evenreel.planted.captions import any_of
from evenreel.planted.harder import Harder
from evenreel.planted.scenes import FACES, Scene, SignBoard, sample_scene
from evenreel.planted.shots import RandomStreams, Sentence, Shot, World, plain_captions
from evenreel.planted.vocabulary import shapes, sign_sentences, sign_styles, spoken_captions, spoken_sentences
from evenreel.planted.voices import SpokenSentence
from evenreel.speech.synthesis import VOICES

SEEN = ("colour", "background")
NAMES = (*SEEN, "word")

_SPOKEN_S = 1.8
"""The longest of the sentences, about."""


def draw(streams: RandomStreams, world: World) -> tuple[Shot, ...]:
    """Draw a group of clips, each with a sign, which with probability `strength` differ in the sign's word alone.

    With `PlantSettings.spoken` a voice says the word of some clips, in place of their sign. `biases.json` and
    `spoken.json` have the shares that result, and what holds in the test split.
    """
    rng, count, settings = streams.scene, world.settings.group, world.settings
    words = [str(word).upper() for word in rng.choice(shapes(), count, replace=False)]
    scenes = [replace(sample_scene(rng, settings.scenes), signs=(_sign(word, rng, settings.harder),)) for word in words]
    said = streams.voice.random(count) < settings.spoken
    if streams.plant.random() >= world.strength:
        texts = [plain_captions(scene, SEEN, streams.words, settings.captions) for scene in scenes]
        shots = [Shot(scene, text, NAMES, follows=False) for scene, text in zip(scenes, texts, strict=True)]
    else:
        alike = [replace(scenes[0], signs=(replace(scenes[0].signs[0], text=word),)) for word in words]
        shots = [
            Shot(scene, _word_captions(scene, streams.words, settings.captions, spoken=spoken), NAMES, follows=True)
            for scene, spoken in zip(alike, said, strict=True)
        ]
    if settings.signs > 1:
        noise = [shape.upper() for shape in shapes() if shape.upper() not in words]
        shots = [_among_others(shot, rng, noise, settings.signs - 1) for shot in shots]
    return tuple(_spoken(shot, streams.voice) if spoken else shot for shot, spoken in zip(shots, said, strict=True))


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


def _word_captions(scene: Scene, rng: np.random.Generator, count: int, *, spoken: bool) -> tuple[Sentence, ...]:
    """Captions that name the word on the sign too, or the one that is said in place of it."""
    word, patterns = scene.signs[0].text.lower(), spoken_captions() if spoken else sign_sentences()
    plain = plain_captions(scene, SEEN, rng, count)
    return tuple(Sentence(any_of(rng, patterns).format(caption=each.text, word=word), NAMES) for each in plain)


def _spoken(shot: Shot, rng: np.random.Generator) -> Shot:
    """The clip with the word of its named sign in a sentence that is said, and without that sign."""
    scene, word = shot.scene, shot.named_word or ""
    sentence = SpokenSentence(
        text=any_of(rng, spoken_sentences()).format(word=word.lower()),
        voice=any_of(rng, VOICES),
        start_s=round(float(rng.uniform(0, max(0.0, scene.duration_s - _SPOKEN_S))), 2),
    )
    signs = (*scene.signs[: shot.named_sign], *scene.signs[shot.named_sign + 1 :])
    return replace(shot, scene=replace(scene, signs=signs, spoken=(sentence,)), said=word)
