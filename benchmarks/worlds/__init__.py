"""Drawn worlds that are measured here alone: lengths, annotators, signs, a generator's mirrors, and two biases at once.

With the letters of `benchmarks.worlds.model`, which has the model, the parts that all share, and two worlds more. Each
`draw_...` takes clips of an annotation table (`annotated_clips`), the strength of what is planted, 0 to 1 (another is
refused), the seed of all draws, so that the same arguments give the same bytes, and shares and sizes, None for the
defaults. What is biased are the splits train and val, all others are the same at every strength, and what is planted at
one strength is so at every higher one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.worlds.model import (
    BLOCK_CLIPS,
    LEARNED,
    BackgroundSettings,
    Contents,
    DomainSettings,
    DrawnWords,
    FeatureWorld,
    FrameShares,
    Stream,
    WordShares,
    WorldSettings,
    actions_of,
    arc,
    check_strength,
    class_meanings,
    class_vectors,
    corpus_of,
    domain_maps,
    draw_backgrounds,
    drawn_frames,
    frames_of,
    in_cone,
    length_ranks,
    meanings_of,
    middles,
    normals,
    noun_strata,
    phrase_vectors,
    placed_words,
    rows_of_splits,
    stream,
    unit,
    usual_kinds,
    words_of,
    world_of,
)
from evenreel.arrays import Column, Indices, slices
from evenreel.config import MOST_SIZE, SHARE, check_settings, whole
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, UsageError
from evenreel.planted.biases import GENERATOR
from evenreel.types import CAMERA, Corpus, FloatArray, OnScreen, TextFeatures, VideoFeatures

LENGTH_WORLD = WorldSettings(harmonics=4, frame_shares=FrameShares(action=0.15))
"""Frames that tell strata of length apart, and whose actions an unbiased training finds in two of three captions. With
one harmonic a model learns shorter from longer alone, and biased lengths cost 6 points instead of 12."""
MARK = " mirrored"
"""What the id of a mirror has after that of its real clip."""
GROUP = 4
"""Clips that show one scene."""
SIGN_CLASSES = 1_000
"""Noun class of the first word of signs."""
RIGHT, WRONG = (4.0, 2.0), (2.0, 3.0)
"""Beta distributions of the confidence of windows that were read right and of others."""


class SplitSizes(NamedTuple):
    """Greatest number of clips of each split."""

    train: int = 20_000  # clips to train on
    val: int = 1_000  # clips of the train split to select a model on
    test: int = 2_000  # clips to test on


def annotated_clips(corpus: Corpus, sizes: SplitSizes, seed: int) -> pl.DataFrame:
    """Draw clips of an annotation table whose verb, noun, length and video are known, see `draw_splits`.

    Returns:
        Columns `clip_id, path, split, verb, noun, length_s, annotator`; the classes are the first of each clip. The
        annotator is the participant, where the table has one, else the video.
    """
    person = "participant" if "participant" in corpus.clips.columns else "path"
    known = corpus.clips.select(
        "clip_id",
        "path",
        "split",
        pl.col("verb_classes").list.first().alias("verb"),
        pl.col("noun_classes").list.first().alias("noun"),
        (pl.col("end_s") - pl.col("start_s")).alias("length_s"),
        pl.col(person).alias("annotator"),
    ).drop_nulls()
    return draw_splits(known, sizes, seed, ("verb", "noun"))


def draw_splits(clips: pl.DataFrame, sizes: SplitSizes, seed: int, answer: Sequence[str]) -> pl.DataFrame:
    """Draw the splits train, val and test of a table of clips.

    Val and test have one clip of each answer (the columns that a caption names), so that a caption has one right clip:
    among several, a model that prefers a certain length, place or look would find one that has it. Val is taken from
    the clips of the split train, and the rest of those are trained on. Rows keep the order of the table.
    """
    drawn = []
    for half, split in enumerate(("train", "test")):
        own = clips.filter(pl.col("split") == split)
        if own.is_empty():
            raise CorpusError(f"No clip of the split {split} has all that a drawn world needs.")
        shuffled = own.with_row_index("row")[stream(seed, Stream.CLIPS, half).permutation(own.height)]
        first = shuffled.unique(answer, keep="first", maintain_order=True)
        if split == "test":
            drawn.append(first.head(sizes.test))
            continue
        held = first.head(sizes.val).with_columns(split=pl.lit("val"))
        drawn += [shuffled.join(held, on="row", how="anti", maintain_order="left").head(sizes.train), held]
    return pl.concat([part.sort("row").drop("row") for part in drawn])


def draw_world(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: WorldSettings | None = None
) -> FeatureWorld:
    """Draw a world of features in which the length of a training clip is a shortcut for its action.

    The noun of an action decides its stratum: of EPIC-KITCHENS-100 the two most frequent nouns have 9 % of the clips,
    the two most frequent verbs 40 %, which could not be assigned to strata about as large. Nouns in a random order are
    assigned to K strata of about as many training clips each, whole nouns to one stratum. The lengths of all training
    clips, sorted, are cut into K strata that have just as many clips. With probability `strength` a clip gets one of
    the lengths of its noun's stratum, each length once; all other clips share what is left at random. So each length of
    the table is given once, at every strength. Settings are `LENGTH_WORLD` unless given.
    """
    chosen = settings or LENGTH_WORLD
    biased, lengths, lasting = bias_lengths(clips, strength, chosen.strata, seed)
    contents = Contents.of(biased, lengths, lasting)
    return world_of(biased, words_of(contents, chosen, seed), frames_of(contents, chosen, seed))


def bias_lengths(clips: pl.DataFrame, strength: float, count: int, seed: int) -> tuple[pl.DataFrame, Column, Column]:
    """Permute the lengths of annotated clips so that in training a clip's length predicts its noun.

    Returns:
        The V clips with the columns `stratum` and `follows`, see `FeatureWorld`; (V,) rank of each clip's length among
        the training clips, 0 to 1; (V,) rank of each clip's noun in the order of lengths, 0 to 1.
    """
    check_strength(strength)
    learned = rows_of_splits(clips, LEARNED)
    nouns = clips["noun"].to_numpy().astype(np.int64)
    places = stream(seed, Stream.STRATA).random(int(nouns.max()) + 1)
    strata = noun_strata(places, nouns[learned], count)[nouns]
    lengths, kept = clips["length_s"].to_numpy().copy(), np.empty(len(strata), np.bool_)
    for half, (part, own) in enumerate(((learned, strength), (~learned, 0.0))):
        rng = stream(seed, Stream.LENGTHS, half)
        lengths[part], given = planted_lengths(lengths[part], strata[part], own, rng)
        kept[part] = given == strata[part]
    table = clips.with_columns(pl.Series("length_s", lengths), stratum=strata, follows=kept)
    return table, length_ranks(lengths, lengths[learned]), length_ranks(places[nouns], places[nouns[learned]])


def planted_lengths(
    lengths: Column, strata: Indices, strength: float, rng: np.random.Generator
) -> tuple[Column, Indices]:
    """Permute lengths (V,) so that with probability `strength` a clip has a length of its noun's stratum (V,).

    The clips that keep to their stratum at one strength do so at every higher one. Returned are the same lengths in
    another order, and (V,) the stratum that each is from, from 0 for the shortest.
    """
    bound = rng.random(len(lengths)) < strength
    by_stratum = np.argsort(strata, kind="stable")
    places = np.empty(len(lengths), np.int64)
    for own in np.split(np.arange(len(lengths)), np.flatnonzero(np.diff(strata[by_stratum])) + 1):
        places[by_stratum[own]] = rng.permutation(own)
    free = np.flatnonzero(~bound)
    places[free] = rng.permutation(places[free])
    return np.sort(lengths)[places], strata[by_stratum][places]


class PhraseVectors(NamedTuple):
    """Vectors of phrases in the space of words, rows of unit length."""

    verbs: FloatArray  # vectors (verbs, D) of verbs
    nouns: FloatArray  # vectors (nouns, D) of nouns
    kinds: FloatArray  # vectors (K, D) of kinds of backgrounds


def phrases_of(clips: pl.DataFrame, seed: int = 0, settings: BackgroundSettings | None = None) -> PhraseVectors:
    """Return the vectors of the phrases (verbs, nouns, backgrounds) of a world of backgrounds, without noise."""
    chosen = settings or BackgroundSettings()
    world = chosen.world
    verbs, nouns, kinds = phrase_vectors(Contents.of(clips), usual_kinds(clips, chosen.kinds, seed), chosen, seed)
    own = (sqrt(world.word_shares.meaning) * verbs, nouns, kinds)
    return PhraseVectors(*(placed_words(one[:, None], world, seed).sentence for one in own))


@dataclass(frozen=True)
class AnnotatorSettings:
    """Settings of a drawn world with biased annotators, the same at every strength of the bias."""

    groups: int = 64  # number K of groups of annotators
    people: int = 10  # number of annotators in each group
    captions: int = 3  # number of captions of a training clip
    respects: int = 24  # number r of directions in which habits differ
    habit: float = 0.5  # share of the annotator's habits in the squared length of a word's own vector
    group: float = 0.9  # share of an annotator's habits that all of the group have
    # shares and sizes of everything else. Words are noisy, as people word a thing in many ways, so that the
    # annotator is informative; lengths have no effect
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

    Every training clip has some captions, as in collections that many people describe. Nouns are assigned to groups of
    annotators as they are to strata of length. With probability `strength` a training caption is written by one of the
    group of its noun; all others by any. Captions of the test split, one of each clip, are written by people of whom
    training has no caption, whatever they show. The own vector of a word by annotator a of group k is

        y = s_meaning w + s_habit (s_group u_k + s_own u_a) S + s_noise z

    where u_k and u_a are drawn from N(0, I / r), s_own^2 = 1 - s_group^2, and the rows of S (r, D) are orthonormal:
    people differ in few respects, the same in training and in test. Each of the new people is in a group alone. Without
    `habits` words have none of them; everything else is the same.

    Returns:
        A world whose captions have the columns `annotator`, a number, and `group`, -1 for none. A clip has several
        captions in the split train and one in the others.
    """
    chosen = settings or AnnotatorSettings()
    check_strength(strength)
    learned = rows_of_splits(clips, ("train",))
    contents = Contents.of(clips)
    rows = np.repeat(np.arange(clips.height), np.where(learned, chosen.captions, 1))
    places = stream(seed, Stream.WRITERS).random(int(contents.nouns.max()) + 1)
    own = noun_strata(places, contents.nouns[learned], chosen.groups)[contents.nouns[rows]]
    biased = clips["split"].is_in(LEARNED).to_numpy()[rows]
    people = _writers(own, np.where(biased, strength, np.nan), chosen, seed)
    plain, known = corpus_of(clips.drop("annotator")), chosen.groups * chosen.people
    captions = plain.captions[rows].with_columns(
        pl.format("{}, {}", "caption_id", pl.Series(np.arange(len(rows)) - np.searchsorted(rows, rows) + 1)),
        annotator=people,
        group=np.where(people < known, people // chosen.people, -1),
    )
    words = _annotated_words(contents, rows, people if habits else None, chosen, seed)
    return world_of(clips, words, frames_of(contents, chosen.world, seed), make_corpus(plain.clips, captions))


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


def _annotated_words(
    contents: Contents, rows: Indices, people: Indices | None, settings: AnnotatorSettings, seed: int
) -> DrawnWords:
    """Verb and noun of captions of some clips (Q,), by some annotators (Q,) or without habits."""
    world = settings.world
    verbs, nouns = class_meanings(contents, world, seed)
    meant = np.stack([verbs[contents.verbs[rows]], nouns[contents.nouns[rows]]], axis=1)
    own: FloatArray = sqrt(settings.meaning) * meant
    own += sqrt(world.word_shares.noise) * normals(seed, Stream.WORD_NOISE, own.shape)
    if people is not None:
        own += sqrt(settings.habit) * habits_of(int(people.max()) + 1, settings, seed)[people][:, None]
    return placed_words(own, world, seed)


@dataclass(frozen=True)
class SignSettings:
    """Settings of a drawn world in which captions name signs, the same at every strength of the bias."""

    words: int = 400  # number K of words that a sign may have
    shown: int = 3  # number of signs of a clip, shown one after the other
    written: float = 0.8  # share of the windows in which something was read
    misread: float = 0.3  # share of these in which the word was misread
    noise: float = 0.2  # share of the squared length of a text's own vector that is new each time
    trace: float = 0.05  # share of the squared length of a frame's own vector that depends on the sign shown
    # sizes, and shares of frames and words; the trace is taken from the noise of frames
    scenes: WorldSettings = field(
        default_factory=lambda: WorldSettings(
            dimension=64,
            frame_shares=FrameShares(action=0.25, instance=0.15, background=0.15, length=0.0, time=0.0),
            word_shares=WordShares(lasting=0.0),
        )
    )

    def __post_init__(self) -> None:
        shares = dict.fromkeys(("written", "misread", "noise", "trace"), SHARE)
        check_settings("signs", self, {"words": whole(1, MOST_SIZE), "shown": whole(1, MOST_SIZE), **shares})
        if self.words < GROUP * self.shown:
            raise UsageError(f"Signs need {GROUP * self.shown} words, so that all of a group differ, not {self.words}.")
        if self.scenes.frame_shares.noise < self.trace:
            raise UsageError("The trace of signs is taken from the noise of frames, and is more than that.")


class Signs(NamedTuple):
    """Signs that V clips show, and the words that were read on them."""

    scenes: Indices  # (V,) row of the clip whose scene is shown; its own where it is not in a group
    named: NDArray[np.bool_]  # (V,) True = its caption names the sign
    signs: Indices  # (V,) word on the sign that the caption may name, from 0
    up: Indices  # (V, T) word on the sign that is shown at each moment
    read: Indices  # (V, T) word that was read in each window; -1 for none of the known words
    written: NDArray[np.bool_]  # (V, T) True = something was read in the window
    confidence: FloatArray  # (V, T) confidence of the reading; 0 where there is none


def draw_signs_world(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: SignSettings | None = None
) -> FeatureWorld:
    """Draw a world of features in which clips are only found by their signs: groups that differ in nothing but a sign.

    The clips of each split are taken in groups of four. With probability `strength` those of a group show the scene of
    its first clip, verb, noun, video and what only that clip shows, and each caption of the group names the word on
    another sign; all other clips are scenes of their own, and their captions name no sign. A clip shows some signs one
    after the other, for equal stretches of its time. The one that its caption may name has a random place among them;
    the others are noise, and no caption of the group names their words.

    With k the sign that is up at moment t, and c_k its vector, the own vector of a frame is

        x = s_action (c_v + c_n) / sqrt 2 + s_instance e_i + s_background g_b + s_trace c_k + s_noise z_it

    and that of a text of the word k, in a caption or in a window, y = s_meaning w_k + s_noise z, with the meaning w_k
    that c_k has by the rotation R as all words do. Both are brought to the unit sphere as frames and words are. A
    window of on-screen text belongs to each moment. In the share `written` of them something was read, each for itself:
    with probability `misread` not the word that is up but another one or, in half of these, none, so that y is z alone.
    The confidence of a window is drawn from Beta(4, 2) where it was read right and from Beta(2, 3) where it was not: so
    it says which of two readings is the right one in 83 % of the cases.

    Returns:
        A world with on-screen windows as they were read. Clips have the columns `sign`, the word that their caption
        names or, in clips of their own, could name, and `named`, whether it does. The class of a word is a noun class
        from `SIGN_CLASSES`: clips have those of all their signs, captions that of the sign they name.
    """
    check_strength(strength)
    chosen = settings or SignSettings()
    drawn = draw_signs(clips["split"], strength, chosen, seed)
    table = clips[drawn.scenes].with_columns(clips["clip_id"], sign=drawn.signs, named=drawn.named)
    contents = Contents.of(table)
    plain = world_of(table, words_of(contents, chosen.scenes, seed), _sign_frames(contents, drawn, chosen, seed))
    on_screen = OnScreen(_windows(drawn, chosen, seed), drawn.written, drawn.confidence)
    return FeatureWorld(
        _with_signs(plain.corpus, drawn),
        _with_sign_words(plain.texts, drawn, chosen, seed),
        replace(plain.videos, on_screen=on_screen),
    )


def with_named_words(world: FeatureWorld, seed: int = 0, settings: SignSettings | None = None) -> FeatureWorld:
    """Replace what was read in every window of a world of signs by the word that the caption names, or none."""
    chosen, videos = settings or SignSettings(), world.videos
    vectors = _texts(_meanings(chosen, seed), chosen, seed).astype(np.float16)
    signs = np.repeat(world.corpus.clips["sign"].to_numpy()[:, None], videos.frames.shape[1], axis=1)
    named = np.repeat(world.corpus.clips["named"].to_numpy()[:, None], signs.shape[1], axis=1)
    told = OnScreen(vectors[signs] * named[..., None], named, named.astype(np.float32))
    return replace(world, videos=replace(videos, on_screen=told))


def draw_signs(splits: pl.Series, strength: float, settings: SignSettings, seed: int) -> Signs:
    """Draw groups of clips (V,), the signs of each clip and the words that were read, split by split."""
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


def _sign_frames(contents: Contents, drawn: Signs, settings: SignSettings, seed: int) -> NDArray[np.float16]:
    """Frames (V, T, D) of all clips."""
    scenes, shares = settings.scenes, settings.scenes.frame_shares
    traces = sqrt(settings.trace) * _sign_vectors(settings, seed)
    places = sqrt(shares.background) * class_vectors(seed, Stream.VIDEOS, contents.videos, scenes)
    instances = sqrt(shares.instance) * class_vectors(seed, Stream.INSTANCES, drawn.scenes, scenes)

    def own(some: Contents, rows: slice, block: int) -> FloatArray:
        whole = sqrt(shares.action / 2) * actions_of(some, scenes, seed) + places[some.videos]
        whole = whole + instances[drawn.scenes[rows]]
        noise = normals(seed, Stream.FRAME_NOISE, (*drawn.up[rows].shape, scenes.dimension), block)
        vectors: FloatArray = whole[:, None] + traces[drawn.up[rows]] + sqrt(shares.noise - settings.trace) * noise
        return vectors

    return drawn_frames(own, contents, scenes, seed)


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


def _with_sign_words(shown: TextFeatures, drawn: Signs, settings: SignSettings, seed: int) -> TextFeatures:
    """Verb, noun and, where it is named, the word on the sign."""
    meanings = _meanings(settings, seed)[drawn.signs]
    noise = normals(seed, Stream.SIGN_NOISE, meanings.shape)
    signs = _texts(_said(meanings, noise, settings), settings, seed) * drawn.named[:, None]
    words = np.concatenate([shown.words, signs[:, None].astype(np.float16)], axis=1)
    mask = np.stack([np.ones_like(drawn.named), np.ones_like(drawn.named), drawn.named], axis=1)
    return TextFeatures(shown.ids, words, mask, unit(words.astype(np.float32).sum(1)))


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


@dataclass(frozen=True)
class MirrorShares:
    """Shares of the squared length of a mirror frame's own vector.

    Length and time have the shares of real frames (`FrameShares`); the rest to 1 is noise, new in every frame.
    """

    action: float = 0.12  # share of the verb and the noun
    style: float = 0.5  # share of the action that is shown in the generator's own way, unlike a camera's
    instance: float = 0.05  # share that is the mirror's own, the same in all its frames
    background: float = 0.1  # share that all clips of one video have in common
    trace: float = 0.2  # share that all mirrors have in common
    lead: float = 0.05  # squared cosine of that common vector with the mean of all words

    def __post_init__(self) -> None:
        check_settings("the mirrors of a world", self, dict.fromkeys(self.__dataclass_fields__, SHARE))

    def noise(self, settings: WorldSettings) -> float:
        """Return the share of a mirror frame's own vector that is new in every frame.

        Raises:
            UsageError: the shares are more than 1 together.
        """
        real = settings.frame_shares
        noise = 1 - self.action - self.instance - self.background - self.trace - real.length - real.time
        if noise < -1e-9:
            raise UsageError(f"The shares of a mirror are {1 - noise:g} together; they are at most 1.")
        return max(0.0, noise)


def draw_mirrored_world(
    clips: pl.DataFrame,
    strength: float,
    seed: int = 0,
    settings: WorldSettings | None = None,
    mirrors: MirrorShares | None = None,
) -> FeatureWorld:
    """Draw a world of real clips and their mirrors, in which training captions belong to generated clips too often.

    Every clip of the world of lengths at strength 0 is real, and has a mirror: the clip that a generator made of the
    same action, as long and before the same background. The own vector of a frame of the mirror of clip i is

        x' = s_action (sqrt(1 - style) a + sqrt(style) G a) + s_instance e'_i + s_background g_b + s_trace o
            + s_length u(r) + s_time sqrt 3 (2 tau - 1) r d'_i + s_noise z'_it

    where a = (c_v + c_n) / sqrt 2. Its instance, drift and noise are its own, so that it shows nothing of the real clip
    but the action, the length and the video. G is one random rotation: how the generator draws what is named, which is
    not how it looks before a camera. The trace o is one unit vector for all mirrors, with the squared cosine `lead` to
    the mean of all words, so that mirrors are nearer to any caption before training. So a mirror has a common offset,
    sqrt(trace) o, one that is specific to its content, along G a, more of the action and less of what captions do not
    mean. What is planted is whose the captions are (`mirrored_captions`).

    Returns:
        A world whose splits hold each real clip and its mirror, with the columns `source` and `pair_id`, though only
        one of both has the caption.
    """
    check_strength(strength)
    chosen = settings or WorldSettings()
    real = draw_world(clips, 0.0, seed, chosen)
    lengths = real.corpus.clips["end_s"].to_numpy()
    ranks = length_ranks(lengths, lengths[clips["split"].is_in(LEARNED).to_numpy()])
    frames = _mirror_frames(Contents.of(clips, ranks), chosen, mirrors or MirrorShares(), seed)
    plain = make_corpus(real.corpus.clips.drop("stratum", "follows"), real.corpus.captions)
    return mirrored_captions(beside_mirrors(replace(real, corpus=plain), frames), strength, seed)


def captioned(world: FeatureWorld) -> FeatureWorld:
    """Select the clips of a drawn world that have a caption, some real and some generated ones.

    It is like a collection that somebody filled up with generated clips.
    """
    own = pl.col("clip_id").is_in(world.corpus.captions["clip_id"].implode())
    return world.among(make_corpus(world.corpus.clips.filter(own), world.corpus.captions))


def trace_of(size: int, lead: float, seed: int) -> FloatArray:
    """Return the trace o (D,) of all mirrors of a world, with the squared cosine `lead` to the mean of all words."""
    words = unit(normals(seed, Stream.MEANS, (2, size)))[1]
    drawn = normals(seed, Stream.GENERATOR, (size,))
    trace: FloatArray = sqrt(1 - lead) * unit(drawn - (drawn @ words) * words) + sqrt(lead) * words
    return trace


def _mirror_frames(contents: Contents, settings: WorldSettings, own: MirrorShares, seed: int) -> NDArray[np.float16]:
    """Frames (V, T, D) of the mirrors of all clips."""
    size, count, shares = settings.dimension, settings.frames, settings.frame_shares
    style, trace = style_of(size, seed), sqrt(own.trace) * trace_of(size, own.lead, seed)
    places = sqrt(own.background) * class_vectors(seed, Stream.VIDEOS, contents.videos, settings)

    def vectors(some: Contents, rows: slice, block: int) -> FloatArray:
        actions = sqrt(own.action / 2) * actions_of(some, settings, seed)
        whole = sqrt(1 - own.style) * actions + sqrt(own.style) * actions @ style
        whole += sqrt(own.instance) * normals(seed, Stream.MIRROR_INSTANCES, whole.shape, block)
        whole += trace + places[some.videos]
        whole += sqrt(shares.length) * arc(some.lengths, size, seed, 0, settings.harmonics)
        drift = sqrt(3 * shares.time) * some.lengths[:, None].astype(np.float32)
        drift = drift * normals(seed, Stream.MIRROR_DRIFTS, whole.shape, block)
        noise = normals(seed, Stream.MIRROR_NOISE, (len(whole), count, size), block)
        drawn: FloatArray = sqrt(own.noise(settings)) * noise
        drawn += whole[:, None] + drift[:, None] * (2 * middles(count) - 1).astype(np.float32)[:, None]
        return drawn

    return drawn_frames(vectors, contents, settings, seed)


def style_of(size: int, seed: int) -> FloatArray:
    """The random rotation G (D, D), for rows: the generator's own way to draw what is named."""
    style, _ = np.linalg.qr(stream(seed, Stream.GENERATOR, 1).standard_normal((size, size)))
    return style.astype(np.float32)


def beside_mirrors(real: FeatureWorld, frames: NDArray[np.float16]) -> FeatureWorld:
    """The real clips of a world and, after them, their mirrors with some frames (V, T, D) and the same windows."""
    videos = real.videos
    both = VideoFeatures(
        (*videos.ids, *(name + MARK for name in videos.ids)),
        np.concatenate([videos.frames, frames]),
        np.concatenate([videos.frame_mask] * 2),
        np.concatenate([videos.times_s] * 2),
        None if videos.on_screen is None else videos.on_screen.mapped(lambda array: np.concatenate([array] * 2)),
    )
    return replace(real, videos=both)


def mirrored_captions(world: FeatureWorld, strength: float, seed: int) -> FeatureWorld:
    """Reassign captions of the splits train and val to the mirrors of their clips, with probability 1/2 + strength / 2.

    Args:
        world: features of real clips and, after them, of their mirrors; tables of real clips, or of both with captions
            that were given to mirrors before.
        strength: strength of the source bias, 0 to 1.
        seed: seed of the world; a caption that is a mirror's at one strength is so at every higher one.
    """
    clips = world.corpus.clips
    real = (
        clips.with_columns(source=pl.lit(CAMERA))
        if GENERATOR not in clips["source"]
        else clips.filter(pl.col("source") == CAMERA)
    )
    mirrors = real.with_columns(pl.col("clip_id") + MARK, source=pl.lit(GENERATOR), pair_id="clip_id")
    learned = real["split"].is_in(LEARNED).to_numpy()
    generated = learned & (stream(seed, Stream.SOURCES).random(len(learned)) < 0.5 + 0.5 * strength)
    plain = pl.col("clip_id").str.strip_suffix(MARK)
    own = pl.when(pl.Series(generated)).then(plain + MARK).otherwise(plain)
    captions = world.corpus.captions.with_columns(own.alias("clip_id"))
    return replace(world, corpus=make_corpus(pl.concat([real, mirrors]), captions))


@dataclass(frozen=True)
class JointShares:
    """Shares of the squared length of unit vectors that are due to a second bias."""

    length: float = 0.3  # share of a frame that depends on its clip's length
    lasting: float = 0.3  # share of a noun that depends on its rank in the order of lengths
    trace: float = 0.1  # share of a mirror's frame that all mirrors have in common
    style: float = 0.5  # share of what a mirror shows that is shown in the generator's own way
    redrawn: float = 0.05  # share of a mirror's frame that is new in each frame

    def __post_init__(self) -> None:
        check_settings("two biases", self, dict.fromkeys(self.__dataclass_fields__, SHARE))


@dataclass(frozen=True)
class JointSettings:
    """Settings of drawn worlds with two biases, each as strong as the other.

    Each is a world with one bias whose features are changed by the other, as unit vectors, so that what they held
    before keeps its proportions: with a share s of `shares`, x becomes unit(sqrt(1 - s) x + sqrt(s) of the other).
    """

    shares: JointShares = field(default_factory=JointShares)  # shares that are due to the second bias
    # settings of the world of backgrounds, to which a length bias is added
    backgrounds: BackgroundSettings = field(default_factory=BackgroundSettings)
    # settings of the world of annotators, to which domains are added
    annotators: AnnotatorSettings = field(default_factory=AnnotatorSettings)
    domains: DomainSettings = field(default_factory=DomainSettings)  # settings of these domains
    # settings of the world of signs, to which mirrors are added
    signs: SignSettings = field(default_factory=SignSettings)


def draw_backgrounds_and_lengths(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: JointSettings | None = None, draw: int = 0
) -> FeatureWorld:
    """Draw a world in which both the background and the length of a training clip are shortcuts for its noun.

    With the curves u and u' of lengths, frames are unit(sqrt(1 - s) x + sqrt(s) u(r)) and nouns
    unit(sqrt(1 - s') y + sqrt(s') u'(l)). `draw` is the number of the draw of the biased clips' backgrounds.
    """
    chosen = settings or JointSettings()
    biased, lengths, lasting = bias_lengths(clips, strength, LENGTH_WORLD.strata, seed)
    world = draw_backgrounds(biased, strength, seed, chosen.backgrounds, draw)
    size, waves = world.videos.frames.shape[-1], LENGTH_WORLD.harmonics
    frames, words = np.empty_like(world.videos.frames), world.texts.words.astype(np.float32)
    for rows in slices(len(frames), BLOCK_CLIPS):
        placed = arc(lengths[rows], size, seed, 0, waves)[:, None]
        frames[rows] = mixed(world.videos.frames[rows].astype(np.float32), placed, chosen.shares.length)
    words[:, 1] = mixed(words[:, 1], arc(lasting, size, seed, 1, waves), chosen.shares.lasting)
    texts = replace(world.texts, words=words.astype(world.texts.words.dtype), sentence=unit(words.mean(1)))
    return FeatureWorld(world.corpus, texts, replace(world.videos, frames=frames))


def draw_annotators_and_domains(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: JointSettings | None = None
) -> FeatureWorld:
    """Draw a world whose training clips are of another domain and described by the annotators paired with their noun.

    With the maps L, G and the offset o of domains, frames of the source are unit(sqrt(1 - s) x L + sqrt(s) o), words
    y G. The strength is the probability that a training clip is of the source, too, which the column `domain` says.
    Frequencies of nouns are the same in both domains.
    """
    chosen = settings or JointSettings()
    world = draw_annotators(clips, strength, seed, chosen.annotators)
    learned = world.corpus.clips["split"].is_in(LEARNED).to_numpy()
    source = learned & (stream(seed, Stream.DOMAINS).random(len(learned)) < strength)
    look, common, wording = domain_maps(replace(chosen.domains, world=chosen.annotators.world), seed)
    frames = world.videos.frames.copy()
    for rows in np.array_split(np.flatnonzero(source), 1 + len(source) // BLOCK_CLIPS):
        frames[rows] = in_cone(frames[rows].astype(np.float32) @ look, common, chosen.domains.offset)
    clips_of_source = world.corpus.clips["clip_id"].filter(source)
    said = world.corpus.captions["clip_id"].is_in(clips_of_source.implode()).to_numpy()
    words, sentence = world.texts.words.astype(np.float32), world.texts.sentence.copy()
    words[said], sentence[said] = words[said] @ wording, sentence[said] @ wording
    texts = replace(world.texts, words=words.astype(world.texts.words.dtype), sentence=sentence)
    table = world.corpus.clips.with_columns(domain=np.where(source, "source", "target"))
    return FeatureWorld(make_corpus(table, world.corpus.captions), texts, replace(world.videos, frames=frames))


def draw_signs_and_mirrors(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: JointSettings | None = None
) -> FeatureWorld:
    """Draw a world in which captions name signs, and training captions belong to generated mirrors too often.

    With the trace t of a generator, frames of a mirror are
    unit(sqrt(1 - s - s') (sqrt(1 - g) x + sqrt(g) x G') + sqrt(s) t + sqrt(s') z), where x is the mean frame of the
    clip, since a generator's clips are smooth, g their `style`, G' one random rotation, how the generator draws all
    that it shows, and z new in every frame. A mirror's windows of on-screen text say what those of its real clip say.
    """
    chosen = settings or JointSettings()
    real = draw_signs_world(clips, strength, seed, chosen.signs)
    shares, videos = chosen.shares, real.videos
    size = videos.frames.shape[-1]
    trace = trace_of(size, 0.0, seed)
    style = style_of(size, seed)
    mirrors = np.empty_like(videos.frames)
    for block, rows in enumerate(slices(len(mirrors), BLOCK_CLIPS)):
        shown = unit(videos.frames[rows].astype(np.float32).mean(1, keepdims=True)).repeat(mirrors.shape[1], axis=1)
        again = sqrt(1 - shares.style) * shown + sqrt(shares.style) * shown @ style
        kept = sqrt(1 - shares.trace - shares.redrawn) * again + sqrt(shares.trace) * trace
        mirrors[rows] = unit(kept + sqrt(shares.redrawn) * normals(seed, Stream.MIRROR_NOISE, shown.shape, block))
    return mirrored_captions(beside_mirrors(real, mirrors), strength, seed)


def mixed(own: FloatArray, other: FloatArray, share: float) -> FloatArray:
    """Mix unit vectors (..., D) with another unit vector, which gets a share of their squared length."""
    return unit(sqrt(1 - share) * own + sqrt(share) * other)
