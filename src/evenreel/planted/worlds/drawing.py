"""A world of features for an annotation table, with a bias of lengths of known strength."""

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
    """Clips of an annotation table with one caption each, and the features that were drawn for them.

    Attributes:
        corpus: tables; clips have a column that says what is planted in each. Where lengths are biased, `stratum` is
            that of length which their noun keeps to, from 0 for the shortest, and `follows` says whether their length
            is of that stratum, among the clips that are learned from and selected on or among those of the test.
        texts: features of the captions, in the order of the corpus.
        videos: features of the clips, in the order of the corpus.
    """

    corpus: Corpus
    texts: TextFeatures
    videos: VideoFeatures

    def split(self, name: str) -> FeatureWorld:
        """Select the clips and captions of a split."""
        return self.among(select(self.corpus, split=name))

    def among(self, part: Corpus) -> FeatureWorld:
        """Select the clips and captions of a part of the corpus, which may give a caption another clip."""
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
    """Draw a world of features in which the length of a training clip stands in for its action.

    Args:
        clips: clips of an annotation table, see `evenreel.planted.worlds.splits.annotated_clips`; those of the
            splits train and val are biased, all others are the same at every strength.
        strength: probability that a biased clip has a length of its noun's stratum; at 0 lengths and actions are
            independent.
        seed: seed of all draws; the same arguments give the same bytes.
        settings: shares and sizes; None for `evenreel.planted.worlds.lengths.LENGTH_WORLD`.

    Raises:
        UsageError: the strength is not between 0 and 1, or no clip is a training clip.
    """
    chosen = settings or LENGTH_WORLD
    biased = bias_lengths(clips, strength, chosen.strata, seed)
    return world_of(biased.clips, contents_of(biased.clips, biased.lengths, biased.lasting), chosen, seed)


class BiasedLengths(NamedTuple):
    """V annotated clips with lengths that were given to them.

    Attributes:
        clips: the clips, with the columns `stratum` and `follows`, see `FeatureWorld`.
        lengths: (V,) rank of each clip's length, see `Contents`.
        lasting: (V,) rank of each clip's noun by length, see `Contents`.
    """

    clips: pl.DataFrame
    lengths: Column
    lasting: Column


def bias_lengths(clips: pl.DataFrame, strength: float, count: int, seed: int) -> BiasedLengths:
    """Give annotated clips lengths that stand in for their nouns.

    Args:
        clips: see `draw_world`.
        strength: probability that a biased clip has a length of its noun's stratum.
        count: K, number of strata.
        seed: seed of the world.

    Raises:
        UsageError: the strength is not between 0 and 1, or no clip is a training clip.
    """
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
    """Number what annotated clips show.

    Args:
        clips: V clips, see `evenreel.planted.worlds.splits.annotated_clips`.
        lengths: (V,) ranks of length, see `Contents`.
        lasting: (V,) ranks of the noun by length, see `Contents`.
    """
    verbs, nouns = clips["verb"].to_numpy().astype(np.int64), clips["noun"].to_numpy().astype(np.int64)
    return Contents(verbs, nouns, numbers_of(clips["path"]), numbers_of(clips["annotator"]), lengths, lasting)


def world_of(clips: pl.DataFrame, contents: Contents, settings: WorldSettings, seed: int) -> FeatureWorld:
    """Draw the features of annotated clips.

    Args:
        clips: V clips, see `evenreel.planted.worlds.splits.annotated_clips`; further columns are kept.
        contents: what each shows.
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
    """Compute the share of the training clips that are shorter than each clip, ties counted half.

    >>> length_ranks(np.array([1.0, 2.0, 9.0]), np.array([1.0, 2.0])).tolist()
    [0.25, 0.75, 1.0]
    """
    ordered = np.sort(learned)
    below, up_to = (np.searchsorted(ordered, lengths, side=side) for side in ("left", "right"))
    return (below + up_to) / (2 * len(ordered))


def rows_of(ids: Sequence[str] | pl.Series, among: Sequence[str]) -> Indices:
    """Return the row of each id in a table of ids."""
    places = {name: row for row, name in enumerate(among)}
    return np.array([places[name] for name in ids], np.int64)


def numbers_of(names: pl.Series) -> Indices:
    """Number names from 0 in alphabetical order, (V,)."""
    return (names.rank("dense").to_numpy() - 1).astype(np.int64)


def corpus_of(clips: pl.DataFrame, lengths: Column) -> Corpus:
    """Make the tables of annotated clips of some lengths (V,), in seconds, with one caption each."""
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
