"""Clips of which half a caption can be seen and the other half is written on a sign: small material for studies of TCD.

A caption is a scene and a word. Frames are noisy copies of the scene, which four clips share; a sign says the word in
one of three windows, and another one is shown all the time. Sentences are sums of the vectors of their words.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache, partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus import make_corpus
from evenreel.features.windows import EMPTY, Change, Sampled, written
from evenreel.features.word_changes import WordChanges, changed_track
from evenreel.papers import CorpusPart, StudySettings, Workspace, part_of, study_recipe
from evenreel.papers.workspace import ClipText, ScreenText
from evenreel.types import OnScreen, TextFeatures, TextTrack, VideoFeatures
from tests.papers.offset_pairs import unit

DIMENSION, FRAMES, WINDOWS = 16, 4, 3
TRAIN, TEST = 40, 24
WORDS = ("gate", "exit", "cafe", "taxi", "bank", "park", "metro", "hotel")
EVERYWHERE = "NEWS today"
LENGTH_S = 6.0
BOX = (0.0, 0.0, 1.0, 1.0)
QUICK = (
    "loop.steps=2", "loop.epochs=null", "loop.batch_size=8", "loop.device=cpu", "data.held_out=0.2",
)  # fmt: skip


@cache
def sign_material() -> Workspace:
    train, test = (
        sign_part(split, count, seed) for seed, (split, count) in enumerate({"train": TRAIN, "test": TEST}.items())
    )
    whole = make_corpus(
        pl.concat([train.corpus.clips, test.corpus.clips]), pl.concat([train.corpus.captions, test.corpus.captions])
    )
    return Workspace(test=test.corpus, features=test, train=train, corpus=whole, learned=train.corpus)


def quick_settings(*changes: str, seeds: int = 1) -> StudySettings:
    """Two steps of a TCD."""
    return StudySettings(recipe=study_recipe(changes=(*QUICK, *changes), default="tcd/tcd.yaml"), seeds=seeds)


def sign_part(split: str, count: int, seed: int) -> CorpusPart:
    random = np.random.default_rng(seed)
    ids = tuple(f"{split} {row}" for row in range(count))
    words = [str(word) for word in random.choice(WORDS, count)]
    scenes = np.random.default_rng(7).standard_normal((count, DIMENSION))[np.arange(count) // 4]
    frames = unit(scenes[:, None] + 0.5 * random.standard_normal((count, FRAMES, DIMENSION)))
    times_s = np.tile((np.arange(FRAMES) + 0.5) * LENGTH_S / FRAMES, (count, 1))
    tracks = {name: signs_of(word, row % WINDOWS) for row, (name, word) in enumerate(zip(ids, words, strict=True))}
    plain = VideoFeatures(ids, frames, np.ones((count, FRAMES), np.bool_), times_s)

    def worded(changes: WordChanges) -> VideoFeatures:
        left = {name: texts_of(own, partial(_changed, name, changes)) for name, own in tracks.items()}
        return with_signs(plain, left, said=changes.empty == "caption")

    def read() -> dict[str, ClipText]:
        return {name: ClipText(own, texts_of(own)) for name, own in tracks.items()}

    clips = pl.DataFrame({"clip_id": ids, "split": split})
    texts = [f"{word} {row // 4}" for row, word in enumerate(words)]
    captions = pl.DataFrame({"caption_id": [f"{one} c" for one in ids], "clip_id": ids, "text": texts})
    sentence = unit(unit(scenes) + np.stack([sentence_of(word) for word in words]))
    features = TextFeatures(tuple(captions["caption_id"]), sentence[:, None], np.ones((count, 1), np.bool_), sentence)
    return part_of(make_corpus(clips, captions), features, worded(WordChanges()), ScreenText(read, worded))


def with_words(part: CorpusPart, changes: WordChanges) -> CorpusPart:
    """The part with other words, as `changed_track` makes them."""
    assert part.on_screen is not None
    return replace(part, videos=part.on_screen.changed(changes))


def signs_of(word: str, place: int) -> tuple[TextTrack, ...]:
    """A word in one of the windows, and two others in all of them."""
    start_s = (place + 0.25) * LENGTH_S / WINDOWS
    return (
        TextTrack(EVERYWHERE, 0.8, 0.1, LENGTH_S - 0.1, BOX),
        TextTrack(word.upper(), 0.9, start_s, start_s + 0.5 * LENGTH_S / WINDOWS, BOX),
    )


def _changed(clip_id: str, changes: WordChanges, track: TextTrack, window: int) -> TextTrack | None:
    return changed_track(track, clip_id, window, changes)


def texts_of(tracks: tuple[TextTrack, ...], change: Change | None = None) -> tuple[str, ...]:
    middles_s = (np.arange(FRAMES) + 0.5) * LENGTH_S / FRAMES
    edges_s = np.arange(FRAMES + 1) * LENGTH_S / FRAMES
    sampled = Sampled(middles_s, np.stack([edges_s[:-1], edges_s[1:]], axis=1))
    return tuple(one.text for one in written(tracks, sampled, WINDOWS, lambda text: True, exact=True, change=change))


def with_signs(plain: VideoFeatures, left: dict[str, tuple[str, ...]], *, said: bool) -> VideoFeatures:
    texts = [[text or (EMPTY if said else "") for text in left[name]] for name in plain.ids]
    windows = np.stack([np.stack([sentence_of(text) for text in own]) for own in texts])
    mask = np.array([[bool(text) for text in own] for own in texts])
    certain = 0.85 * mask.astype(np.float32)
    return VideoFeatures(plain.ids, plain.frames, plain.frame_mask, plain.times_s, OnScreen(windows, mask, certain))


def sentence_of(text: str) -> NDArray[np.float32]:
    """(D,) of unit length; zero for no text."""
    if not text:
        return np.zeros(DIMENSION, np.float32)
    return unit(np.sum([_word(one.casefold()) for one in text.split()], axis=0))


def _word(word: str) -> NDArray[np.float64]:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest())
    return np.random.default_rng(seed).standard_normal(DIMENSION)
