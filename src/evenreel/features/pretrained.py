"""Mean frame of each clip by a tower before training, used beside features of the trained tower."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from evenreel.corpus.tables import select
from evenreel.errors import FeaturesError
from evenreel.features.load import all_of, find_clips
from evenreel.features.scene_elements import clip_means
from evenreel.types import Corpus, FloatArray, VideoFeatures


class PretrainedMeans(NamedTuple):
    """Means of the frames of V clips by the pretrained tower, (V, D), of any length, and its id."""

    means: FloatArray
    encoder_id: str
    weights_hash: str


def pretrained_means(folder: str | Path, corpus: Corpus, clip_ids: tuple[str, ...]) -> PretrainedMeans:
    """Compute the mean frame of some clips from features of the pretrained tower."""
    found = find_clips(folder, select(corpus, where=pl.col("clip_id").is_in(clip_ids)))
    if found.manifest.streams:
        raise FeaturesError(
            f"The features in {folder} were computed elsewhere, and captions have none in their space; give those of "
            "the encoder before its training."
        )
    videos, _ = found.load()
    means = clip_means(videos)[all_of(clip_ids, videos.ids, folder)]
    return PretrainedMeans(means, found.manifest.encoder_id, found.manifest.weights_hash)


def with_pretrained_means(videos: VideoFeatures, folder: str | Path, corpus: Corpus) -> VideoFeatures:
    """Add pretrained means to the features of clips."""
    return replace(videos, pretrained_mean=pretrained_means(folder, corpus, videos.ids).means)
