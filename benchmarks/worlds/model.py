"""Drawn worlds: features at the size of real data, drawn by a stated model for the clips of an annotation table.

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
are where lengths are biased; it is brought to the unit sphere likewise, beside a mean of its own. A caption is its verb
and its noun; its sentence is the mean of both on the unit sphere.

Worlds of backgrounds (`draw_backgrounds`) and of domains (`draw_domains`) are here; those of lengths, annotators,
signs, a generator's mirrors, and pairs of them, are in `benchmarks/worlds/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from math import sqrt
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arrays import Column, Indices, slices
from evenreel.config import AT_LEAST_0, MOST_SIZE, SHARE, check_settings, number, whole
from evenreel.corpus import make_corpus, select
from evenreel.errors import UsageError
from evenreel.types import Corpus, FloatArray, TextFeatures, VideoFeatures

FPS = 60.0
"""Rate of the frame numbers of a drawn corpus."""
BLOCK_CLIPS = 1_024
"""Clips whose frames are drawn at a time, in float32."""
LEARNED = ("train", "val")
"""Splits that a bias is planted in: a validation split that is held out of the training clips shares their bias."""
SEARCHERS = range(1_000, 1_050)
"""Numbers of the people who ask, who are no annotators: those have the numbers from 0 on."""


@dataclass(frozen=True)
class FrameShares:
    """Shares of the squared length of a frame's own vector; the rest to 1 is noise, new in every frame."""

    # share of the verb and the noun. Small, since a picture of a kitchen shows much else: so an unbiased
    # training ranks every second caption's clip first, and an untrained matcher hardly any
    action: float = 0.1
    instance: float = 0.15  # share that is the clip's own, the same in all its frames
    background: float = 0.15  # share that all clips of one video have in common
    # share that a clip's length decides. Large, since a longer clip shows more of its surroundings in the same
    # number of frames
    length: float = 0.4
    # share of a drift from the first to the last frame of the longest clip; shorter clips drift less
    time: float = 0.05
    # share of the mean of all frames in the whole vector, the cosine of two unrelated pictures: an encoder's
    # vectors fill a narrow cone
    cone: float = 0.5

    def __post_init__(self) -> None:
        check_settings("the frames of a world", self, dict.fromkeys(self.__dataclass_fields__, SHARE))
        if self.noise < 0:
            raise UsageError(f"The shares of a frame are {1 - self.noise:g} together; they are at most 1.")

    @property
    def noise(self) -> float:
        """Share of the squared length of a frame's own vector that is new in every frame."""
        return 1 - self.action - self.instance - self.background - self.length - self.time


@dataclass(frozen=True)
class WordShares:
    """Alignment of words and frames, and shares of the squared length of a word's own vector.

    The rest to 1 is the word's meaning.
    """

    # squared cosine of a word's meaning and of the verb or noun as frames show it, before any training. Low, so
    # that a model has to learn what the words mean in these videos
    alignment: float = 0.3
    # for nouns, share of the noun's rank in the order of lengths. Large, since a text tower knows which things
    # take long; without it each noun's length would have to be memorised, and biased lengths would do no harm
    lasting: float = 0.4
    annotator: float = 0.05  # share of the annotator's habits
    noise: float = 0.05  # share that is new in every word
    # share of the mean of all words in the whole vector. It is not that of the frames: the modality gap
    cone: float = 0.5

    def __post_init__(self) -> None:
        check_settings("the words of a world", self, dict.fromkeys(self.__dataclass_fields__, SHARE))
        if self.meaning < 0:
            raise UsageError(f"The shares of a word are {1 - self.meaning:g} together; they are at most 1.")

    @property
    def meaning(self) -> float:
        """Share of a word's meaning in the squared length of its own vector."""
        return 1 - self.lasting - self.annotator - self.noise


