"""A drawn world: features for the clips of an annotation table, with a length bias of known strength."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from evenreel.arrays import Column, Indices
from evenreel.corpus import make_corpus, select
from evenreel.planted.worlds.lengths import LENGTH_WORLD, noun_strata, planted_lengths
from evenreel.planted.worlds.settings import WorldSettings
from evenreel.planted.worlds.splits import LEARNED, check_strength, rows_of_splits
from evenreel.planted.worlds.vectors import Contents, Stream, frames_of, middles, stream, words_of
from evenreel.types import Corpus, TextFeatures, VideoFeatures

FPS = 60.0
"""Rate of the frame numbers of a drawn corpus."""


@dataclass(frozen=True, eq=False)
class FeatureWorld:
    """Drawn world: clips of an annotation table with captions, and the features that were drawn for them.

    Attributes:
        corpus: corpus, whose clips have columns that say what is planted. Where lengths are biased, `stratum` is the
            stratum of length that a clip's noun is paired with, from 0 for the shortest, and `follows` whether its
            length is of that stratum, among training and validation clips or among test clips.
        texts: features of the captions, in the order of the corpus.
        videos: features of the clips, in the order of the corpus.
    """

    corpus: Corpus
    texts: TextFeatures
    videos: VideoFeatures

    def split(self, name: str) -> FeatureWorld:
        """Select the clips and captions of a split, with their features."""
        return self.among(select(self.corpus, split=name))

    def among(self, part: Corpus) -> FeatureWorld:
        """Select the clips and captions of a part of the corpus, which may assign captions to other clips."""
        rows = rows_of(part.captions["caption_id"], self.texts.ids)
        texts = TextFeatures(
            tuple(part.captions["caption_id"]),
            self.texts.words[rows],
            self.texts.word_mask[rows],
            self.texts.sentence[rows],
        )
        return FeatureWorld(part, texts, self.videos.taken(rows_of(part.clips["clip_id"], self.videos.ids)))


def draw_world(
    clips: pl.DataFrame, strength: float, seed: int = 0, settings: WorldSettings | None = None
) -> FeatureWorld:
    """Draw a world of features in which the length of a training clip is a shortcut for its action.

    Args:
        clips: clips of an annotation table, see `evenreel.planted.worlds.splits.annotated_clips`; those of the
            splits train and val are biased, all others are the same at every strength.
        strength: probability that a biased clip has a length of its noun's stratum; at 0 lengths and actions are
            independent.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: shares and sizes; None for `evenreel.planted.worlds.lengths.LENGTH_WORLD`.
    """
    chosen = settings or LENGTH_WORLD
    biased = bias_lengths(clips, strength, chosen.strata, seed)
    return world_of(biased.clips, contents_of(biased.clips, biased.lengths, biased.lasting), chosen, seed)


class BiasedLengths(NamedTuple):
    """V annotated clips with the lengths that were assigned to them.

    Attributes:
        clips: the clips, with the columns `stratum` and `follows`, see `FeatureWorld`.
        lengths: (V,) rank of each clip's length among the training clips, 0 to 1.
        lasting: (V,) rank of each clip's noun in the order of lengths, 0 to 1.
    """

    clips: pl.DataFrame
    lengths: Column
    lasting: Column


def bias_lengths(clips: pl.DataFrame, strength: float, count: int, seed: int) -> BiasedLengths:
    """Permute the lengths of annotated clips so that in training a clip's length predicts its noun."""
    check_strength(strength)
    learned = rows_of_splits(clips, LEARNED)
    nouns = clips["noun"].to_numpy().astype(np.int64)
    places = stream(seed, Stream.STRATA).random(int(nouns.max()) + 1)
    strata = noun_strata(places, nouns[learned], count)[nouns]
    lengths = clips["length_s"].to_numpy().copy()
    kept = np.empty(len(strata), np.bool_)
    for number, (part, own) in enumerate(((learned, strength), (~learned, 0.0))):
        given = planted_lengths(lengths[part], strata[part], own, stream(seed, Stream.LENGTHS, number))
        lengths[part], kept[part] = given.lengths, given.strata == strata[part]
    ranks = length_ranks(lengths, lengths[learned])
    lasting = length_ranks(places[nouns], places[nouns[learned]])
    table = clips.with_columns(pl.Series("length_s", lengths), stratum=strata, follows=kept)
    return BiasedLengths(table, ranks, lasting)


def contents_of(clips: pl.DataFrame, lengths: Column, lasting: Column) -> Contents:
    """Return what annotated clips show, as class numbers.

    Args:
        clips: V clips, see `evenreel.planted.worlds.splits.annotated_clips`.
        lengths: (V,) rank of each clip's length, 0 to 1.
        lasting: (V,) rank of each clip's noun in the order of lengths, 0 to 1.
    """
    verbs, nouns = clips["verb"].to_numpy().astype(np.int64), clips["noun"].to_numpy().astype(np.int64)
    return Contents(verbs, nouns, numbers_of(clips["path"]), numbers_of(clips["annotator"]), lengths, lasting)


def world_of(clips: pl.DataFrame, contents: Contents, settings: WorldSettings, seed: int) -> FeatureWorld:
    """Draw the features of annotated clips and their captions.

    Args:
        clips: V clips, see `evenreel.planted.worlds.splits.annotated_clips`; further columns are kept.
        contents: what each clip shows.
        settings: shares and sizes.
        seed: seed of all draws.
    """
    lengths, ids = clips["length_s"].to_numpy(), tuple(clips["clip_id"])
    words = words_of(contents, settings, seed)
    texts = TextFeatures(ids, words.words, np.ones(words.words.shape[:2], np.bool_), words.sentence)
    times_s = lengths[:, None] * middles(settings.frames)
    videos = VideoFeatures(ids, frames_of(contents, settings, seed), np.ones(times_s.shape, np.bool_), times_s)
    return FeatureWorld(corpus_of(clips, lengths), texts, videos)


def length_ranks(lengths: Column, learned: Column) -> Column:
    """Compute the rank (V,) of each clip's length: the share of training clips that are shorter, ties half.

    >>> length_ranks(np.array([1.0, 2.0, 9.0]), np.array([1.0, 2.0])).tolist()
    [0.25, 0.75, 1.0]
    """
    ordered = np.sort(learned)
    below, up_to = (np.searchsorted(ordered, lengths, side=side) for side in ("left", "right"))
    return (below + up_to) / (2 * len(ordered))


def rows_of(ids: Sequence[str] | pl.Series, among: Sequence[str]) -> Indices:
    """Return the row of each id in a list of ids (`among`)."""
    places = {name: row for row, name in enumerate(among)}
    return np.array([places[name] for name in ids], np.int64)


def numbers_of(names: pl.Series) -> Indices:
    """Number the distinct names of a series from 0 in alphabetical order, and return the number of each row (V,)."""
    return (names.rank("dense").to_numpy() - 1).astype(np.int64)


def corpus_of(clips: pl.DataFrame, lengths: Column) -> Corpus:
    """Make a corpus of annotated clips with given lengths (V,) in seconds, and one caption for each clip."""
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
