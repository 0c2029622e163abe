"""The generative model of a drawn world: how the features of frames and words are drawn.

Every vector below is drawn once from N(0, I / D), so that it has about unit length, and s with a name is the root of
the share of that name in `FrameShares` or `WordShares`. With verb v, noun n, video b, length rank r in 0 to 1, and
moment t of T at the time tau = (t + 1/2) / T, the own vector of a frame of clip i is

    x = s_action (c_v + c_n) / sqrt 2 + s_instance e_i + s_background g_b + s_length u(r)
        + s_time sqrt 3 (2 tau - 1) r d_i + s_noise z_it

where u(r) = sum over h = 1 to H of (cos(pi h r) p_h + sin(pi h r) q_h) / sqrt H, all p and q orthonormal: lengths lie
on a curve, and with more harmonics H those are unlike that differ by less. The frame is sqrt(1 - cone) x +
sqrt(cone) m on the unit sphere, m the unit mean of all frames. A word of c in {c_v, c_n} has the meaning
w = sqrt(alignment) c + sqrt(1 - alignment) R c with one random rotation R for all words, and the own vector

    y = s_meaning w + s_lasting u'(l) + s_annotator h_a + s_noise z

with a curve u' of its own, annotator a and, for nouns alone, the rank l of the noun among all by how long its clips
are where lengths are biased (`evenreel.planted.worlds.lengths`); it is brought to the unit sphere likewise, beside a
mean of its own. A caption is its verb and its noun; its sentence is the mean of both on the unit sphere.
"""

from __future__ import annotations

from enum import IntEnum
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Indices, slices
from evenreel.planted.worlds.settings import WorldSettings
from evenreel.types import FloatArray

BLOCK_CLIPS = 1_024
"""Clips whose frames are drawn at a time, in float32."""


class Stream(IntEnum):
    """Identifiers of the separate random generators of a drawn world, so that no part changes another's draws."""

    CLIPS = 0
    VERBS = 1
    NOUNS = 2
    STRATA = 3
    LENGTHS = 4
    VIDEOS = 5
    ANNOTATORS = 6
    MEANS = 7
    ARC = 8
    ROTATION = 9
    INSTANCES = 10
    DRIFTS = 11
    FRAME_NOISE = 12
    WORD_NOISE = 13
    SOURCES = 14
    GENERATOR = 15
    MIRROR_INSTANCES = 16
    MIRROR_DRIFTS = 17
    MIRROR_NOISE = 18
    DOMAINS = 20
    QUERIES = 21
    QUERY_NOISE = 22
    SIGNS = 40
    SIGN_WORDS = 41
    SIGN_NOISE = 42
    WINDOW_NOISE = 43
    KINDS = 60
    BACKGROUNDS = 61
    SHOWN = 62
    WRITERS = 63
    HABITS = 64


class Contents(NamedTuple):
    """Contents of V clips of a drawn world, as class numbers from 0 and ranks.

    Attributes:
        verbs: (V,) verb class.
        nouns: (V,) noun class.
        videos: (V,) video that the clip is from.
        annotators: (V,) annotator of its caption.
        lengths: (V,) rank of its length among the training clips, 0 to 1.
        lasting: (V,) rank of its noun in the order in which nouns are assigned to strata of length, 0 to 1.
    """

    verbs: Indices
    nouns: Indices
    videos: Indices
    annotators: Indices
    lengths: Column
    lasting: Column

    def taken(self, rows: slice) -> Contents:
        """Select some clips, given by a slice of rows."""
        classes = (self.verbs[rows], self.nouns[rows], self.videos[rows], self.annotators[rows])
        return Contents(*classes, self.lengths[rows], self.lasting[rows])


class DrawnWords(NamedTuple):
    """Drawn features of V captions: `words` (V, 2, D), verb and noun, and `sentence` (V, D)."""

    words: NDArray[np.float16]
    sentence: FloatArray


def stream(seed: int, part: Stream, block: int = 0) -> np.random.Generator:
    """Return the random generator of one part of a drawn world; equal arguments give equal draws.

    Args:
        seed: seed of the world.
        part: what is drawn, such as the noise of frames; each part has draws of its own.
        block: number of the block of clips that is drawn, from 0, where a part is drawn `BLOCK_CLIPS` clips at a time.
    """
    return np.random.default_rng([seed, int(part), block])


def normals(seed: int, part: Stream, shape: tuple[int, ...], block: int = 0) -> FloatArray:
    """Draw random vectors of a shape (..., D) from N(0, I / D), with the random generator of one part of a world."""
    drawn = stream(seed, part, block).standard_normal(shape, dtype=np.float32)
    return drawn / sqrt(shape[-1])


def frames_of(contents: Contents, settings: WorldSettings, seed: int) -> NDArray[np.float16]:
    """Draw the frame vectors (V, T, D) of clips, block by block."""
    shape = (len(contents.verbs), settings.frames, settings.dimension)
    frames = np.empty(shape, np.float16)
    shared = sqrt(settings.frame_shares.background) * class_vectors(seed, Stream.VIDEOS, contents.videos, settings)
    for block, rows in enumerate(slices(len(frames), BLOCK_CLIPS)):
        own = contents.taken(rows)
        frames[rows] = _frames(own, shared[own.videos], settings, seed, block)
    return frames