@dataclass(frozen=True)
class WorldSettings:
    """Settings of a drawn world that are the same at every strength of a bias."""

    dimension: int = 128  # length D of the features
    frames: int = 6  # number T of frames of every clip, at the middles of as many equal parts of it
    # number of strata of length that actions keep to where lengths are biased. With many, most test clips
    # contradict what was learned
    strata: int = 16
    # number H of waves of the curve that lengths lie on. With one, a model can tell the shortest from the
    # longest lengths; with more, it can tell neighbouring strata apart
    harmonics: int = 1
    frame_shares: FrameShares = field(default_factory=FrameShares)  # shares of what a frame shows
    word_shares: WordShares = field(default_factory=WordShares)  # shares of what a word says

    def __post_init__(self) -> None:
        names = ("dimension", "frames", "strata", "harmonics")
        least = (4, 1, 2, 1)
        check_settings("a world", self, {name: whole(few, MOST_SIZE) for name, few in zip(names, least, strict=True)})
        if 2 * self.harmonics > self.dimension:
            raise UsageError(f"{self.harmonics} harmonics take {2 * self.harmonics} dimensions, not {self.dimension}.")


Stream = IntEnum("Stream", {
    "CLIPS": 0, "VERBS": 1, "NOUNS": 2, "STRATA": 3, "LENGTHS": 4, "VIDEOS": 5, "ANNOTATORS": 6, "MEANS": 7,
    "ARC": 8, "ROTATION": 9, "INSTANCES": 10, "DRIFTS": 11, "FRAME_NOISE": 12, "WORD_NOISE": 13, "SOURCES": 14,
    "GENERATOR": 15, "MIRROR_INSTANCES": 16, "MIRROR_DRIFTS": 17, "MIRROR_NOISE": 18, "DOMAINS": 20, "QUERIES": 21,
    "QUERY_NOISE": 22, "SIGNS": 40, "SIGN_WORDS": 41, "SIGN_NOISE": 42, "WINDOW_NOISE": 43, "KINDS": 60,
    "BACKGROUNDS": 61, "SHOWN": 62, "WRITERS": 63, "HABITS": 64,
})  # fmt: skip
"""Identifiers of the separate random generators of a drawn world, so that no part changes another's draws."""


class Contents(NamedTuple):
    """Contents of V clips of a drawn world, as class numbers from 0 and ranks."""

    verbs: Indices  # (V,) verb class
    nouns: Indices  # (V,) noun class
    videos: Indices  # (V,) video that the clip is from
    annotators: Indices  # (V,) annotator of its caption
    lengths: Column  # (V,) rank of its length among the training clips, 0 to 1
    lasting: Column  # (V,) rank of its noun in the order in which nouns are assigned to strata of length, 0 to 1

    @classmethod
    def of(cls, clips: pl.DataFrame, lengths: Column | None = None, lasting: Column | None = None) -> Contents:
        """Contents of annotated clips; ranks are 0 where lengths have no effect."""
        verbs, nouns = (clips[kind].to_numpy().astype(np.int64) for kind in ("verb", "noun"))
        none = np.zeros(clips.height)
        videos, people = numbers_of(clips["path"]), numbers_of(clips["annotator"])
        return cls(
            verbs, nouns, videos, people, none if lengths is None else lengths, none if lasting is None else lasting
        )

    def taken(self, rows: slice) -> Contents:
        """Select some clips, given by a slice of rows."""
        classes = (self.verbs[rows], self.nouns[rows], self.videos[rows], self.annotators[rows])
        return Contents(*classes, self.lengths[rows], self.lasting[rows])


class DrawnWords(NamedTuple):
    """Drawn features of V captions: `words` (V, 2, D), verb and noun, and `sentence` (V, D)."""

    words: NDArray[np.float16]
    sentence: FloatArray


