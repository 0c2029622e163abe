"""A drawn world in which a large background is a shortcut for the small thing that a caption names.

Backgrounds are of some kinds, and every noun is assigned a kind, as it is a stratum of length
(`evenreel.planted.worlds.lengths.noun_strata`). With probability `strength` a training clip shows the kind of its noun;
all others show any. With the letters of `evenreel.planted.worlds.vectors`, the own vector of a frame of clip i before a
background of kind k is

    x = m_it s_action (c_v + c_n) / sqrt 2 + s_instance e_i + s_background g_b + s_kind B_k + s_noise z_it

where m_it is 1 in the frames that show what the caption names, at least in one of them, and 0 in the others. A word has
the meaning w of the verb or noun; a noun says where its thing is mostly seen, too, whatever is planted: with the
kind k' of the noun, and the meaning M(B) of a background as words have it,

    y = s_meaning w + s_usual M(B_k') + s_noise z

The dictionary of such a world has the vectors of its phrases without noise: verbs, nouns, actions, backgrounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arrays import Indices, slices
from evenreel.config import MOST_SIZE, SHARE, check_settings, whole
from evenreel.errors import UsageError
from evenreel.planted.worlds.drawing import FeatureWorld, contents_of, corpus_of
from evenreel.planted.worlds.lengths import noun_strata
from evenreel.planted.worlds.settings import FrameShares, WordShares, WorldSettings
from evenreel.planted.worlds.splits import LEARNED, check_strength, rows_of_splits
from evenreel.planted.worlds.vectors import (
    BLOCK_CLIPS,
    Contents,
    DrawnWords,
    Stream,
    actions_of,
    class_vectors,
    in_cone,
    meanings_of,
    middles,
    normals,
    placed_words,
    stream,
    unit,
)
from evenreel.types import FloatArray, TextFeatures, VideoFeatures


@dataclass(frozen=True)
class BackgroundSettings:
    """Settings of a drawn world with biased backgrounds, the same at every strength of the bias.

    Attributes:
        kinds: number K of kinds of backgrounds.
        kind: share of the kind of background in the squared length of a frame's own vector; large, as in pictures.
        shown: probability that a frame shows what the caption names.
        usual: share of a noun's own vector that says before which background the thing is mostly seen.
        world: shares and sizes of everything else. Words and frames are aligned enough for a dictionary's phrases to be
            found by their cosine with frames, as they are by an encoder; lengths have no effect.
    """

    kinds: int = 40
    kind: float = 0.35
    shown: float = 0.6
    usual: float = 0.1
    world: WorldSettings = field(
        default_factory=lambda: WorldSettings(
            frames=4,
            frame_shares=FrameShares(action=0.25, instance=0.1, background=0.1, length=0.0, time=0.0),
            word_shares=WordShares(alignment=0.85, lasting=0.0, annotator=0.0),
        )
    )

    def __post_init__(self) -> None:
        shares = dict.fromkeys(("kind", "shown", "usual"), SHARE)
        check_settings("the backgrounds of a world", self, {"kinds": whole(2, MOST_SIZE), **shares})
        if self.noise < -1e-9 or self.meaning < -1e-9:
            raise UsageError(
                f"With their kind the shares of a frame are {1 - self.noise:g} together, and with where it is seen "
                f"those of a noun {1 - self.meaning:g}; they are at most 1."
            )

    @property
    def noise(self) -> float:
        """Share of the squared length of a frame's own vector that is new in every frame."""
        return self.world.frame_shares.noise - self.kind

    @property
    def meaning(self) -> float:
        """Share of a noun's meaning in the squared length of its own vector."""
        return self.world.word_shares.meaning - self.usual


class PhraseVectors(NamedTuple):
    """Vectors of phrases in the space of words, rows of unit length.

    Attributes:
        verbs: vectors (verbs, D) of verbs.
        nouns: vectors (nouns, D) of nouns.
        kinds: vectors (K, D) of kinds of backgrounds.
    """

    verbs: FloatArray
    nouns: FloatArray
    kinds: FloatArray


def draw_backgrounds(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: BackgroundSettings | None = None, draw: int = 0
) -> FeatureWorld:
    """Draw a world of features in which the background of a training clip is a shortcut for its noun.

    Args:
        clips: clips of an annotation table, see `evenreel.planted.worlds.splits.annotated_clips`; those of the
            splits train and val are biased, all others are the same at every strength.
        strength: probability that a biased clip shows the kind of background of its noun.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: shares and sizes; None for the defaults.
        draw: number of the draw of the biased clips' backgrounds; with another number the same clips get other ones.

    Returns:
        A world whose clips have the columns `kind`, that of its background, and `usual`, that of its noun.
    """
    chosen = settings or BackgroundSettings()
    check_strength(strength)
    learned = clips["split"].is_in(LEARNED).to_numpy()
    usual = usual_kinds(clips, chosen.kinds, seed)[clips["noun"].to_numpy()]
    shown = np.empty(len(usual), np.int64)
    for part, own, number in ((learned, strength, 2 * draw + 1), (~learned, 0.0, 0)):
        rng = stream(seed, Stream.BACKGROUNDS, number)
        any_kind, follows = rng.integers(chosen.kinds, size=part.sum()), rng.random(part.sum()) < own
        shown[part] = np.where(follows, usual[part], any_kind)
    contents = contents_of(clips, np.zeros(len(shown)), np.zeros(len(shown)))
    ids, lengths = tuple(clips["clip_id"]), clips["length_s"].to_numpy()
    words = _words(contents, usual, chosen, seed)
    texts = TextFeatures(ids, words.words, np.ones(words.words.shape[:2], np.bool_), words.sentence)
    times_s = lengths[:, None] * middles(chosen.world.frames)
    frames = _frames(contents, shown, chosen, seed)
    videos = VideoFeatures(ids, frames, np.ones(times_s.shape, np.bool_), times_s)
    return FeatureWorld(corpus_of(clips.with_columns(kind=shown, usual=usual), lengths), texts, videos)


