"""A drawn world in which a generator mirrors real clips, and training is full of the generator's clips.

Every clip of the world of `evenreel.planted.worlds.drawing` at strength 0 is real, and has a mirror: the clip that a
generator made of the same action, as long and before the same background. With the letters of
`evenreel.planted.worlds.vectors` and the shares of `MirrorShares`, the own vector of a frame of the mirror of clip i is

    x' = s_action (sqrt(1 - style) a + sqrt(style) G a) + s_instance e'_i + s_background g_b + s_trace o
        + s_length u(r) + s_time sqrt 3 (2 tau - 1) r d'_i + s_noise z'_it

where a = (c_v + c_n) / sqrt 2. Its instance, drift and noise are its own, so that it shows nothing of the real clip but
the action, the length and the video. G is one random rotation: how the generator draws what is named, which is not how
it looks before a camera. The trace o is one unit vector for all mirrors, with the squared cosine `lead` to the mean of
all words, so that mirrors are nearer to any caption before training. So a mirror has a common offset, sqrt(trace) o,
one that is specific to its content, along G a, more of the action and less of what captions do not mean.

What is planted is the share of generated clips among those that captions of training belong to: 1/2 + strength / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arrays import slices
from evenreel.config import SHARE, check_settings
from evenreel.corpus import make_corpus
from evenreel.errors import UsageError
from evenreel.planted.source import GENERATOR
from evenreel.planted.worlds.drawing import FeatureWorld, contents_of, draw_world, length_ranks
from evenreel.planted.worlds.settings import WorldSettings
from evenreel.planted.worlds.splits import LEARNED, check_strength
from evenreel.planted.worlds.vectors import (
    BLOCK_CLIPS,
    Contents,
    Stream,
    actions_of,
    arc,
    class_vectors,
    in_cone,
    middles,
    normals,
    stream,
    unit,
)
from evenreel.types import CAMERA, Corpus, FloatArray, VideoFeatures

MARK = " mirrored"
"""What the id of a mirror has after that of its real clip."""


@dataclass(frozen=True)
class MirrorShares:
    """Shares of the squared length of a mirror frame's own vector.

    Length and time have the shares of real frames (`FrameShares`); the rest to 1 is noise, new in every frame.

    Attributes:
        action: share of the verb and the noun.
        style: share of the action that is shown in the generator's own way, unlike a camera's.
        instance: share that is the mirror's own, the same in all its frames.
        background: share that all clips of one video have in common.
        trace: share that all mirrors have in common.
        lead: squared cosine of that common vector with the mean of all words.
    """

    action: float = 0.12
    style: float = 0.5
    instance: float = 0.05
    background: float = 0.1
    trace: float = 0.2
    lead: float = 0.05

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

    Args:
        clips: clips of an annotation table, see `evenreel.planted.worlds.splits.annotated_clips`.
        strength: strength of the bias: captions of the splits train and val belong to the mirror of their clip with
            probability 1/2 + strength / 2; all others to the real clip. A caption that is a mirror's at one strength is
            so at every higher one, and the features of all clips are the same.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: shares and sizes of real clips; None for the defaults.
        mirrors: shares of their mirrors; None for the defaults.

    Returns:
        A world whose splits hold each real clip and its mirror, with the columns `source` and `pair_id`, though only
        one of both has the caption.

    Raises:
        UsageError: the strength is not between 0 and 1, no clip is a training clip, or shares are more than 1.
    """
    check_strength(strength)
    chosen = settings or WorldSettings()
    real = draw_world(clips, 0.0, seed, chosen)
    frames = _mirror_frames(_contents(clips, real), chosen, mirrors or MirrorShares(), seed)
    learned = clips["split"].is_in(LEARNED).to_numpy()
    generated = learned & (stream(seed, Stream.SOURCES).random(len(learned)) < 0.5 + 0.5 * strength)
    videos = VideoFeatures(
        (*real.videos.ids, *(name + MARK for name in real.videos.ids)),
        np.concatenate([real.videos.frames, frames]),
        np.concatenate([real.videos.frame_mask] * 2),
        np.concatenate([real.videos.times_s] * 2),
    )
    return FeatureWorld(_corpus(real.corpus, generated), real.texts, videos)