@dataclass(frozen=True, eq=False)
class FeatureWorld:
    """Drawn world: clips of an annotation table with captions, and the features that were drawn for them."""

    corpus: Corpus  # corpus, whose clips have columns that say what is planted
    texts: TextFeatures  # features of the captions, in the order of the corpus
    videos: VideoFeatures  # features of the clips, in the order of the corpus

    def split(self, name: str) -> FeatureWorld:
        """Select the clips and captions of a split, with their features."""
        return self.among(select(self.corpus, split=name))

    def among(self, part: Corpus) -> FeatureWorld:
        """Select the clips and captions of a part of the corpus, which may assign captions to other clips."""
        rows = rows_of(part.captions["caption_id"], self.texts.ids)
        own = self.texts
        ids = tuple(part.captions["caption_id"])
        texts = TextFeatures(ids, own.words[rows], own.word_mask[rows], own.sentence[rows])
        return FeatureWorld(part, texts, self.videos.taken(rows_of(part.clips["clip_id"], self.videos.ids)))


def world_of(
    clips: pl.DataFrame, words: DrawnWords, frames: NDArray[np.float16], corpus: Corpus | None = None
) -> FeatureWorld:
    """Put a world of V annotated clips together, with one caption for each clip unless the tables are given."""
    lengths, tables = clips["length_s"].to_numpy(), corpus or corpus_of(clips)
    times_s = lengths[:, None] * middles(frames.shape[1])
    texts = TextFeatures(
        tuple(tables.captions["caption_id"]), words.words, np.ones(words.words.shape[:2], np.bool_), words.sentence
    )
    videos = VideoFeatures(tuple(clips["clip_id"]), frames, np.ones(times_s.shape, np.bool_), times_s)
    return FeatureWorld(tables, texts, videos)


def corpus_of(clips: pl.DataFrame) -> Corpus:
    """Make a corpus of annotated clips, with one caption for each clip."""
    lengths = clips["length_s"].to_numpy()
    classes = {
        "verb_classes": pl.concat_list(pl.col("verb").cast(pl.Int32)),
        "noun_classes": pl.concat_list(pl.col("noun").cast(pl.Int32)),
    }
    table = clips.with_columns(
        pl.Series("end_s", lengths),
        pl.Series("frame_count", np.maximum(1, np.rint(FPS * lengths)).astype(np.int64)),
        start_s=pl.lit(0.0),
        fps=pl.lit(FPS),
        **classes,
    )
    captions = clips.select(
        pl.col("clip_id").alias("caption_id"),
        "clip_id",
        pl.format("verb {} noun {}", "verb", "noun").alias("text"),
        **classes,
    )
    return make_corpus(table.drop("verb", "noun", "length_s"), captions)


def rows_of(ids: Sequence[str] | pl.Series, among: Sequence[str]) -> Indices:
    """Return the row of each id in a list of ids (`among`)."""
    places = {name: row for row, name in enumerate(among)}
    return np.array([places[name] for name in ids], np.int64)


def numbers_of(names: pl.Series) -> Indices:
    """Number the distinct names of a series from 0 in alphabetical order, and return the number of each row (V,)."""
    return (names.rank("dense").to_numpy() - 1).astype(np.int64)


def check_strength(strength: float) -> None:
    """Check the probability with which a bias holds in a world."""
    if not 0 <= strength <= 1:
        raise UsageError(f"A strength is between 0 and 1; it was {strength}.")


def rows_of_splits(clips: pl.DataFrame, splits: Sequence[str]) -> NDArray[np.bool_]:
    """Return which of V clips are of some splits that are learned from, (V,)."""
    rows = clips["split"].is_in(splits).to_numpy()
    if not rows.any():
        raise UsageError("A world needs clips of the split train.")
    return rows


def stream(seed: int, part: Stream, block: int = 0) -> np.random.Generator:
    """Return the random generator of one part of a drawn world and block of clips; equal arguments give equal draws."""
    return np.random.default_rng([seed, int(part), block])


def normals(seed: int, part: Stream, shape: tuple[int, ...], block: int = 0) -> FloatArray:
    """Draw random vectors of a shape (..., D) from N(0, I / D), with the random generator of one part of a world."""
    drawn = stream(seed, part, block).standard_normal(shape, dtype=np.float32)
    return drawn / sqrt(shape[-1])