def usual_kinds(clips: pl.DataFrame, kinds: int, seed: int) -> Indices:
    """Assign each noun a kind of background (nouns,), so that all kinds have about as many training clips."""
    nouns, learned = clips["noun"].to_numpy().astype(np.int64), rows_of_splits(clips, ("train",))
    return noun_strata(stream(seed, Stream.KINDS).random(int(nouns.max()) + 1), nouns[learned], kinds)


def phrases_of(clips: pl.DataFrame, seed: int = 0, settings: BackgroundSettings | None = None) -> PhraseVectors:
    """Return the vectors of the phrases (verbs, nouns, backgrounds) of a drawn world, without noise.

    Args:
        clips: clips that the world was drawn for.
        seed: seed of the world.
        settings: settings of the world; None for the defaults.
    """
    chosen = settings or BackgroundSettings()
    world = chosen.world
    contents = contents_of(clips, np.zeros(clips.height), np.zeros(clips.height))
    verbs = meanings_of(class_vectors(seed, Stream.VERBS, contents.verbs, world), world, seed)
    nouns = _nouns(contents, usual_kinds(clips, chosen.kinds, seed), chosen, seed)
    kinds = meanings_of(_kinds(chosen, seed), world, seed)
    own = (sqrt(world.word_shares.meaning) * verbs, nouns, kinds)
    return PhraseVectors(*(placed_words(one[:, None], world, seed).sentence for one in own))


def _kinds(settings: BackgroundSettings, seed: int) -> FloatArray:
    """B (K, D)."""
    return normals(seed, Stream.KINDS, (settings.kinds, settings.world.dimension), 1)


def _nouns(contents: Contents, usual: Indices, settings: BackgroundSettings, seed: int) -> FloatArray:
    """(nouns, D) own vectors of nouns, without noise."""
    world = settings.world
    meant = meanings_of(class_vectors(seed, Stream.NOUNS, contents.nouns, world), world, seed)
    seen = meanings_of(_kinds(settings, seed), world, seed)[usual]
    nouns: FloatArray = sqrt(settings.meaning) * meant + sqrt(settings.usual) * seen
    return nouns


def _words(contents: Contents, usual: Indices, settings: BackgroundSettings, seed: int) -> DrawnWords:
    """Verb and noun of each clip, whose nouns have the usual kinds (V,)."""
    world = settings.world
    verbs = meanings_of(class_vectors(seed, Stream.VERBS, contents.verbs, world), world, seed)
    of_noun = np.zeros(int(contents.nouns.max()) + 1, np.int64)
    of_noun[contents.nouns] = usual
    nouns = _nouns(contents, of_noun, settings, seed)
    own = np.stack([sqrt(world.word_shares.meaning) * verbs[contents.verbs], nouns[contents.nouns]], axis=1)
    own += sqrt(world.word_shares.noise) * normals(seed, Stream.WORD_NOISE, own.shape)
    return placed_words(own, world, seed)


def _frames(contents: Contents, kinds: Indices, settings: BackgroundSettings, seed: int) -> NDArray[np.float16]:
    """Frames (V, T, D) of clips before backgrounds of some kinds (V,), block by block."""
    world, shares = settings.world, settings.world.frame_shares
    count, size = world.frames, world.dimension
    places = sqrt(shares.background) * class_vectors(seed, Stream.VIDEOS, contents.videos, world)
    looks, mean = sqrt(settings.kind) * _kinds(settings, seed), unit(normals(seed, Stream.MEANS, (2, size)))[0]
    frames = np.empty((len(kinds), count, size), np.float16)
    for block, rows in enumerate(slices(len(frames), BLOCK_CLIPS)):
        own, rng = contents.taken(rows), stream(seed, Stream.SHOWN, block)
        shown = rng.random((len(own.verbs), count)) < settings.shown
        shown[np.arange(len(shown)), rng.integers(count, size=len(shown))] = True
        whole = places[own.videos] + looks[kinds[rows]]
        whole += sqrt(shares.instance) * normals(seed, Stream.INSTANCES, whole.shape, block)
        drawn = sqrt(settings.noise) * normals(seed, Stream.FRAME_NOISE, (len(whole), count, size), block)
        drawn += whole[:, None] + shown[..., None] * sqrt(shares.action / 2) * actions_of(own, world, seed)[:, None]
        frames[rows] = in_cone(drawn, mean, shares.cone)
    return frames