def words_of(contents: Contents, settings: WorldSettings, seed: int, noise: Stream = Stream.WORD_NOISE) -> DrawnWords:
    """Draw the word and sentence vectors of one caption for each clip, block by block."""
    shares, size = settings.word_shares, settings.dimension
    meanings = []
    for part, classes in ((Stream.VERBS, contents.verbs), (Stream.NOUNS, contents.nouns)):
        shown = class_vectors(seed, part, classes, settings)
        meanings.append(meanings_of(shown, settings, seed))
    habits = sqrt(shares.annotator) * class_vectors(seed, Stream.ANNOTATORS, contents.annotators, settings)
    words = np.empty((len(contents.verbs), 2, size), np.float16)
    sentence = np.empty((len(words), size), np.float32)
    for block, rows in enumerate(slices(len(words), BLOCK_CLIPS)):
        own = contents.taken(rows)
        meant = np.stack([meanings[0][own.verbs], meanings[1][own.nouns]], axis=1)
        unheard = normals(seed, noise, meant.shape, block)
        meant[:, 1] += sqrt(shares.lasting / shares.meaning) * arc(own.lasting, size, seed, 1, settings.harmonics)
        drawn = sqrt(shares.meaning) * meant + habits[own.annotators][:, None] + sqrt(shares.noise) * unheard
        words[rows], sentence[rows] = placed_words(drawn, settings, seed)
    return DrawnWords(words, sentence)


def meanings_of(shown: FloatArray, settings: WorldSettings, seed: int) -> FloatArray:
    """Compute the meanings w (N, D) of words from the vectors c (N, D) by which frames show them."""
    alignment = settings.word_shares.alignment
    turned: FloatArray = shown @ rotation(settings.dimension, seed)
    return sqrt(alignment) * shown + sqrt(1 - alignment) * turned


def placed_words(own: FloatArray, settings: WorldSettings, seed: int) -> DrawnWords:
    """Scale the own vectors of words (Q, W, D) to unit length around the mean of all words, with their sentences."""
    mean = unit(normals(seed, Stream.MEANS, (2, settings.dimension)))[1]
    placed = in_cone(own, mean, settings.word_shares.cone)
    return DrawnWords(placed.astype(np.float16), unit(placed.mean(1)))


def rotation(size: int, seed: int) -> FloatArray:
    """Draw the random rotation R (D, D), for rows (c R), between what frames show and what words mean."""
    upper, _ = np.linalg.qr(stream(seed, Stream.ROTATION).standard_normal((size, size)))
    return upper.astype(np.float32)


def arc(ranks: Column, size: int, seed: int, circle: int = 0, harmonics: int = 1) -> FloatArray:
    """Map ranks (V,), 0 to 1, to points on a curve of unit vectors (V, D); with one harmonic it is a half circle.

    Args:
        ranks: (V,) positions along the curve.
        size: length D of the vectors.
        seed: seed of the world.
        circle: 0 for the curve of frames, 1 for that of words.
        harmonics: number H of waves of the curve.
    """
    turns = np.pi * np.arange(1, harmonics + 1) * np.asarray(ranks)[:, None]
    waves = np.concatenate([np.cos(turns), np.sin(turns)], axis=1) / sqrt(harmonics)
    axes, _ = np.linalg.qr(stream(seed, Stream.ARC, circle).standard_normal((size, 2 * harmonics)))
    placed: FloatArray = (waves @ axes.T).astype(np.float32)
    return placed


def in_cone(own: FloatArray, mean: FloatArray, cone: float) -> FloatArray:
    """Scale own vectors (..., D) to unit length after adding a common mean (D,) with the share `cone`."""
    return unit(sqrt(1 - cone) * own + sqrt(cone) * mean)


def _frames(own: Contents, shared: FloatArray, settings: WorldSettings, seed: int, block: int) -> FloatArray:
    """Frames of one block of clips."""
    shares, size, count = settings.frame_shares, settings.dimension, settings.frames
    whole = sqrt(shares.action / 2) * actions_of(own, settings, seed) + shared
    whole += sqrt(shares.instance) * normals(seed, Stream.INSTANCES, (len(shared), size), block)
    whole += sqrt(shares.length) * arc(own.lengths, size, seed, 0, settings.harmonics)
    ranks = own.lengths[:, None].astype(np.float32)
    drift = sqrt(3 * shares.time) * ranks * normals(seed, Stream.DRIFTS, (len(shared), size), block)
    drawn = sqrt(shares.noise) * normals(seed, Stream.FRAME_NOISE, (len(shared), count, size), block)
    drawn += whole[:, None] + drift[:, None] * (2 * middles(count) - 1).astype(np.float32)[:, None]
    mean = unit(normals(seed, Stream.MEANS, (2, size)))[0]
    return in_cone(drawn, mean, shares.cone)


def actions_of(contents: Contents, settings: WorldSettings, seed: int) -> FloatArray:
    """Return the sum c_v + c_n (V, D) of the vectors of each clip's verb and noun."""
    verbs = class_vectors(seed, Stream.VERBS, contents.verbs, settings)
    nouns = class_vectors(seed, Stream.NOUNS, contents.nouns, settings)
    actions: FloatArray = verbs[contents.verbs] + nouns[contents.nouns]
    return actions


def middles(count: int) -> Column:
    """Return the middles of `count` equal parts of the time from 0 to 1.

    >>> middles(2).tolist()
    [0.25, 0.75]
    """
    return (np.arange(count) + 0.5) / count


def class_vectors(seed: int, part: Stream, numbers: Indices, settings: WorldSettings) -> FloatArray:
    """Draw a random vector for each class number up to the largest: (N, D); a class's own depends on its number alone.

    Args:
        seed: seed of the world.
        part: part of the world that the classes are of.
        numbers: numbers from 0, such as the verb class of each clip.
        settings: settings of the world, which give D.
    """
    return normals(seed, part, (int(numbers.max()) + 1, settings.dimension))


def unit(vectors: FloatArray) -> FloatArray:
    """Scale vectors (..., D) to unit length."""
    brought: FloatArray = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return brought