def drawn_frames(
    own: Callable[[Contents, slice, int], FloatArray], contents: Contents, settings: WorldSettings, seed: int
) -> NDArray[np.float16]:
    """Draw frame vectors (V, T, D) around their mean, block by block.

    The own vectors x (N, T, D) of a block are what `own` returns for its clips, their rows and its number.
    """
    size = settings.dimension
    mean = unit(normals(seed, Stream.MEANS, (2, size)))[0]
    frames = np.empty((len(contents.verbs), settings.frames, size), np.float16)
    for block, rows in enumerate(slices(len(frames), BLOCK_CLIPS)):
        frames[rows] = in_cone(own(contents.taken(rows), rows, block), mean, settings.frame_shares.cone)
    return frames


def frames_of(contents: Contents, settings: WorldSettings, seed: int) -> NDArray[np.float16]:
    """Draw the frame vectors (V, T, D) of clips as the formula of x has them."""
    shares, size, count = settings.frame_shares, settings.dimension, settings.frames
    places = sqrt(shares.background) * class_vectors(seed, Stream.VIDEOS, contents.videos, settings)

    def own(some: Contents, rows: slice, block: int) -> FloatArray:
        whole = sqrt(shares.action / 2) * actions_of(some, settings, seed) + places[some.videos]
        whole += sqrt(shares.instance) * normals(seed, Stream.INSTANCES, whole.shape, block)
        whole += sqrt(shares.length) * arc(some.lengths, size, seed, 0, settings.harmonics)
        drift = sqrt(3 * shares.time) * some.lengths[:, None].astype(np.float32)
        drift = drift * normals(seed, Stream.DRIFTS, whole.shape, block)
        drawn: FloatArray = sqrt(shares.noise) * normals(seed, Stream.FRAME_NOISE, (len(whole), count, size), block)
        drawn += whole[:, None] + drift[:, None] * (2 * middles(count) - 1).astype(np.float32)[:, None]
        return drawn

    return drawn_frames(own, contents, settings, seed)


def words_of(contents: Contents, settings: WorldSettings, seed: int, noise: Stream = Stream.WORD_NOISE) -> DrawnWords:
    """Draw the word and sentence vectors of one caption for each clip, block by block."""
    shares, size = settings.word_shares, settings.dimension
    verbs, nouns = class_meanings(contents, settings, seed)
    habits = sqrt(shares.annotator) * class_vectors(seed, Stream.ANNOTATORS, contents.annotators, settings)
    words = np.empty((len(contents.verbs), 2, size), np.float16)
    sentence = np.empty((len(words), size), np.float32)
    for block, rows in enumerate(slices(len(words), BLOCK_CLIPS)):
        own = contents.taken(rows)
        meant = np.stack([verbs[own.verbs], nouns[own.nouns]], axis=1)
        unheard = normals(seed, noise, meant.shape, block)
        meant[:, 1] += sqrt(shares.lasting / shares.meaning) * arc(own.lasting, size, seed, 1, settings.harmonics)
        drawn = sqrt(shares.meaning) * meant + habits[own.annotators][:, None] + sqrt(shares.noise) * unheard
        words[rows], sentence[rows] = placed_words(drawn, settings, seed)
    return DrawnWords(words, sentence)


def class_meanings(contents: Contents, settings: WorldSettings, seed: int) -> tuple[FloatArray, FloatArray]:
    """Compute the meanings w of all verbs (N, D) and of all nouns (M, D)."""
    verbs, nouns = (
        meanings_of(class_vectors(seed, part, classes, settings), settings, seed)
        for part, classes in ((Stream.VERBS, contents.verbs), (Stream.NOUNS, contents.nouns))
    )
    return verbs, nouns


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
    """Map ranks (V,), 0 to 1, to points u (V, D) on a curve of H waves; circle 0 is that of frames, 1 that of words."""
    turns = np.pi * np.arange(1, harmonics + 1) * np.asarray(ranks)[:, None]
    waves = np.concatenate([np.cos(turns), np.sin(turns)], axis=1) / sqrt(harmonics)
    axes, _ = np.linalg.qr(stream(seed, Stream.ARC, circle).standard_normal((size, 2 * harmonics)))
    placed: FloatArray = (waves @ axes.T).astype(np.float32)
    return placed


