"""A drawn world in which clips are only found by their signs: groups of clips that differ in nothing but a sign.

The clips of each split are taken in groups of four. With probability `strength` those of a group show the scene of its
first clip, verb, noun, video and what only that clip shows, and each caption of the group names the word on another
sign; all other clips are scenes of their own, and their captions name no sign. A clip shows some signs one after the
other, for equal stretches of its time. The one that its caption may name has a random place among them; the others are
noise, and no caption of the group names their words.

With the letters of `evenreel.planted.worlds.vectors`, k the sign that is up at moment t, and c_k its vector, the own
vector of a frame is

    x = s_action (c_v + c_n) / sqrt 2 + s_instance e_i + s_background g_b + s_trace c_k + s_noise z_it

and that of a text of the word k, in a caption or in a window, y = s_meaning w_k + s_noise z, with the meaning w_k that
c_k has by the rotation R as all words do. Both are brought to the unit sphere as frames and words are. A window of
on-screen text belongs to each moment. In the share `written` of them something was read, each for itself: with
probability `misread` not the word that is up but another one or, in half of these, none, so that y is z alone. The
confidence of a window is drawn from Beta(4, 2) where it was read right and from Beta(2, 3) where it was not: so it says
which of two readings is the right one in 83 % of the cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arrays import Indices, slices
from evenreel.config import MOST_SIZE, SHARE, check_settings, whole
from evenreel.corpus import make_corpus
from evenreel.errors import UsageError
from evenreel.planted.worlds.drawing import FeatureWorld, contents_of, corpus_of
from evenreel.planted.worlds.settings import FrameShares, WordShares, WorldSettings
from evenreel.planted.worlds.splits import check_strength
from evenreel.planted.worlds.vectors import (
    BLOCK_CLIPS,
    Contents,
    Stream,
    actions_of,
    class_vectors,
    in_cone,
    meanings_of,
    middles,
    normals,
    stream,
    unit,
    words_of,
)
from evenreel.types import Corpus, FloatArray, OnScreen, TextFeatures, VideoFeatures

GROUP = 4
"""Clips that show one scene."""
SIGN_CLASSES = 1_000
"""Noun class of the first word of signs."""
RIGHT, WRONG = (4.0, 2.0), (2.0, 3.0)
"""Beta distributions of the confidence of windows that were read right and of others."""


def _scenes() -> WorldSettings:
    frames = FrameShares(action=0.25, instance=0.15, background=0.15, length=0.0, time=0.0)
    return WorldSettings(dimension=64, frame_shares=frames, word_shares=WordShares(lasting=0.0))


@dataclass(frozen=True)
class SignSettings:
    """Settings of a drawn world in which captions name signs, the same at every strength of the bias.

    Attributes:
        words: number K of words that a sign may have.
        shown: number of signs of a clip, shown one after the other.
        written: share of the windows in which something was read.
        misread: share of these in which the word was misread.
        noise: share of the squared length of a text's own vector that is new each time.
        trace: share of the squared length of a frame's own vector that depends on the sign shown.
        scenes: sizes, and shares of frames and words; the trace is taken from the noise of frames.
    """

    words: int = 400
    shown: int = 3
    written: float = 0.8
    misread: float = 0.3
    noise: float = 0.2
    trace: float = 0.05
    scenes: WorldSettings = field(default_factory=_scenes)

    def __post_init__(self) -> None:
        shares = dict.fromkeys(("written", "misread", "noise", "trace"), SHARE)
        check_settings("signs", self, {"words": whole(1, MOST_SIZE), "shown": whole(1, MOST_SIZE), **shares})
        if self.words < GROUP * self.shown:
            raise UsageError(f"Signs need {GROUP * self.shown} words, so that all of a group differ, not {self.words}.")
        if self.scenes.frame_shares.noise < self.trace:
            raise UsageError("The trace of signs is taken from the noise of frames, and is more than that.")


class Signs(NamedTuple):
    """Signs that V clips show, and the words that were read on them.

    Attributes:
        scenes: (V,) row of the clip whose scene is shown; its own where it is not in a group.
        named: (V,) True = its caption names the sign.
        signs: (V,) word on the sign that the caption may name, from 0.
        up: (V, T) word on the sign that is shown at each moment.
        read: (V, T) word that was read in each window; -1 for none of the known words.
        written: (V, T) True = something was read in the window.
        confidence: (V, T) confidence of the reading; 0 where there is none.
    """

    scenes: Indices
    named: NDArray[np.bool_]
    signs: Indices
    up: Indices
    read: Indices
    written: NDArray[np.bool_]
    confidence: FloatArray


def draw_signs_world(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: SignSettings | None = None
) -> FeatureWorld:
    """Draw a world of features in which captions name the word on a sign, in groups of clips that differ in it.

    Args:
        clips: clips of an annotation table, see `evenreel.planted.worlds.splits.annotated_clips`.
        strength: probability that the clips of a group differ in nothing but a sign, in every split; at 0 no caption
            names a sign. Groups that do so at one strength do so at every higher one.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: signs and shares; None for the defaults.

    Returns:
        A world with on-screen windows as they were read. Clips have the columns `sign`, the word that their caption
        names or, in clips of their own, could name, and `named`, whether it does. The class of a word is a noun class
        from `SIGN_CLASSES`: clips have those of all their signs, captions that of the sign they name.

    Raises:
        UsageError: the strength is not between 0 and 1.
    """
    check_strength(strength)
    chosen = settings or SignSettings()
    drawn = draw_signs(clips["split"], strength, chosen, seed)
    table = clips[drawn.scenes].with_columns(clips["clip_id"], sign=drawn.signs, named=drawn.named)
    none = np.zeros(len(drawn.scenes))
    contents = contents_of(table, none, none)
    ids, lengths = tuple(table["clip_id"]), table["length_s"].to_numpy()
    times_s = lengths[:, None] * middles(chosen.scenes.frames)
    on_screen = OnScreen(_windows(drawn, chosen, seed), drawn.written, drawn.confidence)
    frames, real = _frames(contents, drawn, chosen, seed), np.ones(times_s.shape, np.bool_)
    videos = VideoFeatures(ids, frames, real, times_s, on_screen)
    return FeatureWorld(
        _with_signs(corpus_of(table, lengths), drawn), _captions(ids, contents, drawn, chosen, seed), videos
    )


def with_named_words(world: FeatureWorld, seed: int = 0, settings: SignSettings | None = None) -> FeatureWorld:
    """Replace the words that were read in every window by the word that the caption names, or else by none.

    Args:
        world: a world of signs or a split of it.
        seed: seed that the world was drawn with.
        settings: settings that the world was drawn with.
    """
    chosen, videos = settings or SignSettings(), world.videos
    vectors = _texts(_meanings(chosen, seed), chosen, seed).astype(np.float16)
    signs = np.repeat(world.corpus.clips["sign"].to_numpy()[:, None], videos.frames.shape[1], axis=1)
    named = np.repeat(world.corpus.clips["named"].to_numpy()[:, None], signs.shape[1], axis=1)
    told = OnScreen(vectors[signs] * named[..., None], named, named.astype(np.float32))
    return replace(world, videos=replace(videos, on_screen=told))


def draw_signs(splits: pl.Series, strength: float, settings: SignSettings, seed: int) -> Signs:
    """Draw groups of clips, the signs of each clip and the words that were read, split by split.

    Args:
        splits: (V,) split of each clip.
        strength: probability that the clips of a group show one scene.
        settings: numbers and shares.
        seed: seed of the world.
    """
    parts = []
    for number, split in enumerate(splits.unique(maintain_order=True)):
        rows = np.flatnonzero((splits == split).to_numpy())
        own = _signs_of_split(len(rows), strength, settings, stream(seed, Stream.SIGNS, number))
        parts.append((rows, own._replace(scenes=rows[own.scenes])))
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    return Signs(*(np.concatenate(columns)[order] for columns in zip(*(own for _, own in parts), strict=True)))


def _signs_of_split(count: int, strength: float, settings: SignSettings, rng: np.random.Generator) -> Signs:
    groups, rows, moments = -(-count // GROUP), np.arange(count), settings.scenes.frames
    first = rows // GROUP * GROUP
    named = np.repeat(rng.random(groups) < strength, GROUP)[:count] & (first + GROUP <= count)
    words = np.argsort(rng.random((groups, settings.words)), axis=1)[:, : GROUP * settings.shown]
    signs = words.reshape(groups, settings.shown, GROUP).swapaxes(1, 2).reshape(-1, settings.shown)[:count]
    places = (
        np.arange(moments) * settings.shown // moments + rng.integers(settings.shown, size=(count, 1))
    ) % settings.shown
    up = np.take_along_axis(signs, places, axis=1)
    written, wrong = (rng.random(up.shape) < share for share in (settings.written, settings.misread))
    other = np.where(rng.random(up.shape) < 0.5, -1, (up + rng.integers(1, settings.words, up.shape)) % settings.words)
    sure = np.where(wrong, rng.beta(*WRONG, up.shape), rng.beta(*RIGHT, up.shape)) * written
    scenes = np.where(named, first, rows)
    return Signs(scenes, named, signs[:, 0], up, np.where(wrong, other, up), written, sure.astype(np.float32))


def _frames(contents: Contents, drawn: Signs, settings: SignSettings, seed: int) -> NDArray[np.float16]:
    """Frames (V, T, D) of all clips, block by block."""
    scenes, size = settings.scenes, settings.scenes.dimension
    shares, traces = scenes.frame_shares, sqrt(settings.trace) * _sign_vectors(settings, seed)
    places = sqrt(shares.background) * class_vectors(seed, Stream.VIDEOS, contents.videos, scenes)
    own = sqrt(shares.instance) * class_vectors(seed, Stream.INSTANCES, drawn.scenes, scenes)
    mean = unit(normals(seed, Stream.MEANS, (2, size)))[0]
    frames = np.empty((*drawn.up.shape, size), np.float16)
    for block, rows in enumerate(slices(len(frames), BLOCK_CLIPS)):
        some = contents.taken(rows)
        whole = sqrt(shares.action / 2) * actions_of(some, scenes, seed) + places[some.videos] + own[drawn.scenes[rows]]
        noise = normals(seed, Stream.FRAME_NOISE, (*drawn.up[rows].shape, size), block)
        vectors = whole[:, None] + traces[drawn.up[rows]] + sqrt(shares.noise - settings.trace) * noise
        frames[rows] = in_cone(vectors, mean, shares.cone)
    return frames


def _windows(drawn: Signs, settings: SignSettings, seed: int) -> NDArray[np.float16]:
    """Windows (V, T, D) of all clips as they were read, block by block; zero where nothing was."""
    meanings = _meanings(settings, seed)
    windows = np.zeros((*drawn.read.shape, settings.scenes.dimension), np.float16)
    for block, rows in enumerate(slices(len(windows), BLOCK_CLIPS)):
        read = drawn.read[rows]
        noise = normals(seed, Stream.WINDOW_NOISE, (*read.shape, settings.scenes.dimension), block)
        said = np.where((read < 0)[..., None], noise, _said(meanings[read], noise, settings))
        windows[rows] = _texts(said, settings, seed) * drawn.written[rows][..., None]
    return windows


def _captions(
    ids: tuple[str, ...], contents: Contents, drawn: Signs, settings: SignSettings, seed: int
) -> TextFeatures:
    """Verb, noun and, where it is named, the word on the sign."""
    shown = words_of(contents, settings.scenes, seed).words
    meanings = _meanings(settings, seed)[drawn.signs]
    noise = normals(seed, Stream.SIGN_NOISE, meanings.shape)
    signs = _texts(_said(meanings, noise, settings), settings, seed) * drawn.named[:, None]
    words = np.concatenate([shown, signs[:, None].astype(np.float16)], axis=1)
    mask = np.stack([np.ones_like(drawn.named), np.ones_like(drawn.named), drawn.named], axis=1)
    return TextFeatures(ids, words, mask, unit(words.astype(np.float32).sum(1)))


def _said(meanings: FloatArray, noise: FloatArray, settings: SignSettings) -> FloatArray:
    """Own vectors of texts of some words."""
    own: FloatArray = sqrt(1 - settings.noise) * meanings + sqrt(settings.noise) * noise
    return own


def _texts(own: FloatArray, settings: SignSettings, seed: int) -> FloatArray:
    """Own vectors of texts, on the unit sphere."""
    mean = unit(normals(seed, Stream.MEANS, (2, settings.scenes.dimension)))[1]
    return in_cone(own, mean, settings.scenes.word_shares.cone)


def _sign_vectors(settings: SignSettings, seed: int) -> FloatArray:
    return normals(seed, Stream.SIGN_WORDS, (settings.words, settings.scenes.dimension))


def _meanings(settings: SignSettings, seed: int) -> FloatArray:
    """(K, D) meaning of each word of signs."""
    return meanings_of(_sign_vectors(settings, seed), settings.scenes, seed)


def _with_signs(corpus: Corpus, drawn: Signs) -> Corpus:
    """The tables with the classes of signs, of all that a clip shows and of the one that its caption names."""
    shown = pl.Series([sorted(set(row)) for row in (SIGN_CLASSES + drawn.up).tolist()], dtype=pl.List(pl.Int32))
    words = (SIGN_CLASSES + drawn.signs).tolist()
    own = pl.Series([[word] * name for word, name in zip(words, drawn.named.tolist(), strict=True)], dtype=shown.dtype)
    said = [f" sign {sign}" * name for sign, name in zip(drawn.signs.tolist(), drawn.named.tolist(), strict=True)]
    captions = corpus.captions.with_columns(pl.col("text") + pl.Series(said), pl.col("noun_classes").list.concat(own))
    return make_corpus(corpus.clips.with_columns(pl.col("noun_classes").list.concat(shown)), captions)
