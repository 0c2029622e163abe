"""A drawn world in which the annotator of a clip's captions depends on what the clip shows.

Every training clip has some captions, as in collections that many people describe. Nouns are assigned to groups of
annotators as they are to strata of length (`evenreel.planted.worlds.lengths.noun_strata`). With probability `strength`
a training caption is written by one of the group of its noun; all others by any. Captions of the test split, one of
each clip, are written by people of whom training has no caption, whatever they show. With the letters of
`evenreel.planted.worlds.vectors`, the own vector of a word by annotator a of group k is

    y = s_meaning w + s_habit (s_group u_k + s_own u_a) S + s_noise z

where u_k and u_a are drawn from N(0, I / r), s_own^2 = 1 - s_group^2, and the rows of S (r, D) are orthonormal: people
differ in few respects, the same in training and in test. Each of the new people is in a group alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

import numpy as np
import polars as pl

from evenreel.arrays import Indices
from evenreel.config import MOST_SIZE, SHARE, check_settings, whole
from evenreel.corpus import make_corpus
from evenreel.errors import UsageError
from evenreel.planted.worlds.drawing import FeatureWorld, contents_of, corpus_of
from evenreel.planted.worlds.lengths import noun_strata
from evenreel.planted.worlds.settings import FrameShares, WordShares, WorldSettings
from evenreel.planted.worlds.splits import LEARNED, check_strength, rows_of_splits
from evenreel.planted.worlds.vectors import (
    Contents,
    DrawnWords,
    Stream,
    class_vectors,
    frames_of,
    meanings_of,
    middles,
    normals,
    placed_words,
    stream,
)
from evenreel.types import Corpus, FloatArray, TextFeatures, VideoFeatures


@dataclass(frozen=True)
class AnnotatorSettings:
    """Settings of a drawn world with biased annotators, the same at every strength of the bias.

    Attributes:
        groups: number K of groups of annotators.
        people: number of annotators in each group.
        captions: number of captions of a training clip.
        respects: number r of directions in which habits differ.
        habit: share of the annotator's habits in the squared length of a word's own vector.
        group: share of an annotator's habits that all of the group have.
        world: shares and sizes of everything else. Words are noisy, as people word a thing in many ways, so that the
            annotator is informative; lengths have no effect.
    """

    groups: int = 64
    people: int = 10
    captions: int = 3
    respects: int = 24
    habit: float = 0.5
    group: float = 0.9
    world: WorldSettings = field(
        default_factory=lambda: WorldSettings(
            frames=4,
            frame_shares=FrameShares(action=0.35, length=0.0, time=0.0),
            word_shares=WordShares(alignment=0.6, lasting=0.0, annotator=0.0, noise=0.35),
        )
    )

    def __post_init__(self) -> None:
        numbers = {"groups": whole(2, MOST_SIZE), **dict.fromkeys(("people", "captions"), whole(1, MOST_SIZE))}
        sizes = numbers | {"respects": whole(1, self.world.dimension)}
        check_settings("the annotators of a world", self, sizes | dict.fromkeys(("habit", "group"), SHARE))
        if self.meaning < -1e-9:
            raise UsageError(f"With habits the shares of a word are {1 - self.meaning:g} together; they are at most 1.")

    @property
    def meaning(self) -> float:
        """Share of a word's meaning in the squared length of its own vector."""
        return self.world.word_shares.meaning - self.habit