def in_cone(own: FloatArray, mean: FloatArray, cone: float) -> FloatArray:
    """Scale own vectors (..., D) to unit length after adding a common mean (D,) with the share `cone`."""
    return unit(sqrt(1 - cone) * own + sqrt(cone) * mean)


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
    """Draw a vector for each class number up to the largest: (N, D); a class's own depends on its number alone."""
    return normals(seed, part, (int(numbers.max()) + 1, settings.dimension))


def unit(vectors: FloatArray) -> FloatArray:
    """Scale vectors (..., D) to unit length."""
    brought: FloatArray = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return brought


def noun_strata(places: Column, nouns: Indices, count: int) -> Indices:
    """Assign each noun a stratum (N,), from 0, so that strata have about as many of the training clips' nouns (V,).

    Strata follow the order of `places` (N,).

    >>> noun_strata(np.array([0.5, 0.1, 0.9]), np.array([0, 1, 2, 2]), 2).tolist()
    [0, 0, 1]
    """
    ordered = np.sort(places[nouns])
    cuts = ordered[[len(ordered) * part // count for part in range(1, count)]]
    return np.searchsorted(cuts, places, side="right").astype(np.int64)


def length_ranks(lengths: Column, learned: Column) -> Column:
    """Compute the rank (V,) of each clip's length: the share of training clips that are shorter, ties half.

    >>> length_ranks(np.array([1.0, 2.0, 9.0]), np.array([1.0, 2.0])).tolist()
    [0.25, 0.75, 1.0]
    """
    ordered = np.sort(learned)
    below, up_to = (np.searchsorted(ordered, lengths, side=side) for side in ("left", "right"))
    return (below + up_to) / (2 * len(ordered))


@dataclass(frozen=True)
class BackgroundSettings:
    """Settings of a drawn world with biased backgrounds, the same at every strength of the bias."""

    kinds: int = 40  # number K of kinds of backgrounds
    # share of the kind of background in the squared length of a frame's own vector; large, as in pictures
    kind: float = 0.35
    shown: float = 0.6  # probability that a frame shows what the caption names
    usual: float = 0.1  # share of a noun's own vector that says before which background the thing is mostly seen
    # shares and sizes of everything else. Words and frames are aligned enough for a dictionary's phrases to be
    # found by their cosine with frames, as they are by an encoder; lengths have no effect
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


def draw_backgrounds(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: BackgroundSettings | None = None, draw: int = 0
) -> FeatureWorld:
    """Draw a world of features in which the background of a training clip is a shortcut for its noun.

    Backgrounds are of some kinds, and every noun is assigned a kind. The own vector of a frame of clip i before a
    background of kind k is

        x = m_it s_action (c_v + c_n) / sqrt 2 + s_instance e_i + s_background g_b + s_kind B_k + s_noise z_it

    where m_it is 1 in the frames that show what the caption names, at least in one of them, and 0 in the others. A
    word has the meaning w of the verb or noun; a noun says where its thing is mostly seen, too, whatever is planted:
    with the kind k' of the noun, and the meaning M(B) of a background as words have it,

        y = s_meaning w + s_usual M(B_k') + s_noise z

    Args:
        clips: clips of an annotation table with the columns `clip_id, path, split, verb, noun, length_s, annotator`;
            those of the splits train and val are biased, all others are the same at every strength.
        strength: probability that a biased clip shows the kind of background of its noun; others show any.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: shares and sizes; None for the defaults.
        draw: number of the draw of the biased clips' backgrounds; with another number the same clips get other ones.

    Returns:
        A world whose clips have the columns `kind`, that of its background, and `usual`, that of its noun.

    Raises:
        UsageError: the strength is not between 0 and 1, or no clip is a training clip.
    """
    chosen = settings or BackgroundSettings()
    check_strength(strength)
    learned = clips["split"].is_in(LEARNED).to_numpy()
    usual = usual_kinds(clips, chosen.kinds, seed)[clips["noun"].to_numpy()]
    shown = np.empty(len(usual), np.int64)
    for part, own, block in ((learned, strength, 2 * draw + 1), (~learned, 0.0, 0)):
        rng = stream(seed, Stream.BACKGROUNDS, block)
        any_kind, follows = rng.integers(chosen.kinds, size=part.sum()), rng.random(part.sum()) < own
        shown[part] = np.where(follows, usual[part], any_kind)
    contents = Contents.of(clips)
    words = _background_words(contents, usual, chosen, seed)
    frames = _background_frames(contents, shown, chosen, seed)
    return world_of(clips.with_columns(kind=shown, usual=usual), words, frames)


def usual_kinds(clips: pl.DataFrame, kinds: int, seed: int) -> Indices:
    """Assign each noun a kind of background (nouns,), so that all kinds have about as many training clips."""
    nouns, learned = clips["noun"].to_numpy().astype(np.int64), rows_of_splits(clips, ("train",))
    return noun_strata(stream(seed, Stream.KINDS).random(int(nouns.max()) + 1), nouns[learned], kinds)


def phrase_vectors(
    contents: Contents, usual: Indices, settings: BackgroundSettings, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Meanings of verbs, own vectors of nouns, which have the usual kinds (nouns,), and meanings of backgrounds."""
    verbs, meant = class_meanings(contents, settings.world, seed)
    kinds = meanings_of(_kinds(settings, seed), settings.world, seed)
    return verbs, sqrt(settings.meaning) * meant + sqrt(settings.usual) * kinds[usual], kinds


def _kinds(settings: BackgroundSettings, seed: int) -> FloatArray:
    """B (K, D)."""
    return normals(seed, Stream.KINDS, (settings.kinds, settings.world.dimension), 1)


def _background_words(contents: Contents, usual: Indices, settings: BackgroundSettings, seed: int) -> DrawnWords:
    """Verb and noun of each clip, whose nouns have the usual kinds (V,)."""
    world = settings.world
    of_noun = np.zeros(int(contents.nouns.max()) + 1, np.int64)
    of_noun[contents.nouns] = usual
    verbs, nouns, _ = phrase_vectors(contents, of_noun, settings, seed)
    own = np.stack([sqrt(world.word_shares.meaning) * verbs[contents.verbs], nouns[contents.nouns]], axis=1)
    own += sqrt(world.word_shares.noise) * normals(seed, Stream.WORD_NOISE, own.shape)
    return placed_words(own, world, seed)


def _background_frames(
    contents: Contents, kinds: Indices, settings: BackgroundSettings, seed: int
) -> NDArray[np.float16]:
    """Frames (V, T, D) of clips before backgrounds of some kinds (V,)."""
    world, shares, count = settings.world, settings.world.frame_shares, settings.world.frames
    places = sqrt(shares.background) * class_vectors(seed, Stream.VIDEOS, contents.videos, world)
    looks = sqrt(settings.kind) * _kinds(settings, seed)

    def own(some: Contents, rows: slice, block: int) -> FloatArray:
        rng = stream(seed, Stream.SHOWN, block)
        shown = rng.random((len(some.verbs), count)) < settings.shown
        shown[np.arange(len(shown)), rng.integers(count, size=len(shown))] = True
        whole = places[some.videos] + looks[kinds[rows]]
        whole += sqrt(shares.instance) * normals(seed, Stream.INSTANCES, whole.shape, block)
        noise = normals(seed, Stream.FRAME_NOISE, (len(whole), count, world.dimension), block)
        drawn: FloatArray = sqrt(settings.noise) * noise
        drawn += whole[:, None] + shown[..., None] * sqrt(shares.action / 2) * actions_of(some, world, seed)[:, None]
        return drawn

    return drawn_frames(own, contents, world, seed)


@dataclass(frozen=True)
class DomainSettings:
    """Settings of a drawn world of two domains: how the source differs from the target, and what both share."""

    offset: float = 0.2  # share of the squared length of source frames that is a vector common to all of them
    turned: float = 0.5  # share of the directions of the frames' space that are rotated
    turn: float = 45.0  # angle of that rotation, in degrees
    damped: float = 0.25  # share of other directions that are damped
    damping: float = 0.3  # share of its length that a vector keeps along a damped direction
    wording: float = 30.0  # angle by which the words' space is rotated, in degrees
    # standard deviation of the logarithm of a noun's frequency in the source over that in the target
    frequencies: float = 0.5
    # shares and sizes; lengths, of which nothing is planted here, have less effect than by default
    world: WorldSettings = field(
        default_factory=lambda: WorldSettings(frame_shares=FrameShares(length=0.1), word_shares=WordShares(lasting=0.0))
    )

    def __post_init__(self) -> None:
        shares = dict.fromkeys(("offset", "turned", "damped", "damping"), SHARE)
        angles = dict.fromkeys(("turn", "wording"), number("from 0 to 90", lambda value: 0 <= value <= 90))
        check_settings("the domains of a world", self, {**shares, **angles, "frequencies": AT_LEAST_0})
        if self.turned + self.damped > 1:
            raise UsageError(
                f"{self.turned:g} of the directions are turned and {self.damped:g} others damped; that is above 1."
            )

    @property
    def told(self) -> DomainSettings:
        """Settings by which a source clip looks and is described as in the target; who describes what stays."""
        return replace(self, offset=0.0, turned=0.0, damped=0.0, wording=0.0)


def draw_domains(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: DomainSettings | None = None
) -> FeatureWorld:
    """Draw a world of features in which training clips are from another domain than those that are searched.

    A clip of the source is drawn like one of the target, and then its frames x and words y (unit vectors, rows) become

        x' = unit(sqrt(1 - offset) x L + sqrt(offset) o)        y' = y G

    L turns some directions of the frames' space, in random planes, by an angle, and leaves of others a share of their
    length; o is one unit vector for all frames. G turns all of the words' space, in random planes, by another angle.
    What a word means in the target and in the source have the cosine of that angle, and a word says as much in either.
    Captions of the source are by annotators of its own, and in training a noun n is shown by exp(f g_n) times as large
    a share of the source's clips, up to a common factor, with g_n drawn from N(0, 1).

    Args:
        clips: clips of an annotation table, see `draw_backgrounds`; those of the splits train and val may be of the
            source, all others are of the target and the same at every strength.
        strength: probability that a training clip is of the source; it is so at every higher strength too.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: shares and sizes; None for the defaults.

    Returns:
        A world whose clips have the column `domain`, source or target. A source clip of the split train shows the
        action of a training clip that was drawn by the source's frequencies.

    Raises:
        UsageError: the strength is not between 0 and 1, or no clip is a training clip.
    """
    chosen = settings or DomainSettings()
    check_strength(strength)
    learned = rows_of_splits(clips, ("train",))
    source = clips["split"].is_in(LEARNED).to_numpy() & (stream(seed, Stream.DOMAINS).random(len(learned)) < strength)
    shown = _shown(clips["noun"].to_numpy(), learned, source, chosen.frequencies, seed)
    table = clips.with_columns(
        clips["verb"].gather(shown), clips["noun"].gather(shown), domain=np.where(source, "source", "target")
    )
    lengths = table["length_s"].to_numpy()
    contents = Contents.of(table, length_ranks(lengths, lengths[learned]))
    people = contents.annotators
    contents = contents._replace(annotators=np.where(source, people + people.max() + 1, people))
    world = world_of(table, words_of(contents, chosen.world, seed), frames_of(contents, chosen.world, seed))
    look, common, wording = domain_maps(chosen, seed)
    frames, words, sentence = world.videos.frames, world.texts.words, world.texts.sentence
    for rows in np.array_split(np.flatnonzero(source), 1 + len(source) // BLOCK_CLIPS):
        frames[rows] = in_cone(frames[rows].astype(np.float32) @ look, common, chosen.offset)
        words[rows], sentence[rows] = words[rows].astype(np.float32) @ wording, sentence[rows] @ wording
    return world


def domain_maps(settings: DomainSettings, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw the maps from target to source: L (D, D) and the offset (D,) of frames, and G (D, D) of words (x L, y G)."""
    size, rng = settings.world.dimension, stream(seed, Stream.DOMAINS, 1)
    turned, damped = int(settings.turned * size) // 2 * 2, int(settings.damped * size)
    inner = np.eye(size)
    inner[:turned, :turned] = turn(turned, settings.turn)
    inner[turned : turned + damped] *= settings.damping
    basis, other = (np.linalg.qr(rng.standard_normal((size, size)))[0] for _ in range(2))
    common = rng.standard_normal(size)
    maps = basis @ inner @ basis.T, common / np.linalg.norm(common), other @ turn(size, settings.wording) @ other.T
    look, offset, wording = (one.astype(np.float32) for one in maps)
    return look, offset, wording


def turn(size: int, degrees: float) -> NDArray[np.float64]:
    """Return the rotation (D, D), for rows, of pairs of neighbouring axes by an angle; a last single axis stays.

    >>> turn(3, 90).round(3).tolist()
    [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    turned, angle = np.eye(size), np.deg2rad(degrees)
    first = np.arange(0, size - 1, 2)
    turned[first, first] = turned[first + 1, first + 1] = np.cos(angle)
    turned[first, first + 1], turned[first + 1, first] = np.sin(angle), -np.sin(angle)
    return turned


@dataclass(frozen=True, eq=False)
class QueryLog:
    """Simulated queries to the clips of a target domain, with their right answers."""

    texts: TextFeatures  # features of Q queries, in the order in which they came
    # (Q,) row of the clip that answers each query, among those searched; for measuring only, never for training
    clips: Indices


def draw_queries(
    clips: pl.DataFrame, count: int, seed: int = 0, settings: DomainSettings | None = None, exponent: float = 1.0
) -> QueryLog:
    """Draw Q queries (`count`) to clips of a target domain, such as those of the split test, for few of them often.

    The r-th most wanted clip has a demand of r to the power -exponent (Zipf's law). Queries are in the target's
    wording, each with the habits of one of `SEARCHERS` and noise of its own. `seed` and `settings` are the world's.
    """
    chosen, rng = settings or DomainSettings(), stream(seed, Stream.QUERIES)
    demand = (1.0 + rng.permutation(clips.height)) ** -exponent
    rows = rng.choice(clips.height, count, p=demand / demand.sum())
    verbs, nouns = (clips[name].to_numpy().astype(np.int64)[rows] for name in ("verb", "noun"))
    nothing = np.zeros(count, np.int64)
    people = rng.integers(SEARCHERS.start, SEARCHERS.stop, count)
    asked = Contents(verbs, nouns, nothing, people, nothing.astype(float), nothing.astype(float))
    words = words_of(asked, chosen.world, seed, noise=Stream.QUERY_NOISE)
    ids = tuple(f"query {place}" for place in range(1, count + 1))
    return QueryLog(TextFeatures(ids, words.words, np.ones(words.words.shape[:2], np.bool_), words.sentence), rows)


def _shown(nouns: Indices, learned: NDArray[np.bool_], source: NDArray[np.bool_], spread: float, seed: int) -> Indices:
    """(V,) row of the clip whose action each clip shows: its own, but for training clips of the source."""
    rng, rows = stream(seed, Stream.DOMAINS, 2), np.arange(len(nouns))
    weights = learned * np.exp(spread * rng.standard_normal(int(nouns.max()) + 1))[nouns]
    drawn = rng.choice(len(nouns), len(nouns), p=weights / weights.sum())
    return np.where(learned & source, drawn, rows)
