"""Drawn worlds with two biases at once, each as strong as the other.

Each is a world with one bias whose features are changed by the other, as unit vectors, so that what they held before
keeps its proportions. With the curves u and u' of lengths (`evenreel.planted.worlds.vectors`), the maps L, G and the
offset o of domains (`evenreel.planted.worlds.domains`), and the trace t of a generator
(`benchmarks.worlds.sources`):

    backgrounds and lengths: frames unit(sqrt(1 - s) x + sqrt(s) u(r)), nouns unit(sqrt(1 - s') y + sqrt(s') u'(l))
    annotators and domains: of clips of the source, frames unit(sqrt(1 - s) x L + sqrt(s) o), words y G
    signs and mirrors: frames of a mirror unit(sqrt(1 - s - s') (sqrt(1 - g) x + sqrt(g) x G') + sqrt(s) t + sqrt(s') z)

where s and s' are shares of `JointShares`. For mirrors x is the mean frame of the clip, since a generator's clips are
smooth, g their `style`, G' one random rotation, how the generator draws all that it shows, and z new in every frame. A
mirror's windows of on-screen text say what those of its real clip say.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np
import polars as pl

from benchmarks.worlds.annotators import AnnotatorSettings, draw_annotators
from benchmarks.worlds.signs import SignSettings, draw_signs_world
from benchmarks.worlds.sources import MARK, trace_of
from evenreel.arrays import slices
from evenreel.config import SHARE, check_settings
from evenreel.corpus import make_corpus
from evenreel.planted.source import GENERATOR
from evenreel.planted.worlds.backgrounds import BackgroundSettings, draw_backgrounds
from evenreel.planted.worlds.domains import DomainSettings, domain_maps
from evenreel.planted.worlds.drawing import FeatureWorld, bias_lengths
from evenreel.planted.worlds.lengths import LENGTH_WORLD
from evenreel.planted.worlds.splits import LEARNED
from evenreel.planted.worlds.vectors import BLOCK_CLIPS, Stream, arc, in_cone, normals, stream, unit
from evenreel.types import CAMERA, FloatArray, VideoFeatures


@dataclass(frozen=True)
class JointShares:
    """Shares of the squared length of unit vectors that are due to a second bias.

    Attributes:
        length: share of a frame that depends on its clip's length.
        lasting: share of a noun that depends on its rank in the order of lengths.
        trace: share of a mirror's frame that all mirrors have in common.
        style: share of what a mirror shows that is shown in the generator's own way.
        redrawn: share of a mirror's frame that is new in each frame.
    """

    length: float = 0.3
    lasting: float = 0.3
    trace: float = 0.1
    style: float = 0.5
    redrawn: float = 0.05

    def __post_init__(self) -> None:
        check_settings("two biases", self, dict.fromkeys(self.__dataclass_fields__, SHARE))


@dataclass(frozen=True)
class JointSettings:
    """Settings of drawn worlds with two biases.

    Attributes:
        shares: shares that are due to the second bias.
        backgrounds: settings of the world of backgrounds, to which a length bias is added.
        annotators: settings of the world of annotators, to which domains are added.
        domains: settings of these domains.
        signs: settings of the world of signs, to which mirrors are added.
    """

    shares: JointShares = field(default_factory=JointShares)
    backgrounds: BackgroundSettings = field(default_factory=BackgroundSettings)
    annotators: AnnotatorSettings = field(default_factory=AnnotatorSettings)
    domains: DomainSettings = field(default_factory=DomainSettings)
    signs: SignSettings = field(default_factory=SignSettings)


def draw_backgrounds_and_lengths(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: JointSettings | None = None, draw: int = 0
) -> FeatureWorld:
    """Draw a world in which both the background and the length of a training clip are shortcuts for its noun.

    Args:
        clips: clips of an annotation table, see `evenreel.planted.worlds.splits.annotated_clips`.
        strength: strength of both biases, 0 to 1.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: shares and sizes; None for the defaults.
        draw: number of the draw of the biased clips' backgrounds.

    Raises:
        UsageError: the strength is not between 0 and 1, or no clip is a training clip.
    """
    chosen = settings or JointSettings()
    biased = bias_lengths(clips, strength, LENGTH_WORLD.strata, seed)
    world = draw_backgrounds(biased.clips, strength, seed, chosen.backgrounds, draw)
    size, waves = world.videos.frames.shape[-1], LENGTH_WORLD.harmonics
    frames, words = np.empty_like(world.videos.frames), world.texts.words.astype(np.float32)
    for rows in slices(len(frames), BLOCK_CLIPS):
        placed = arc(biased.lengths[rows], size, seed, 0, waves)[:, None]
        frames[rows] = mixed(world.videos.frames[rows].astype(np.float32), placed, chosen.shares.length)
    words[:, 1] = mixed(words[:, 1], arc(biased.lasting, size, seed, 1, waves), chosen.shares.lasting)
    texts = replace(world.texts, words=words.astype(world.texts.words.dtype), sentence=unit(words.mean(1)))
    return FeatureWorld(world.corpus, texts, replace(world.videos, frames=frames))


def draw_annotators_and_domains(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: JointSettings | None = None
) -> FeatureWorld:
    """Draw a world whose training clips are from another domain and described by the annotators paired with their noun.

    Args:
        clips: clips of an annotation table, see `evenreel.planted.worlds.splits.annotated_clips`.
        strength: strength of both biases, 0 to 1; the probability that a training clip is of the source domain.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: shares and sizes; None for the defaults. Frequencies of nouns are the same in both domains.

    Returns:
        A world whose clips have the column `domain`, and captions the columns of a world of annotators.

    Raises:
        UsageError: the strength is not between 0 and 1, or no clip is a training clip.
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

    Args:
        clips: clips of an annotation table, see `evenreel.planted.worlds.splits.annotated_clips`.
        strength: probability that the clips of a group differ in nothing but a sign; captions of the splits train and
            val belong to the mirror of their clip with the probability 1/2 + strength / 2.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: shares and sizes; None for the defaults.

    Returns:
        A world whose splits hold each real clip and its mirror, with the columns `source` and `pair_id`.

    Raises:
        UsageError: the strength is not between 0 and 1.
    """
    chosen = settings or JointSettings()
    real = draw_signs_world(clips, strength, seed, chosen.signs)
    shares, videos = chosen.shares, real.videos
    size = videos.frames.shape[-1]
    trace = trace_of(size, 0.0, seed)
    style, _ = np.linalg.qr(stream(seed, Stream.GENERATOR, 1).standard_normal((size, size)))
    mirrors = np.empty_like(videos.frames)
    for block, rows in enumerate(slices(len(mirrors), BLOCK_CLIPS)):
        shown = unit(videos.frames[rows].astype(np.float32).mean(1, keepdims=True)).repeat(mirrors.shape[1], axis=1)
        again = sqrt(1 - shares.style) * shown + sqrt(shares.style) * shown @ style.astype(np.float32)
        kept = sqrt(1 - shares.trace - shares.redrawn) * again + sqrt(shares.trace) * trace
        mirrors[rows] = unit(kept + sqrt(shares.redrawn) * normals(seed, Stream.MIRROR_NOISE, shown.shape, block))
    both = VideoFeatures(
        (*videos.ids, *(name + MARK for name in videos.ids)),
        np.concatenate([videos.frames, mirrors]),
        np.concatenate([videos.frame_mask] * 2),
        np.concatenate([videos.times_s] * 2),
        None if videos.on_screen is None else videos.on_screen.mapped(lambda array: np.concatenate([array] * 2)),
    )
    return mirrored_captions(FeatureWorld(real.corpus, real.texts, both), strength, seed)


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


def mixed(own: FloatArray, other: FloatArray, share: float) -> FloatArray:
    """Mix unit vectors (..., D) with another unit vector, which gets a share of their squared length."""
    return unit(sqrt(1 - share) * own + sqrt(share) * other)