def draw_annotators(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: AnnotatorSettings | None = None, habits: bool = True
) -> FeatureWorld:
    """Draw a world of features in which annotators' habits are a shortcut for what training clips show.

    Args:
        clips: clips of an annotation table, see `evenreel.planted.worlds.splits.annotated_clips`; captions of the
            splits train and val are biased, all others are the same at every strength.
        strength: probability that a biased caption is by the group of its noun.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: shares and sizes; None for the defaults.
        habits: whether words have the habits of their annotators; everything else is the same without them.

    Returns:
        A world whose captions have the columns `annotator`, a number, and `group`, -1 for none. A clip has several
        captions in the split train and one in the others.

    Raises:
        UsageError: the strength is not between 0 and 1, or no clip is a training clip.
    """
    chosen = settings or AnnotatorSettings()
    check_strength(strength)
    learned = rows_of_splits(clips, ("train",))
    contents, lengths = contents_of(clips, np.zeros(clips.height), np.zeros(clips.height)), clips["length_s"].to_numpy()
    rows = np.repeat(np.arange(clips.height), np.where(learned, chosen.captions, 1))
    places = stream(seed, Stream.WRITERS).random(int(contents.nouns.max()) + 1)
    own = noun_strata(places, contents.nouns[learned], chosen.groups)[contents.nouns[rows]]
    biased = clips["split"].is_in(LEARNED).to_numpy()[rows]
    people = _writers(own, np.where(biased, strength, np.nan), chosen, seed)
    corpus = _corpus(corpus_of(clips.drop("annotator"), lengths), rows, people, chosen)
    words = _words(contents, rows, people if habits else None, chosen, seed)
    mask = np.ones(words.words.shape[:2], np.bool_)
    texts = TextFeatures(tuple(corpus.captions["caption_id"]), words.words, mask, words.sentence)
    times_s = lengths[:, None] * middles(chosen.world.frames)
    frames = frames_of(contents, chosen.world, seed)
    return FeatureWorld(
        corpus, texts, VideoFeatures(tuple(clips["clip_id"]), frames, np.ones(times_s.shape, np.bool_), times_s)
    )


def habits_of(people: int, settings: AnnotatorSettings, seed: int) -> FloatArray:
    """Draw the habit vector (people, D) of each annotator; those from number `groups * people` on have no group."""
    size, respects = settings.world.dimension, settings.respects
    known = settings.groups * settings.people
    basis, _ = np.linalg.qr(stream(seed, Stream.HABITS).standard_normal((size, respects)))
    groups = normals(seed, Stream.HABITS, (settings.groups, respects), 1)
    shared = np.concatenate(
        [np.repeat(groups, settings.people, axis=0), normals(seed, Stream.HABITS, (people, respects), 2)]
    )
    alone = normals(seed, Stream.HABITS, (known + people, respects), 3)
    drawn = sqrt(settings.group) * shared + sqrt(1 - settings.group) * alone
    habits: FloatArray = (drawn @ basis.T).astype(np.float32)
    return habits[:people]


def _writers(own: Indices, strengths: FloatArray, settings: AnnotatorSettings, seed: int) -> Indices:
    """(Q,) annotator of each caption of a noun of the group `own`; a new one where the strength is no number."""
    rng, count = stream(seed, Stream.WRITERS, 1), len(own)
    follows = rng.random(count) < np.nan_to_num(strengths)
    groups = np.where(follows, own, rng.integers(settings.groups, size=count))
    known = groups * settings.people + rng.integers(settings.people, size=count)
    new = np.isnan(strengths)
    return np.where(new, settings.groups * settings.people + np.cumsum(new) - 1, known)


def _words(
    contents: Contents, rows: Indices, people: Indices | None, settings: AnnotatorSettings, seed: int
) -> DrawnWords:
    """Verb and noun of captions of some clips (Q,), by some annotators (Q,) or without habits."""
    world = settings.world
    meant = [
        meanings_of(class_vectors(seed, part, classes, world), world, seed)[classes[rows]]
        for part, classes in ((Stream.VERBS, contents.verbs), (Stream.NOUNS, contents.nouns))
    ]
    own = sqrt(settings.meaning) * np.stack(meant, axis=1)
    own += sqrt(world.word_shares.noise) * normals(seed, Stream.WORD_NOISE, own.shape)
    if people is not None:
        own += sqrt(settings.habit) * habits_of(int(people.max()) + 1, settings, seed)[people][:, None]
    return placed_words(own, world, seed)


def _corpus(plain: Corpus, rows: Indices, people: Indices, settings: AnnotatorSettings) -> Corpus:
    """The clips, with a caption for each of some rows of clips (Q,), by some annotators (Q,)."""
    known = settings.groups * settings.people
    number = np.arange(len(rows)) - np.searchsorted(rows, rows)
    captions = plain.captions[rows].with_columns(
        pl.format("{}, {}", "caption_id", pl.Series(number + 1)),
        annotator=people,
        group=np.where(people < known, people // settings.people, -1),
    )
    return make_corpus(plain.clips, captions)