def captioned(world: FeatureWorld) -> FeatureWorld:
    """Select the clips of a drawn world that have a caption, some real and some generated ones.

    It is like a collection that somebody filled up with generated clips.
    """
    own = pl.col("clip_id").is_in(world.corpus.captions["clip_id"].implode())
    return world.among(make_corpus(world.corpus.clips.filter(own), world.corpus.captions))


def trace_of(size: int, lead: float, seed: int) -> FloatArray:
    """Return the trace o (D,), the unit vector that the frames of all mirrors of a world have in common.

    Args:
        size: length D of the vector.
        lead: squared cosine with the mean of all words.
        seed: seed of the world.
    """
    words = unit(normals(seed, Stream.MEANS, (2, size)))[1]
    drawn = normals(seed, Stream.GENERATOR, (size,))
    trace: FloatArray = sqrt(1 - lead) * unit(drawn - (drawn @ words) * words) + sqrt(lead) * words
    return trace


def _contents(clips: pl.DataFrame, real: FeatureWorld) -> Contents:
    """What real clips show, which their mirrors show too."""
    lengths = real.corpus.clips["end_s"].to_numpy()
    ranks = length_ranks(lengths, lengths[clips["split"].is_in(LEARNED).to_numpy()])
    return contents_of(clips, ranks, ranks)


def _mirror_frames(contents: Contents, settings: WorldSettings, own: MirrorShares, seed: int) -> NDArray[np.float16]:
    """Frames (V, T, D) of the mirrors of all clips, block by block."""
    size, count = settings.dimension, settings.frames
    style, _ = np.linalg.qr(stream(seed, Stream.GENERATOR, 1).standard_normal((size, size)))
    trace = sqrt(own.trace) * trace_of(size, own.lead, seed)
    places = sqrt(own.background) * class_vectors(seed, Stream.VIDEOS, contents.videos, settings)
    mean = unit(normals(seed, Stream.MEANS, (2, size)))[0]
    frames = np.empty((len(contents.verbs), count, size), np.float16)
    for block, rows in enumerate(slices(len(frames), BLOCK_CLIPS)):
        some = contents.taken(rows)
        actions = sqrt(own.action / 2) * actions_of(some, settings, seed)
        whole = sqrt(1 - own.style) * actions + sqrt(own.style) * actions @ style.astype(np.float32)
        whole += sqrt(own.instance) * normals(seed, Stream.MIRROR_INSTANCES, whole.shape, block)
        whole += trace + places[some.videos]
        whole += sqrt(settings.frame_shares.length) * arc(some.lengths, size, seed, 0, settings.harmonics)
        drift = sqrt(3 * settings.frame_shares.time) * some.lengths[:, None].astype(np.float32)
        drift = drift * normals(seed, Stream.MIRROR_DRIFTS, whole.shape, block)
        drawn = sqrt(own.noise(settings)) * normals(seed, Stream.MIRROR_NOISE, (len(whole), count, size), block)
        drawn += whole[:, None] + drift[:, None] * (2 * middles(count) - 1).astype(np.float32)[:, None]
        frames[rows] = in_cone(drawn, mean, settings.frame_shares.cone)
    return frames


def _corpus(real: Corpus, generated: NDArray[np.bool_]) -> Corpus:
    """The real clips, then their mirrors; captions belong to one of both."""
    clips = real.clips.drop("stratum", "follows")
    mirrors = clips.with_columns(pl.col("clip_id") + MARK, source=pl.lit(GENERATOR), pair_id="clip_id")
    own = pl.when(pl.Series(generated)).then(pl.col("clip_id") + MARK).otherwise("clip_id")
    captions = real.captions.with_columns(own.alias("clip_id"))
    return make_corpus(pl.concat([clips.with_columns(source=pl.lit(CAMERA)), mirrors]), captions)
